"""Topics and their settings over HTTP.

    PUT    /topics/{topic}    {"max_deliveries": 5}     201 made, 200 there already: these settings and no others
    PATCH  /topics/{topic}    {"lease_seconds": null}   200: these too; null is the default
    GET    /topics/{topic}                              {"topic": name, …, "settings": {every one}}: see `http_looking`
    DELETE /topics/{topic}                              200, also for a topic that does not exist
    POST   /topics/{topic}/redrive?limit=&rate=         {"moved": 17}, dead letters that are back where they came from

What each setting may be stands in `core.topic_settings`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker, Commit
from miniqueue.core.redrive_options import parse_limit, parse_rate
from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.http_looking import JsonEndpoint, query_of
from miniqueue.server.http_publish import read_body
from miniqueue.server.paths import topic_of, topic_within
from miniqueue.server.replies import CREATED, OK, Reply, error_reply

MAX_BODY_BYTES = 64 << 10

#: Changes a topic, as a JSON object says; returns when it is durable, and whether the topic is new.
_Act = Callable[[bytes, dict[str, object]], tuple[Commit, bool]]


class ChangeTopicEndpoint:
    """Makes a topic, or changes settings."""

    def __init__(self, act: _Act) -> None:
        self._act = act

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await read_body(receive, MAX_BODY_BYTES)
            if body is None:
                return
            reply = await self._changed(topic_of(scope), body)
        except PayloadTooLargeError:
            reply = error_reply(InvalidLineError(f"the body is over {MAX_BODY_BYTES} bytes"))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _changed(self, name: bytes, body: bytes) -> Reply:
        commit, is_new = self._act(name, _settings(body))
        await commit.wait()
        return CREATED if is_new else OK


def topic_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path, but those of GET and DELETE."""
    configurator = broker.configurator
    return {
        ("POST", "/topics/{topic}/redrive"): JsonEndpoint(partial(_redrive, broker)),
        ("PUT", "/topics/{topic}"): ChangeTopicEndpoint(configurator.replace),
        ("PATCH", "/topics/{topic}"): ChangeTopicEndpoint(
            lambda name, settings: (configurator.change(name, settings), False)
        ),
    }


async def _redrive(broker: Broker, scope: Scope) -> object:
    options = query_of(scope, ("limit", "rate"))
    limit = parse_limit(options["limit"].encode()) if "limit" in options else None
    per_second = parse_rate(options["rate"].encode()) if "rate" in options else None
    return {"moved": await broker.redriver.redrive(topic_within(scope), limit, per_second)}


def _settings(body: bytes) -> dict[str, object]:
    """Parse a body; an empty one sets nothing."""
    try:
        content: Any = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the body is not JSON") from exc
    if not isinstance(content, dict):
        raise InvalidLineError("the body is not a JSON object of settings")
    return content
