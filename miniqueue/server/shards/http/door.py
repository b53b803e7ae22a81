"""The door of a process for HTTP: requests about topics of other shards are passed on to their owners.

    path ─▶ route ─▶ its topic ─▶ own ─▶ the application of this process
               │        ├─▶ of another shard ─▶ a tunnel to its owner
               │        └─▶ spread ─▶ tunnels to the owners of its parts
               └─ no topic, but all shards have a part ─▶ a route of `shared_routes`

The door authenticates the client, once for each connection. The owner checks what the user may do, as it would at its
own door, so that nothing is shown or done that one process would not.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.rights import ROUTES, RequiredRight
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message.parts import SEPARATOR
from miniqueue.errors import InvalidTopicError, MiniqueueError
from miniqueue.server.asgi.authorization import AuthMiddleware
from miniqueue.server.asgi.browser_pages import is_from_another_site
from miniqueue.server.asgi.replies import error_reply
from miniqueue.server.asgi.request import HttpActor
from miniqueue.server.asgi.routing import finder_of_topic, route_below_topic
from miniqueue.server.shards.http.owners import Owners

#: The memory of a request that is passed on, besides that of the request itself, about.
PASSED_BYTES: Final = 20 << 10

#: Answers a request whose client is authenticated; raises MiniqueueError.
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class SpreadTopics(Protocol):
    """Answers requests that name spread topics."""

    def handler(self, method: str, route: str, topic: bytes) -> Handler | None:
        """Return what answers a request; None if the topic is not spread: its owner does."""
        ...


class HttpDoor:
    """An application whose clients may use the topics of all shards.

    Args:
      app: the application of this process.
      gate: authenticates clients; None if there are no users.
      owners: the owners of all shards.
      memory: the accounts of the memory that clients use.
      shared: the handlers of routes without a topic in the path that concern all shards, by method and route.
      spread: answers requests that name spread topics.
    """

    def __init__(
        self,
        app: ASGIApp,
        gate: AuthMiddleware | None,
        owners: Owners,
        memory: Memory,
        shared: Mapping[tuple[str, str], Handler],
        spread: SpreadTopics,
    ) -> None:
        self._spread = spread
        self._app = app
        self._gate = gate
        self._owners = owners
        self._memory = memory
        self._shared = shared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        handler = self._handler(scope) if scope["type"] == "http" else None
        if handler is None or is_from_another_site(scope["headers"]):
            await self._app(scope, receive, send)
            return
        actor = HttpActor(scope, self._memory)
        CURRENT_ACTOR.set(actor)
        try:
            if self._gate is not None:
                scope["user"] = user = await self._gate.user_of(scope)
                self._gate.assign(scope, user)
        except MiniqueueError as exc:
            await error_reply(exc)(scope, receive, send)
            return
        account = actor.account
        account.add(Purpose.REQUESTS, PASSED_BYTES)
        try:
            await handler(scope, receive, send)
        except MiniqueueError as exc:
            await error_reply(exc)(scope, receive, send)
        finally:
            account.add(Purpose.REQUESTS, -PASSED_BYTES)

    def _handler(self, scope: Scope) -> Handler | None:
        """Return what answers a request; None if it concerns this shard alone, or its route is unknown."""
        route, needs = route_of(scope)
        if needs is None:
            return None
        if needs.topic_at is None and "{topic}" not in route:
            return self._shared.get((scope["method"], route))
        placing, topic = self._owners.placing, finder_of_topic(route)(scope)
        if SEPARATOR in topic:  # no client can name a part
            return error_reply(InvalidTopicError())
        handler = self._spread.handler(scope["method"], route, topic)
        if handler is not None:
            return handler
        shard = placing.shard_of(topic)
        return None if shard == placing.number else partial(self._owners.pass_on, shard)


def route_of(scope: Scope) -> tuple[str, RequiredRight | None]:
    """Return the route of a request, and the right that it requires; None if there is no such route."""
    path: str = scope["path"]
    parent, slash, last = path.rpartition("/")
    if slash and last:
        for route in (parent + "/{topic}", route_below_topic(path)) if parent else (path, "/{topic}"):
            needs = ROUTES.get((scope["method"], route))
            if needs is not None:
                return route, needs
    return path, None
