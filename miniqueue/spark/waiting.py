"""How long the rows of a task wait for their broker, and what is told of that: what stands still is to say why.

    a broker that takes none ─ 2 s ─▶ told ─ 10 s ─▶ told ─ 20 s ─▶ told ─ 40 s ─▶ … ─ blockSeconds ─▶ the task fails

Times between are at least so long, over all requests of a task: a topic that is full again and again is told of less
and less.
"""

import logging
import time
from collections.abc import Callable

log = logging.getLogger("miniqueue.spark")

#: So long a broker may restart, and a topic be full, before it is worth a line.
QUIET_SECONDS = 2.0
FIRST_INTERVAL_SECONDS = 10.0


class Waiting:
    """What the requests of one task wait for, one after the other.

    Args:
      broker: as it can be shown.
      block_seconds: how long each request may wait.
      clock: tells seconds.
    """

    def __init__(self, broker: str, block_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._block_seconds = block_seconds
        self._clock = clock
        self._interval_seconds = FIRST_INTERVAL_SECONDS
        self._tell_at = float("-inf")
        self.begin()

    def begin(self) -> None:
        """Begin with the next request."""
        self._began_at = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether the request has waited for too long."""
        return self._clock() > self._began_at + self._block_seconds

    def tell(self, error: Exception) -> None:
        """Have it in the log that the request waits, and what for, unless that was told just now."""
        now = self._clock()
        if now < max(self._began_at + QUIET_SECONDS, self._tell_at):
            return
        left = max(0.0, self._began_at + self._block_seconds - now)  # which may be inf
        log.warning("rows wait for %s, up to %.0f s more: %s", self._broker, left, error)
        self._tell_at = now + self._interval_seconds
        self._interval_seconds *= 2
