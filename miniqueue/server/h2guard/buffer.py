"""What an application has sent and the client's window does not take yet: 48 KiB of it, and then the application waits.

Hypercorn's own looks at what was handed out, not at what is left, so a closed window lets it grow without end.
"""

from hypercorn.protocol import h2 as hypercorn_h2

from miniqueue.server.h2guard.deadlines import Stillness


class GuardedBuffer(hypercorn_h2.StreamBuffer):
    """The part of one reply that is still to be sent."""

    def __init__(self, *arguments: type) -> None:
        super().__init__(*arguments)
        self._sent_bytes = 0
        self._stillness = Stillness()

    async def push(self, data: bytes) -> None:
        """Take `data`; wait while there is more than the client takes."""
        if self._complete:
            raise hypercorn_h2.BufferCompleteError
        self.buffer.extend(data)
        await self._is_empty.clear()
        if len(self.buffer) >= hypercorn_h2.BUFFER_HIGH_WATER:
            await self._paused.clear()
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        """Hand out what may be sent; the sender goes on when little is left."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        self._sent_bytes += len(data)
        if len(self.buffer) < hypercorn_h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data

    def stalled_seconds(self, now_seconds: float) -> float:
        """Return for how long the client has taken nothing although there was something."""
        return self._stillness.age(self._sent_bytes if self.buffer else None, now_seconds)
