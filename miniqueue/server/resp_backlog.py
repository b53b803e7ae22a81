"""What a RESP client was sent and does not take: how much of it there may be, and for how long.

    the transport has too much ─▶ over 32 MiB? ─▶ cut
                                └▶ 60 s later, and it never took it all: still over 8 MiB? ─▶ cut

The connection carries out no more commands meanwhile, so a backlog is what one reply or one message adds to a full
buffer. The figures are those of Redis (client-output-buffer-limit pubsub).
"""

import asyncio
from collections.abc import Callable
from typing import Final

MAX_BYTES: Final = 32 << 20
MAX_LASTING_BYTES: Final = 8 << 20
LASTING_SECONDS: Final = 60.0


class Backlog:
    """Watches the buffer of one connection.

    Args:
      max_message_bytes: there is room for two messages, if these limits are for small ones.
      cut: ends the connection.
      max_bytes: instead of `MAX_BYTES`, and a quarter of it instead of `MAX_LASTING_BYTES`.
    """

    def __init__(self, max_message_bytes: int, cut: Callable[[], None], max_bytes: int | None = None) -> None:
        max_lasting_bytes = MAX_LASTING_BYTES if max_bytes is None else max_bytes // 4
        self._max_bytes = max(max_bytes or MAX_BYTES, 2 * max_message_bytes)
        self._max_lasting_bytes = max(max_lasting_bytes, 2 * max_message_bytes)
        self._cut = cut
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, transport: asyncio.WriteTransport) -> None:
        """The peer does not keep up."""
        if transport.get_write_buffer_size() > self._max_bytes:
            self._cut()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LASTING_SECONDS, self._look_again, transport)

    def forget(self) -> None:
        """The peer keeps up, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_again(self, transport: asyncio.WriteTransport) -> None:
        self._timer = None
        if transport.get_write_buffer_size() > self._max_lasting_bytes:
            self._cut()
        else:
            self.watch(transport)
