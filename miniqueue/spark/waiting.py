"""How long the rows of a task wait for their broker, and when a warning says so: a task that waits must say why.

    a broker that accepts no rows ─ 2 s ─▶ log ─ 10 s ─▶ log ─ 20 s ─▶ log ─ 40 s ─▶ … ─ blockSeconds ─▶ the task fails

The intervals are minimums and count over all requests of a task: the more often a topic is full, the rarer the
warnings.
"""

import logging
import time
from collections.abc import Callable

log = logging.getLogger("miniqueue.spark")

#: Waits shorter than this are not logged: a restart, or a topic that is full for a moment.
QUIET_SECONDS = 2.0
#: Interval between the first two warnings; it doubles with each of them.
FIRST_INTERVAL_SECONDS = 10.0


class Waiting:
    """The waits of the requests of one task, one after the other.

    Args:
      broker: the broker's address for the log, without secrets.
      block_seconds: maximum wait of each request.
      clock: returns seconds that never decrease.
    """

    def __init__(self, broker: str, block_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._block_seconds = block_seconds
        self._clock = clock
        self._interval_seconds = FIRST_INTERVAL_SECONDS
        self._tell_at = float("-inf")
        self.begin()

    def begin(self) -> None:
        """Start the wait of the next request."""
        self._began_at = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether the request has waited for `block_seconds`."""
        return self._clock() > self._began_at + self._block_seconds

    def tell(self, error: Exception) -> None:
        """Log that the request waits, and why, unless the wait is short or was logged recently."""
        now = self._clock()
        if now < max(self._began_at + QUIET_SECONDS, self._tell_at):
            return
        remaining_seconds = max(0.0, self._began_at + self._block_seconds - now)  # can be infinity
        log.warning("rows wait for %s, up to %.0f s more: %s", self._broker, remaining_seconds, error)
        self._tell_at = now + self._interval_seconds
        self._interval_seconds *= 2
