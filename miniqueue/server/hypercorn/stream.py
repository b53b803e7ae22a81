"""One request, on either protocol: its unread body, the deadline of its body, and the end of its application.

Over HTTP/2, an application can answer with `EMPTY_REPLY`, our extension of ASGI, if the reply has no body: that is one
frame. In standard ASGI, start and end are two frames, and the whole request takes a fifth more instructions.

Knows Hypercorn's streams; does not know their connection.
"""

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from hypercorn.protocol.events import Body, EndBody, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendEvent,
    HTTPResponseStartEvent,
    Scope,
)

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.server.asgi.replies import EMPTY_REPLY, INTERNAL_ERROR, problem
from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.server.hypercorn.limits import CHARGED_BYTES, BodyDeadline, limits_of

#: Number of body bytes that are read before the client may send that many again; the rest is reported when the request
#: ends.
REPORT_BYTES = 8192


@dataclass(frozen=True)
class BodyRead(StreamEvent):
    """The application has read this many bytes of a request's body."""

    size_bytes: int


@dataclass(frozen=True)
class Abandoned(StreamEvent):
    """The application of a request has ended, after the request itself."""


@dataclass(frozen=True)
class EmptyReply(StreamEvent):
    """A reply that ends with its headers."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]


class GuardedStream(HTTPStream):
    """A request that counts the unread bytes of its body, by which the client's window is reduced.

    Attributes:
      unread_bytes: number of bytes of the body that have arrived but were not read.
      unreported_bytes: number of bytes that were read but not yet reported to the connection.
      is_abandoned: whether the end of the application is to be reported.
    """

    def __init__(self, app: AppWrapper, *arguments: Any) -> None:  # noqa: ANN401 - upstream's signature
        super().__init__(cast(AppWrapper, partial(self._run, app)), *arguments)
        self.unread_bytes = 0
        self.unreported_bytes = 0
        self._charged_bytes = 0
        self.is_abandoned = False
        self._received_bytes = 0
        self._is_whole = False
        self._deadline: BodyDeadline | None = None

    def handle(self, event: StreamEvent) -> Coroutine[Any, Any, None]:
        """Count the bytes of the body, and pass the event to the application."""
        if isinstance(event, Body):
            self.unread_bytes += len(event.data)
            self._received_bytes += len(event.data)
            if self._received_bytes >= CHARGED_BYTES and not self._may_keep():
                return self.answer_early(HTTPStatus.TOO_MANY_REQUESTS)
        elif isinstance(event, EndBody):
            self._is_whole = not self.closed
        return super().handle(event)

    def is_body_late(self, now_seconds: float) -> bool:
        """Whether the client takes too long to send the body of a request that has no reply yet."""
        if self._is_whole or self.state is not ASGIHTTPState.REQUEST:
            return False
        if self._deadline is None:
            self._deadline = BodyDeadline(limits_of(self.config).body_seconds)
        return self._deadline.is_over(self._received_bytes, self.unread_bytes, now_seconds)

    def _may_keep(self) -> bool:
        """Charge what has arrived of a large body; return whether there is memory for it."""
        account: MemoryAccount | None = self.scope["state"].get(ACCOUNT_KEY)
        if account is None or self.state is not ASGIHTTPState.REQUEST:
            return True
        change = self._received_bytes - self._charged_bytes
        if change >= CHARGED_BYTES:
            self._charged_bytes += change
            account.add(Purpose.INPUT, change)
        return not account.process.over_count or account.first_over() is None

    def _release(self) -> None:
        """Give back what was charged for the body."""
        if self._charged_bytes:
            self.scope["state"][ACCOUNT_KEY].add(Purpose.INPUT, -self._charged_bytes)
            self._charged_bytes = 0

    async def answer_early(self, status: HTTPStatus) -> None:
        """Answer instead of the application, to which the client appears disconnected."""
        self.state = ASGIHTTPState.CLOSED
        self._release()
        reply = problem(status)
        await self.send(Response(self.stream_id, reply.headers, status))
        await self.send(Body(self.stream_id, reply.body))
        await self.send(EndBody(self.stream_id))
        await self.send(StreamClosed(self.stream_id))

    def app_send(self, message: ASGISendEvent | None) -> Coroutine[Any, Any, None]:
        """Process a message of the application; None means that it has ended."""
        if message is not None and message["type"] == EMPTY_REPLY:
            return self._send_empty(cast(HTTPResponseStartEvent, message))  # which has the same fields
        if message is None and self.state is ASGIHTTPState.REQUEST and not self.closed:
            return self._answer_failure()
        return super().app_send(message)

    async def _send_empty(self, message: HTTPResponseStartEvent) -> None:
        if self.state is ASGIHTTPState.REQUEST:
            self.state = ASGIHTTPState.CLOSED
            await self.send(EmptyReply(self.stream_id, message["status"], message["headers"]))
            await self.send(StreamClosed(self.stream_id))

    async def _answer_failure(self) -> None:
        """Answer 500 for an application that ended without a reply; Hypercorn's own answer has no body."""
        await INTERNAL_ERROR(cast(Any, self.scope), cast(Any, None), cast(Any, self.app_send))
        await super().app_send(None)

    async def _report(self) -> None:
        size_bytes, self.unreported_bytes = self.unreported_bytes, 0
        await self.send(BodyRead(self.stream_id, size_bytes))

    async def _run(self, app: AppWrapper, scope: Scope, receive: ASGIReceiveCallable, *others: Any) -> None:  # noqa: ANN401 - upstream's
        async def receive_and_report() -> ASGIReceiveEvent:
            message = await receive()
            if message["type"] == "http.request" and (size_bytes := len(message["body"])):
                self.unread_bytes -= size_bytes
                self.unreported_bytes += size_bytes
                if self.unreported_bytes >= REPORT_BYTES:
                    await self._report()
                if self._is_whole and not self.unread_bytes:
                    await receive()  # contains nothing but the end of the body
                    message["more_body"] = False
            return message

        if self.scope["http_version"] == "2":
            self.scope["extensions"][EMPTY_REPLY] = {}
        try:
            await app(scope, receive_and_report, *others)
        finally:
            self._release()
            if self.is_abandoned:
                await self.send(Abandoned(self.stream_id))
