"""The end of a RESP connection whose client was told what it did wrong.

    the reply is sent ─▶ our half is closed ─▶ what still comes is thrown away ─▶ closed
                                                 until the client ends it, 2 s, 16 MiB

A kernel that closes a socket with bytes in it that nobody has read sends a reset, and at that the client's kernel
forgets what it has not handed on yet: a client in the middle of a long message would never see the reply.
"""

import asyncio
from typing import Final

LINGER_SECONDS: Final = 2.0
MAX_THROWN_AWAY_BYTES: Final = 16 << 20


class Farewell:
    """Closes a transport in such a way that the last reply arrives.

    Args:
      transport: on which that reply is written before `close`.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._room_bytes = MAX_THROWN_AWAY_BYTES
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    @property
    def is_under_way(self) -> bool:
        """Whether nothing more is sent."""
        return self._timer is not None

    def close(self) -> None:
        """Close our half, the other one before long; when called again, at once.

        The last reply may wait for a commit longer than the client has waited.
        """
        if self._is_over:
            return
        if self.is_under_way or not self._transport.can_write_eof():  # uvloop's TLS throws away by itself what comes
            self._transport.close()
            return
        self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        self._transport.write_eof()
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def throw_away(self, size_bytes: int) -> None:
        """Take note of bytes that came meanwhile."""
        self._room_bytes -= size_bytes
        if self._room_bytes < 0:
            self._transport.close()

    def end(self) -> None:
        """The connection is gone, and its transport is not to be touched any more: uvloop would raise."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
