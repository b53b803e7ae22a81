"""Requests that last until their client or the server ends them: streams, and requests that wait for an answer.

    request ─▶ StreamEndpoint ─ begin ─▶ a stream ─▶ OpenStreams holds it as long as it runs
                   └ it is refused: an error           └ the client leaves, its user is removed, the server stops: `end`

A stream that only waits holds no leased messages; it ends when the server is about to stop, before the others.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from starlette.types import Receive, Scope, Send

from miniqueue.access.users import User
from miniqueue.errors import DrainingError, MiniqueueError
from miniqueue.server.asgi.replies import Reply, error_reply
from miniqueue.server.asgi.request import until_gone

AnswerT = TypeVar("AnswerT")


class OpenStream(Protocol):
    """A request without an end of its own."""

    def end(self) -> None:
        """Send the answers that are due, then end the response."""
        ...


class RunningStream(OpenStream, Protocol):
    """A stream that answers its request."""

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request until its client or `end` ends it."""
        ...


class OpenStreams:
    """All open streams of the HTTP port, so that the server can end them."""

    def __init__(self) -> None:
        self._streams: dict[OpenStream, User | None] = {}
        self._waiting: dict[OpenStream, None] = {}
        self._is_draining = False

    @contextmanager
    def holding(self, stream: OpenStream, user: User | None = None, *, only_waits: bool = False) -> Iterator[None]:
        """Register `stream` of `user` while the block runs; one that `only_waits` has no leased messages."""
        self._streams[stream] = user
        if only_waits:
            self._waiting[stream] = None
        try:
            yield
        finally:
            del self._streams[stream]
            self._waiting.pop(stream, None)

    def answer_waiting(self) -> None:
        """End the streams that only wait; the others continue."""
        for stream in list(self._waiting):
            stream.end()

    def check(self) -> None:
        """Raise DrainingError if new streams are rejected."""
        if self._is_draining:
            raise DrainingError

    def drain(self) -> None:
        """End every stream now, and reject new ones."""
        self._is_draining = True
        for stream in self._streams:
            stream.end()

    def cut_off(self, is_current: Callable[[User], bool]) -> None:
        """End the streams of users who were removed or changed."""
        for stream, user in self._streams.items():
            if user is not None and not is_current(user):
                stream.end()


class StreamEndpoint:
    """Begins a stream for each request, and runs it.

    Args:
      streams: holds the open streams.
      begin: returns the stream of a request; raises MiniqueueError if the request is refused.
      only_waits: whether the streams have no leased messages.
    """

    def __init__(
        self, streams: OpenStreams, begin: Callable[[Scope], RunningStream], *, only_waits: bool = False
    ) -> None:
        self._streams = streams
        self._begin = begin
        self._only_waits = only_waits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            self._streams.check()
            stream = self._begin(scope)
        except MiniqueueError as error:
            await error_reply(error)(scope, receive, send)
            return
        with self._streams.holding(stream, scope.get("user"), only_waits=self._only_waits):
            await stream.run(scope, receive, send)


class WaitsForAnswer(ABC, Generic[AnswerT]):
    """A request that waits for one answer of the broker, until its client disconnects.

    The broker calls `answer` or `fail`.
    """

    def __init__(self) -> None:
        self._answered: asyncio.Future[AnswerT] | None = asyncio.get_running_loop().create_future()

    def answer(self, answer: AnswerT) -> None:
        """Accept the answer; ignored if the server has cancelled the request."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(answer)

    def fail(self, error: MiniqueueError) -> None:
        """Accept an error as the answer; ignored if the server has cancelled the request."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)

    @abstractmethod
    def end(self) -> None:
        """Stop waiting: withdraw the request from the broker, if it is not answered yet."""

    @abstractmethod
    async def obtain(self, receive: Receive) -> Reply | None:
        """Wait for the answer; return the reply, or None if the client has disconnected. Raises MiniqueueError."""

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, unless its client disconnects before."""
        try:
            reply = await self.obtain(receive)
        except MiniqueueError as error:
            reply = error_reply(error)
        finally:
            self._answered = None
            self.end()
        if reply is not None:
            await reply(scope, receive, send)

    async def wait(self, receive: Receive) -> AnswerT | None:
        """Return the answer, or None if the client has disconnected; raises the error that `fail` was called with."""
        answered = self._answered
        assert answered is not None  # it waits once
        listener = None if answered.done() else self._listen(receive)
        try:
            answer = await answered
        except MiniqueueError:
            if listener is not None and listener.done():
                return None
            raise
        else:
            return None if listener is not None and listener.done() else answer
        finally:
            if listener is not None:
                listener.cancel()
            del answered
            self._answered = None  # it keeps its error, whose traceback keeps this frame

    def _listen(self, receive: Receive) -> asyncio.Task[None]:
        """Call `end` when the client has disconnected."""
        listener = asyncio.ensure_future(until_gone(receive))
        listener.add_done_callback(lambda _: self.end())
        return listener
