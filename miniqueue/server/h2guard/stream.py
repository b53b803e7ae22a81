"""One request, on either protocol: what of its body was not read, how long the body takes, and who still works on it.

Over HTTP/2 an application may answer with `EMPTY_REPLY`, an extension of ASGI, where the reply has no body: that is one
frame. Begun and ended as ASGI has it, it is two, and the whole request takes a fifth more instructions.

Knows Hypercorn's streams; does not know the connection that it is on.
"""

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
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

from miniqueue.server.h2guard.deadlines import BodyDeadline
from miniqueue.server.h2guard.limits import limits_of
from miniqueue.server.problems import problem
from miniqueue.server.replies import EMPTY_REPLY, INTERNAL_ERROR

#: So much of a body is read before the client may send as much again; a small one is settled when the request ends.
REPORT_BYTES = 8192


@dataclass(frozen=True)
class BodyRead(StreamEvent):
    """The application has taken this much of a request's body."""

    size_bytes: int


@dataclass(frozen=True)
class Abandoned(StreamEvent):
    """The application has ended with a request that was over before."""


@dataclass(frozen=True)
class EmptyReply(StreamEvent):
    """A reply that ends with its headers."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]


class GuardedStream(HTTPStream):
    """A request that knows how much of its body the application has not read; so much less may the client send.

    Attributes:
      unread_bytes: of the body, that came and was not read.
      unreported_bytes: of the body, that were read and of which the connection has not been told.
      is_abandoned: whether the end of the application shall be told.
    """

    def __init__(self, app: AppWrapper, *arguments: Any) -> None:  # noqa: ANN401 - as upstream has them
        super().__init__(cast(AppWrapper, partial(self._run, app)), *arguments)
        self.unread_bytes = 0
        self.unreported_bytes = 0
        self.is_abandoned = False
        self._received_bytes = 0
        self._is_whole = False
        self._deadline: BodyDeadline | None = None

    def handle(self, event: StreamEvent) -> Coroutine[Any, Any, None]:
        """Count, and pass on."""
        if isinstance(event, Body):
            self.unread_bytes += len(event.data)
            self._received_bytes += len(event.data)
        elif isinstance(event, EndBody):
            self._is_whole = not self.closed
        return super().handle(event)

    def is_body_late(self, now_seconds: float) -> bool:
        """Tell whether the client takes too long to send what must be there before it is answered."""
        if self._is_whole or self.state is not ASGIHTTPState.REQUEST:
            return False
        if self._deadline is None:
            self._deadline = BodyDeadline(limits_of(self.config).body_seconds)
        return self._deadline.is_over(self._received_bytes, self.unread_bytes, now_seconds)

    async def answer_late(self) -> None:
        """Answer in place of the application, which sees its client leave."""
        self.state = ASGIHTTPState.CLOSED
        reply = problem(408)
        await self.send(Response(self.stream_id, reply.headers, 408))
        await self.send(Body(self.stream_id, reply.body))
        await self.send(EndBody(self.stream_id))
        await self.send(StreamClosed(self.stream_id))

    def app_send(self, message: ASGISendEvent | None) -> Coroutine[Any, Any, None]:
        """Take in what the application says; None when it has ended."""
        if message is not None and message["type"] == EMPTY_REPLY:
            return self._send_empty(cast(HTTPResponseStartEvent, message))  # it has the same fields
        if message is None and self.state is ASGIHTTPState.REQUEST and not self.closed:
            return self._answer_failure()
        return super().app_send(message)

    async def _send_empty(self, message: HTTPResponseStartEvent) -> None:
        if self.state is ASGIHTTPState.REQUEST:
            self.state = ASGIHTTPState.CLOSED
            await self.send(EmptyReply(self.stream_id, message["status"], message["headers"]))
            await self.send(StreamClosed(self.stream_id))

    async def _answer_failure(self) -> None:
        """Answer for an application that has ended without a reply; Hypercorn's own answer has no body."""
        await INTERNAL_ERROR(cast(Any, self.scope), cast(Any, None), cast(Any, self.app_send))
        await super().app_send(None)

    async def _report(self) -> None:
        size_bytes, self.unreported_bytes = self.unreported_bytes, 0
        await self.send(BodyRead(self.stream_id, size_bytes))

    async def _run(self, app: AppWrapper, scope: Scope, receive: ASGIReceiveCallable, *others: Any) -> None:  # noqa: ANN401 - the same
        async def receive_and_report() -> ASGIReceiveEvent:
            message = await receive()
            if message["type"] == "http.request" and (size_bytes := len(message["body"])):
                self.unread_bytes -= size_bytes
                self.unreported_bytes += size_bytes
                if self.unreported_bytes >= REPORT_BYTES:
                    await self._report()
                if self._is_whole and not self.unread_bytes:
                    await receive()  # it says only that this was the end
                    message["more_body"] = False
            return message

        if self.scope["http_version"] == "2":
            self.scope["extensions"][EMPTY_REPLY] = {}
        try:
            await app(scope, receive_and_report, *others)
        finally:
            if self.is_abandoned:
                await self.send(Abandoned(self.stream_id))
