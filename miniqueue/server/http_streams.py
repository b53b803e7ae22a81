"""The requests that go on for as long as their client likes, and their end when the server stops."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from miniqueue.errors import DrainingError


class OpenStream(Protocol):
    """A request without an end of its own."""

    def end(self) -> None:
        """Answer what there is, and then end the response."""
        ...


class OpenStreams:
    """Knows every such request, so that all can be ended."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._is_draining = False

    @contextmanager
    def holding(self, stream: OpenStream) -> Iterator[None]:
        """Know of `stream` while the block runs."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    def check(self) -> None:
        """Raise DrainingError when no stream may begin any more."""
        if self._is_draining:
            raise DrainingError

    def drain(self) -> None:
        """End every stream now, and let none begin."""
        self._is_draining = True
        for stream in self._streams:
            stream.end()
