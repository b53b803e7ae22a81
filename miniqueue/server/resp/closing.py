"""How RESP connections end, apart from QUIT: refused, not read from by the client, or left by it.

Refused: the error must arrive.

    the error is sent ─▶ our half is closed ─▶ what still comes is dropped ─▶ closed
                                                 until the client closes, 2 s, or 16 MiB

    When a kernel closes a socket that has unread bytes, it sends a reset, and the client's kernel then discards what it
    has not delivered yet: a client in the middle of a long message would never see the error.

Slow reader: the replies that the client does not read are bounded, in size and in time.

    the transport's buffer is full ─▶ over 32 MiB? ─▶ cut
                                   └▶ 60 s later, and it was never empty: still over 8 MiB,
                                                                          or memory used up? ─▶ cut

    The connection carries out no more commands meanwhile, so its unread replies exceed a full buffer by one reply or
    one message at most. The figures are those of Redis (client-output-buffer-limit pubsub).

Client gone: the commands that it sent before are carried out, and their replies discarded.

    client leaves ─▶ nothing waits ─────────────────────────────────────────────────▶ the connection ends
                └──▶ commands wait for a commit, room, or a turn ─▶ carried out ──────▲
                                                                     └─ replies are discarded

    A client that sends `PUBLISH`, `LEN`, `PUBLISH` and closes has sent both messages, so both are published, whether
    LEN can be answered or not. No messages are delivered to a client that has left.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from miniqueue.broker.runtime.accounts import MemoryAccount

#: How long, and for how many bytes, a refused client can go on sending while the error is on its way.
LINGER_SECONDS: Final = 2.0
MAX_LINGER_BYTES: Final = 16 << 20
#: Maximum size of unread replies: at any time; and after `UNREAD_SECONDS` in which the client never caught up.
MAX_UNREAD_BYTES: Final = 32 << 20
MAX_LASTING_UNREAD_BYTES: Final = 8 << 20
UNREAD_SECONDS: Final = 60.0


class LingeringClose:
    """Drops what a refused client still sends, within limits.

    Args:
      expired: called when a limit has been reached; closes the connection.
    """

    __slots__ = ("_expired", "_room_bytes", "_timer")

    def __init__(self, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._room_bytes = MAX_LINGER_BYTES
        self._timer: asyncio.TimerHandle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Close our half of a transport on which the error has been written, and read on."""
        self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._expired)
        transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()

    def drop(self, size_bytes: int) -> None:
        """Count bytes that are dropped."""
        self._room_bytes -= size_bytes
        if self._room_bytes < 0:
            self._expired()

    def stop(self) -> None:
        """Stop the timer: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()


class SlowReader:
    """Watches the write buffer of one connection, and cuts the connection if the client does not read.

    Args:
      max_message_bytes: maximum size of a message; there is always room for two.
      max_bytes: replaces `MAX_UNREAD_BYTES`, and a quarter of it `MAX_LASTING_UNREAD_BYTES`.
    """

    __slots__ = ("_max_bytes", "_max_lasting_bytes", "_timer")

    def __init__(self, max_message_bytes: int, max_bytes: int | None = None) -> None:
        max_lasting_bytes = MAX_LASTING_UNREAD_BYTES if max_bytes is None else max_bytes // 4
        self._max_bytes = max(max_bytes or MAX_UNREAD_BYTES, 2 * max_message_bytes)
        self._max_lasting_bytes = max(max_lasting_bytes, 2 * max_message_bytes)
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, transport: asyncio.WriteTransport, cut: Callable[[], None], account: MemoryAccount) -> None:
        """Start to watch a buffer that is full; `cut` ends the connection, `account` is charged for the buffer."""
        if transport.get_write_buffer_size() > self._max_bytes:
            cut()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(UNREAD_SECONDS, self._check, transport, cut, account)

    def stop(self) -> None:
        """Stop watching: the client has caught up, or has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, transport: asyncio.WriteTransport, cut: Callable[[], None], account: MemoryAccount) -> None:
        self._timer = None
        if transport.get_write_buffer_size() > self._max_lasting_bytes or account.first_over() is not None:
            cut()
        else:
            self.watch(transport, cut, account)


class GoneTransport(asyncio.Transport):
    """Replaces the transport of a client that has gone: discards replies.

    Args:
      connection_lost: called once, in the event-loop iteration after `close` or `abort`, as by any transport.
    """

    def __init__(self, connection_lost: Callable[[None], None]) -> None:
        super().__init__()
        self._connection_lost: Callable[[None], None] | None = connection_lost  # None: closed

    def write(self, data: object) -> None:
        """Discard a reply."""

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing waits for the client."""
        return 0

    def can_write_eof(self) -> bool:
        """Return False: there is no half to close."""
        return False

    def is_reading(self) -> bool:
        """Return False: nothing more comes."""
        return False

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        """Return whether it has been closed."""
        return self._connection_lost is None

    def close(self) -> None:
        """Report the end of the connection."""
        if self._connection_lost is not None:
            asyncio.get_running_loop().call_soon(self._connection_lost, None)
            self._connection_lost = None  # The connection refers to its transport: no cycle may remain.

    abort = close
