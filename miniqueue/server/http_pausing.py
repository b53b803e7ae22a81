"""How HTTP clients pause topics.

POST /topics/{topic}/pause       ?side=in|out|both&seconds=     200 when it is durable
POST /topics/{topic}/resume      ?side=in|out|both
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker, Commit
from miniqueue.core.delay import parse_delay
from miniqueue.core.pause import parse_side
from miniqueue.errors import MiniqueueError
from miniqueue.server.http_query import query_of
from miniqueue.server.paths import topic_within
from miniqueue.server.replies import OK, error_reply


class _Endpoint:
    def __init__(self, act: Callable[[Scope], Commit]) -> None:
        self._act = act

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = OK
        try:
            await self._act(scope).wait()
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)


def pause_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return what answers each route, by method and path."""

    def pause(scope: Scope) -> Commit:
        options = query_of(scope, ("side", "seconds"))
        seconds = parse_delay(options["seconds"]) if "seconds" in options else None
        return broker.pauser.pause(topic_within(scope), parse_side(options.get("side", "both")), seconds)

    def resume(scope: Scope) -> Commit:
        options = query_of(scope, ("side",))
        return broker.pauser.resume(topic_within(scope), parse_side(options.get("side", "both")))

    return {
        ("POST", "/topics/{topic}/pause"): _Endpoint(pause),
        ("POST", "/topics/{topic}/resume"): _Endpoint(resume),
    }
