"""Topics and their settings over HTTP.

    PUT    /topics/{topic}    {"max_deliveries": 5}     201 made, 200 there already: these settings and no others
    PATCH  /topics/{topic}    {"lease_seconds": null}   200: these too; null is the default
    GET    /topics/{topic}                              {"topic": name, …, "settings": {every one}}: see `http_looking`
    DELETE /topics/{topic}                              200, also for a topic that does not exist
    POST   /topics/{topic}/redrive?limit=&rate=&to=     {"moved": 17, "remaining": 0}, dead letters that are back where
                                                        they came from; both stand beside "error", too

What each setting may be stands in `core.topic_settings`.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker, Commit
from miniqueue.core.redrive_options import parse_limit, parse_rate
from miniqueue.errors import InvalidLineError, MiniqueueError
from miniqueue.server.dead_letter_rights import check_dead_letters, check_target
from miniqueue.server.http_json import JsonBodyEndpoint
from miniqueue.server.http_query import query_of
from miniqueue.server.leaving import listening
from miniqueue.server.paths import topic_of, topic_within
from miniqueue.server.replies import CREATED, OK, Reply, error_reply, json_reply

MAX_BODY_BYTES: Final = 64 << 10

#: Changes a topic, as a JSON object says; returns when it is durable, and whether the topic is new.
_Act = Callable[[bytes, dict[str, object]], tuple[Commit, bool]]


def topic_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path, but those of GET and DELETE."""
    configurator = broker.configurator
    return {
        ("POST", "/topics/{topic}/redrive"): RedriveEndpoint(broker),
        ("PUT", "/topics/{topic}"): JsonBodyEndpoint(partial(_changed, configurator.replace), MAX_BODY_BYTES),
        ("PATCH", "/topics/{topic}"): JsonBodyEndpoint(
            partial(_changed, lambda name, settings: (configurator.change(name, settings), False)), MAX_BODY_BYTES
        ),
    }


class RedriveEndpoint:
    """Redrives as long as the client waits for the reply."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with listening(receive) as is_there:
            try:
                reply = await _redrive(self._broker, is_there, scope)
            except MiniqueueError as error:
                reply = error_reply(error)
            await reply(scope, receive, send)


async def _redrive(broker: Broker, is_there: Callable[[], bool], scope: Scope) -> Reply:
    options = query_of(scope, ("limit", "rate", "to"))
    limit = parse_limit(options["limit"].encode()) if "limit" in options else None
    per_second = parse_rate(options["rate"].encode()) if "rate" in options else None
    target = options["to"].encode() if "to" in options else None
    check_target(scope.get("user"), target)
    report = await broker.redriver.report(topic_within(scope), limit, per_second, target, is_there)
    counts = {"moved": report.moved, "remaining": report.remaining}
    return json_reply(HTTPStatus.OK, counts) if report.error is None else error_reply(report.error, more=counts)


async def _changed(act: _Act, scope: Scope, content: object) -> Reply:
    """Change a topic as a document says; none sets nothing."""
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InvalidLineError("the body is not a JSON object of settings")
    check_dead_letters(scope.get("user"), content)
    commit, is_new = act(topic_of(scope), content)
    await commit.wait()
    return CREATED if is_new else OK
