"""The requests that go on for as long as their client likes, and their end when the server stops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from miniqueue.access.users import User
from miniqueue.errors import DrainingError


class OpenStream(Protocol):
    """A request without an end of its own."""

    def end(self) -> None:
        """Answer what there is, and then end the response."""
        ...


class OpenStreams:
    """Knows every such request, so that all can be ended."""

    def __init__(self) -> None:
        self._streams: dict[OpenStream, User | None] = {}
        self._waiting: dict[OpenStream, None] = {}
        self._is_draining = False

    @contextmanager
    def holding(self, stream: OpenStream, user: User | None = None, *, only_waits: bool = False) -> Iterator[None]:
        """Know of `stream`, whose it is, and whether it holds nothing while it waits, while the block runs."""
        self._streams[stream] = user
        if only_waits:
            self._waiting[stream] = None
        try:
            yield
        finally:
            del self._streams[stream]
            self._waiting.pop(stream, None)

    def answer_waiting(self) -> None:
        """End those that only wait; the others go on."""
        for stream in list(self._waiting):
            stream.end()

    def check(self) -> None:
        """Raise DrainingError when no stream may begin any more."""
        if self._is_draining:
            raise DrainingError

    def drain(self) -> None:
        """End every stream now, and let none begin."""
        self._is_draining = True
        for stream in self._streams:
            stream.end()

    def cut_off(self, is_current: Callable[[User], bool]) -> None:
        """End the streams of users who are not what they were."""
        for stream, user in self._streams.items():
            if user is not None and not is_current(user):
                stream.end()
