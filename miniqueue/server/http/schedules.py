"""Schedules over HTTP: messages that are published at regular times.

PUT    /schedules/{name}    {"topic":"reports","cron":"0 9 * * MON-FRI","tz":"Europe/Berlin","text":"now"}
                            {"topic":"beats","every":30,"missed":"none","msg":"eA=="}   201 created, 200 replaced
                            {"topic":"offers","every":60,"until":1700000000000,"text":"now","key":"shop","ttl":30,
                             "priority":"high","headers":{"kind":"sale"}}
GET    /schedules/{name}    the schedule, with its name and its next tick
POST   /schedules/{name}/fire    publishes its message now: {"id":"0-17"}
GET    /schedules           a page of schedules: ?after=&count=
DELETE /schedules/{name}
"""

import binascii
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Scope

from miniqueue.broker import Broker
from miniqueue.broker.delays.schedules import Listed
from miniqueue.broker.inspect.peeked import MAX_COUNT, parse_count
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.durations import parse_time_ms
from miniqueue.core.options.publish import parse_members
from miniqueue.core.settings import schedule as schedules
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.errors import InvalidLineError
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint, JsonEndpoint
from miniqueue.server.asgi.replies import CREATED, OK, Reply
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import topic_of, topic_within
from miniqueue.wire.attribute_words import as_json, attribute_words
from miniqueue.wire.json_bytes import take_payload

#: Maximum size of a body besides its message; the message itself is a third longer in base64.
MAX_MORE_BYTES: Final = 64 << 10
_OF_MESSAGES: Final = {"headers", *schedules.PUBLISH_OPTIONS}
_MEMBERS: Final = {"topic", "cron", "tz", "every", "missed", "until", "text", "msg"} | _OF_MESSAGES


def schedule_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    max_body_bytes = 2 * broker.max_message_bytes + MAX_MORE_BYTES
    return {
        ("PUT", "/schedules/{name}"): JsonBodyEndpoint(partial(_put, broker), max_body_bytes),
        ("GET", "/schedules/{name}"): JsonEndpoint(partial(_get, broker)),
        ("GET", "/schedules"): JsonEndpoint(partial(_list, broker)),
        ("POST", "/schedules/{name}/fire"): JsonEndpoint(partial(_fire, broker)),
        ("DELETE", "/schedules/{name}"): JsonEndpoint(partial(_delete, broker)),
    }


async def _put(broker: Broker, scope: Scope, content: object) -> Reply:
    commit, is_new = broker.scheduler.set(topic_of(scope), parse_schedule(content))
    await commit.wait()
    return CREATED if is_new else OK


def parse_schedule(members: object) -> Schedule:
    """Return the schedule that the body of a PUT describes; raises RequestError."""
    if not isinstance(members, dict):
        raise InvalidLineError("invalid body; must be a JSON object")
    if unknown := members.keys() - _MEMBERS:
        raise InvalidLineError(f"unknown member: {min(unknown)!r}; must be one of {', '.join(sorted(_MEMBERS))}")
    options = parse_members({name: members[name] for name in _OF_MESSAGES & members.keys()})
    until_ms = parse_time_ms(str(members["until"]), "until") if "until" in members else None
    return _rule(members)._replace(options=options, until_ms=until_ms)


def _rule(members: dict[str, Any]) -> Schedule:
    if ("cron" in members) is ("every" in members) or ("every" in members and "tz" in members):
        raise InvalidLineError("invalid schedule; must have either every, or cron and optionally tz")
    payload = take_payload(members)
    texts = {name: _text(members, name) for name in members.keys() - {"every", "until"} - _OF_MESSAGES}
    topic = texts.get("topic", "").encode()
    missed = schedules.parse_missed(texts["missed"]) if "missed" in texts else Missed.ALL
    if "every" in members:
        return Schedule(topic, payload, every_ms=schedules.parse_every_ms(str(members["every"])), missed=missed)
    return Schedule(topic, payload, texts["cron"], zone=texts.get("tz", schedules.UTC), missed=missed)


def _text(members: Mapping[str, Any], name: str) -> str:
    if not isinstance(members[name], str):
        raise InvalidLineError(f"invalid {name}; must be a string")
    text: str = members[name]
    return text


async def _get(broker: Broker, scope: Scope) -> object:
    listed = await broker.scheduler.get(topic_of(scope))
    return _shown(listed) | {"msg": binascii.b2a_base64(listed.schedule.payload, newline=False).decode()}


async def _list(broker: Broker, scope: Scope) -> object:
    options = query_of(scope, ("after", "count"))
    count = parse_count(options["count"]) if "count" in options else MAX_COUNT
    page = await broker.scheduler.page(options.get("after", b""), count)
    return {"schedules": [_shown(listed) for listed in page]}


async def _fire(broker: Broker, scope: Scope) -> object:
    accepted = await broker.scheduler.fire(topic_within(scope))
    await accepted.commit.wait()
    return {"id": accepted.message_id.decode()}


async def _delete(broker: Broker, scope: Scope) -> object:
    name = topic_of(scope)
    await broker.scheduler.delete(name).wait()
    return {"deleted": name.decode()}


def _shown(listed: Listed) -> dict[str, object]:
    """Return the members of a schedule in replies, except the payload."""
    schedule = listed.schedule
    return {
        **{"name": listed.name.decode(), "topic": whole_of(schedule.topic).decode()},
        **({"cron": schedule.cron, "tz": schedule.zone} if schedule.cron else {"every": schedule.every_ms / 1000}),
        **{"missed": schedule.missed.value, "nextAtMs": listed.next_at_ms},
        **({} if schedule.until_ms is None else {"untilMs": schedule.until_ms}),
        **schedule.option_members(),
        **{str(name): as_json(value) for name, value in attribute_words(schedule.attributes).items()},
    }
