"""`GET /events`: what happens in the broker, as server-sent events, as long as the client listens.

    broker ─▶ Listener, with a buffer ─▶ writer ─▶ id, event, data │ a comment every 15 s

If the client does not read, the writer waits, and the broker drops what the buffer has no room for.
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.users import User
from miniqueue.broker import Broker
from miniqueue.broker.runtime.accounts import account_of
from miniqueue.broker.runtime.notices import Listener, NoticeKind, Notices, parse_kinds
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.server.asgi.replies import start_message
from miniqueue.server.asgi.request import query_of, until_gone
from miniqueue.server.http.open_streams import OpenStreams, StreamEndpoint
from miniqueue.server.views.events import SSE_HEARTBEAT, sees_events, sse_event

#: Interval between comments, which keep proxies from closing a stream on which nothing happens.
HEARTBEAT_SECONDS: Final = 15.0
_START: Final = start_message(
    HTTPStatus.OK,
    [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ],
)


def event_endpoints(broker: Broker, streams: OpenStreams) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoint of the route, by method and path."""
    return {("GET", "/events"): StreamEndpoint(streams, partial(_listen, broker), only_waits=True)}


def _listen(broker: Broker, scope: Scope) -> "_EventStream":
    types = query_of(scope, ("types",)).get("types", b"")
    kinds = parse_kinds(types.split(b",") if types else ())
    broker.memory.check()
    return _EventStream(broker.notices, kinds, scope.get("user"))


class _EventStream:
    """The stream of one request, which listens from its construction to the end of `run`; raises LimitReachedError."""

    def __init__(self, notices: Notices, kinds: frozenset[NoticeKind], user: User | None) -> None:
        self._has_news = asyncio.Event()
        self._notices = notices
        self._is_ended = False
        account = account_of(CURRENT_ACTOR.get())
        self._listener = Listener(kinds, lambda topic: sees_events(user, topic), account, self._has_news.set)
        notices.listen(self._listener)

    def end(self) -> None:
        """End the stream after what waits."""
        self._is_ended = True
        self._has_news.set()

    async def run(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens until the client or `end` ends the stream."""
        watching = asyncio.ensure_future(until_gone(receive))
        watching.add_done_callback(lambda _: self.end())
        try:
            await send(_START)
            await send({"type": "http.response.body", "body": SSE_HEARTBEAT, "more_body": True})
            while not self._is_ended:
                body = await self._next()
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            watching.cancel()
            self._notices.leave(self._listener)

    async def _next(self) -> bytes:
        """Return what has happened, or a comment if nothing has for a while."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._has_news.wait()
        except TimeoutError:
            return SSE_HEARTBEAT
        self._has_news.clear()
        return b"".join(map(sse_event, self._listener.take(self._notices.now_ms())))
