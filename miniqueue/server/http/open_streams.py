"""Requests that last until their client or the server ends them: streams, and requests that wait for an answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from starlette.types import Receive

from miniqueue.access.users import User
from miniqueue.errors import DrainingError, MiniqueueError
from miniqueue.server.asgi.request import until_gone

AnswerT = TypeVar("AnswerT")


class OpenStream(Protocol):
    """A request without an end of its own."""

    def end(self) -> None:
        """Send the answers that are due, then end the response."""
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


class WaitsForAnswer(Generic[AnswerT]):
    """A request that waits for one answer of the broker, until its client disconnects.

    The broker calls `answer` or `fail`. A subclass defines `end`, which withdraws the request from the broker.
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

    def end(self) -> None:
        """Stop waiting: withdraw the request from the broker."""
        raise NotImplementedError

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
