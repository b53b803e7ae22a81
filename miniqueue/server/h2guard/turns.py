"""Whose data a connection sends next: the streams that have some take turns.

    ready:  3  5  9     ─▶ 3, and then:   5  9  3

It stands in for Hypercorn's tree of priorities, which RFC 9113 has given up and whose frames are ignored anyway: a heap
of Python objects, a twelfth of what a request cost. Knows nothing of what is sent.
"""

from priority.priority import DeadlockError, MissingStreamError


class Turns:
    """The streams of one connection; the methods are those of the tree, as far as they are used."""

    __slots__ = ("_ready", "_streams")

    def __init__(self) -> None:
        self._streams: set[int] = set()
        self._ready: dict[int, None] = {}

    def insert_stream(self, stream_id: int) -> None:
        """Know a stream, which is ready."""
        self._streams.add(stream_id)
        self._ready[stream_id] = None

    def remove_stream(self, stream_id: int) -> None:
        """Forget a stream; raises MissingStreamError."""
        self._check(stream_id)
        self._streams.discard(stream_id)
        self._ready.pop(stream_id, None)

    def block(self, stream_id: int) -> None:
        """Pass a stream by until it is unblocked; raises MissingStreamError."""
        self._check(stream_id)
        self._ready.pop(stream_id, None)

    def unblock(self, stream_id: int) -> None:
        """Let a stream have its turn again; raises MissingStreamError."""
        self._check(stream_id)
        self._ready[stream_id] = None

    def __next__(self) -> int:
        """Return the stream whose turn it is; raises DeadlockError when there is none."""
        stream_id = next(iter(self._ready), None)
        if stream_id is None:
            raise DeadlockError("every stream is blocked")
        del self._ready[stream_id]
        self._ready[stream_id] = None
        return stream_id

    def _check(self, stream_id: int) -> None:
        if stream_id not in self._streams:
            raise MissingStreamError(f"stream {stream_id} is not known")
