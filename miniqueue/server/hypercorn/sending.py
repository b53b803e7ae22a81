"""Data that a connection has still to send: the buffer of each reply, and the order of the streams.

The buffer limits what an application has sent and the client's window does not allow yet: at 48 KiB, the application
waits. Hypercorn's own buffer checks the data that was sent instead of the data that remains, so that a closed window
lets it grow without limit.

The streams with data send in turn:

    ready:  3  5  9     ─▶ 3, and then:   5  9  3

This order replaces Hypercorn's priority tree, which RFC 9113 has deprecated and whose frames are ignored anyway: a heap
of Python objects that cost a twelfth of each request. Knows nothing of the content.
"""

from hypercorn.protocol import h2 as hypercorn_h2
from priority.priority import DeadlockError, MissingStreamError

from miniqueue.server.hypercorn.limits import Stillness


class GuardedBuffer(hypercorn_h2.StreamBuffer):
    """The unsent part of one reply."""

    def __init__(self, *arguments: type) -> None:
        super().__init__(*arguments)
        self._sent_bytes = 0
        self._stillness = Stillness()

    async def push(self, data: bytes) -> None:
        """Add `data`; wait while the buffer is full."""
        if self._complete:
            raise hypercorn_h2.BufferCompleteError
        self.buffer.extend(data)
        await self._is_empty.clear()
        if len(self.buffer) >= hypercorn_h2.BUFFER_HIGH_WATER:
            await self._paused.clear()
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        """Remove and return data to send; resume the application when little remains."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        self._sent_bytes += len(data)
        if len(self.buffer) < hypercorn_h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data

    def stalled_seconds(self, now_seconds: float) -> float:
        """Return the time since the client last accepted data, in seconds; 0 if there is none to send."""
        return self._stillness.age(self._sent_bytes if self.buffer else None, now_seconds)


class StreamRoundRobin:
    """The streams of one connection; has the methods of the priority tree that Hypercorn uses."""

    __slots__ = ("_ready", "_streams")

    def __init__(self) -> None:
        self._streams: set[int] = set()
        self._ready: dict[int, None] = {}

    def insert_stream(self, stream_id: int) -> None:
        """Add a stream, which is ready to send."""
        self._streams.add(stream_id)
        self._ready[stream_id] = None

    def remove_stream(self, stream_id: int) -> None:
        """Remove a stream; raises MissingStreamError."""
        self._check(stream_id)
        self._streams.discard(stream_id)
        self._ready.pop(stream_id, None)

    def block(self, stream_id: int) -> None:
        """Skip a stream until it is unblocked; raises MissingStreamError."""
        self._check(stream_id)
        self._ready.pop(stream_id, None)

    def unblock(self, stream_id: int) -> None:
        """Mark a stream as ready to send; raises MissingStreamError."""
        self._check(stream_id)
        self._ready[stream_id] = None

    def __next__(self) -> int:
        """Return the stream that sends next; raises DeadlockError if there is none."""
        stream_id = next(iter(self._ready), None)
        if stream_id is None:
            raise DeadlockError("every stream is blocked")
        del self._ready[stream_id]
        self._ready[stream_id] = None
        return stream_id

    def _check(self, stream_id: int) -> None:
        if stream_id not in self._streams:
            raise MissingStreamError(f"stream {stream_id} is not known")
