"""Schedules over HTTP: messages that are published over and over.

PUT    /schedules/{name}    {"topic":"reports","cron":"0 9 * * MON-FRI","tz":"Europe/Berlin","text":"now"}
                            {"topic":"beats","every":30,"missed":"none","msg":"eA=="}      201 made, 200 replaced
GET    /schedules/{name}    the same, with its name and its next tick
GET    /schedules           a page of them: ?after=&count=
DELETE /schedules/{name}
"""

import binascii
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Scope

from miniqueue.broker import Broker
from miniqueue.broker.peeking import MAX_COUNT, parse_count
from miniqueue.broker.scheduling import Listed
from miniqueue.core import schedule as schedules
from miniqueue.core.schedule import Missed, Schedule
from miniqueue.errors import InvalidLineError
from miniqueue.server.http_json import JsonBodyEndpoint, JsonEndpoint
from miniqueue.server.http_query import query_of
from miniqueue.server.paths import topic_of
from miniqueue.server.replies import CREATED, OK, Reply

#: Beside the message, which base64 makes a third longer.
MAX_MORE_BYTES: Final = 64 << 10
_MEMBERS: Final = {"topic", "cron", "tz", "every", "missed", "text", "msg"}


def schedule_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    max_body_bytes = 2 * broker.max_message_bytes + MAX_MORE_BYTES
    return {
        ("PUT", "/schedules/{name}"): JsonBodyEndpoint(partial(_put, broker), max_body_bytes),
        ("GET", "/schedules/{name}"): JsonEndpoint(partial(_get, broker)),
        ("GET", "/schedules"): JsonEndpoint(partial(_list, broker)),
        ("DELETE", "/schedules/{name}"): JsonEndpoint(partial(_delete, broker)),
    }


async def _put(broker: Broker, scope: Scope, content: object) -> Reply:
    if not isinstance(content, dict):
        raise InvalidLineError("the body is not a JSON object")
    commit, is_new = broker.scheduler.set(topic_of(scope), _schedule(content))
    await commit.wait()
    return CREATED if is_new else OK


def _schedule(members: Mapping[str, Any]) -> Schedule:
    if unknown := members.keys() - _MEMBERS:
        raise InvalidLineError(f"a schedule has no {min(unknown)!r}")
    if ("cron" in members) is ("every" in members) or ("every" in members and "tz" in members):
        raise InvalidLineError("a schedule has cron, and tz if need be, or every")
    texts = {name: _text(members, name) for name in members.keys() - {"every"}}
    topic, payload = texts.get("topic", "").encode(), _payload(texts)
    missed = schedules.parse_missed(texts["missed"]) if "missed" in texts else Missed.ALL
    if "every" in members:
        return Schedule(topic, payload, every_ms=schedules.parse_every_ms(str(members["every"])), missed=missed)
    return Schedule(topic, payload, texts["cron"], zone=texts.get("tz", schedules.UTC), missed=missed)


def _text(members: Mapping[str, Any], name: str) -> str:
    if not isinstance(members[name], str):
        raise InvalidLineError(f"{name} is not a string")
    text: str = members[name]
    return text


def _payload(texts: Mapping[str, str]) -> bytes:
    if ("text" in texts) is ("msg" in texts):
        raise InvalidLineError("a schedule has its message as text or, in base64, as msg")
    try:
        return texts["text"].encode() if "text" in texts else binascii.a2b_base64(texts["msg"], strict_mode=True)
    except ValueError as exc:
        raise InvalidLineError("msg is not base64") from exc


async def _get(broker: Broker, scope: Scope) -> object:
    found = await broker.scheduler.get(topic_of(scope))
    return _told(found) | {"msg": binascii.b2a_base64(found.schedule.payload, newline=False).decode()}


async def _list(broker: Broker, scope: Scope) -> object:
    options = query_of(scope, ("after", "count"))
    count = parse_count(options["count"].encode()) if "count" in options else MAX_COUNT
    page = await broker.scheduler.page(options.get("after", "").encode(), count)
    return {"schedules": [_told(found) for found in page]}


async def _delete(broker: Broker, scope: Scope) -> object:
    name = topic_of(scope)
    await broker.scheduler.delete(name).wait()
    return {"deleted": name.decode()}


def _told(found: Listed) -> dict[str, object]:
    """Return all but the payload."""
    one = found.schedule
    rule: dict[str, object] = {"cron": one.cron, "tz": one.zone} if one.cron else {"every": one.every_ms / 1000}
    return {
        **{"name": found.name.decode(), "topic": one.topic.decode()},
        **rule,
        **{"missed": one.missed.value, "nextAtMs": found.next_at_ms},
    }
