"""Topics over HTTP: their settings, pausing, and redriving dead letters.

    PUT    /topics/{topic}    {"max_deliveries": 5}     201 created, 200 replaced: these settings and no others
    PATCH  /topics/{topic}    {"lease_seconds": null}   200: changes these settings; null means the default
    GET    /topics/{topic}                              {"topic": name, …, "settings": {all of them}}: see `inspect`
    DELETE /topics/{topic}                              200, even if the topic does not exist: see `app`
    POST   /topics/{topic}/pause     ?side=in|out|both&seconds=     200 when it is durable
    POST   /topics/{topic}/resume    ?side=in|out|both              200 when it is durable
    POST   /topics/{topic}/redrive   ?limit=&rate=&to=&task=        {"moved": 17, "remaining": 0}

Redrive moves dead letters to their origin, or to the topic `to`; its counts are in the reply even after an error.
`core.settings` defines the settings.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Scope

from miniqueue.access.users import check_settings, check_target
from miniqueue.broker import Broker, Commit
from miniqueue.broker.acts.requests import redrive_task
from miniqueue.broker.model.new_partitions import NewPartitions
from miniqueue.broker.topics.admin import TopicAdmin
from miniqueue.core.options.amounts import parse_limit, parse_rate
from miniqueue.core.options.consume import parse_switch
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.settings.fields import parse_side
from miniqueue.errors import InvalidLineError
from miniqueue.server.asgi.endpoints import ActEndpoint, JsonBodyEndpoint, LongEndpoint
from miniqueue.server.asgi.replies import CREATED, OK, Reply, error_reply, json_reply
from miniqueue.server.asgi.request import query_of, texts_of
from miniqueue.server.asgi.routing import topic_of, topic_within

#: Maximum size of the settings of a topic, many times that of all of them.
MAX_BODY_BYTES: Final = 64 << 10

#: Changes the settings of a topic; returns the commit, and whether the topic was created.
_Act = Callable[[bytes, dict[str, object], NewPartitions], tuple[Commit, bool]]


def topic_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path, except GET and DELETE."""
    admin = broker.admin
    return {
        ("POST", "/topics/{topic}/redrive"): LongEndpoint(partial(_redrive, broker)),
        ("PUT", "/topics/{topic}"): JsonBodyEndpoint(partial(_changed, admin, admin.replace), MAX_BODY_BYTES),
        ("PATCH", "/topics/{topic}"): JsonBodyEndpoint(
            partial(_changed, admin, lambda *change: (admin.change(*change), False)), MAX_BODY_BYTES
        ),
    }


async def _redrive(broker: Broker, is_there: Callable[[], bool], scope: Scope) -> Reply:
    """Redrive dead letters as long as the client waits for the reply."""
    options = query_of(scope, ("limit", "rate", "to", "task"))
    limit = parse_limit(options["limit"]) if "limit" in options else None
    per_second = parse_rate(options["rate"]) if "rate" in options else None
    target = options.get("to")
    check_target(scope.get("user"), target)
    if parse_switch("task", options):
        task = redrive_task(topic_within(scope), limit, per_second, target, broker.clock.now_ms())
        return json_reply(HTTPStatus.OK, {"task": str(await broker.tasks.begin(task))})
    report = await broker.redrive_report(topic_within(scope), limit, per_second, target, is_there)
    counts = {"moved": report.moved, "remaining": report.remaining}
    return json_reply(HTTPStatus.OK, counts) if report.error is None else error_reply(report.error, more=counts)


async def _changed(admin: TopicAdmin, act: _Act, scope: Scope, content: object) -> Reply:
    """Change the settings of a topic; an empty body changes none."""
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InvalidLineError("invalid body; must be a JSON object of settings")
    check_settings(scope.get("user"), content)
    commit, is_new = await admin.carry_out(partial(act, topic_of(scope), content))
    await commit.wait()
    return CREATED if is_new else OK


def pause_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints of pause and resume, by method and path."""

    async def pause(scope: Scope) -> None:
        options = texts_of(scope, ("side", "seconds"))
        seconds = parse_seconds(options["seconds"]) if "seconds" in options else None
        await broker.admin.pause(topic_within(scope), parse_side(options.get("side", "both")), seconds).wait()

    async def resume(scope: Scope) -> None:
        options = texts_of(scope, ("side",))
        await broker.admin.resume(topic_within(scope), parse_side(options.get("side", "both"))).wait()

    return {
        ("POST", "/topics/{topic}/pause"): ActEndpoint(pause),
        ("POST", "/topics/{topic}/resume"): ActEndpoint(resume),
    }
