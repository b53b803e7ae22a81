"""The horizon: the time up to which delayed messages are due."""

import math

from miniqueue.broker.runtime.clock import Clock
from miniqueue.errors import InvalidDelayError

#: Maximum delay, in milliseconds: added to any time of the clock, the due time fits in 63 bits.
MAX_TIME_MS = 1 << 62


class Horizon:
    """Defines which delayed messages are due: those up to the time of the broker's last tick.

    Args:
      clock: returns the time.

    Attributes:
      clock: the clock that was passed in.
      at_ms: the time of the last tick, or an earlier time if the clock was set back since then.
    """

    __slots__ = ("at_ms", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.at_ms = 0

    def advance(self) -> None:
        """Move the horizon to the current time: messages that are due by now become ready."""
        self.at_ms = self.clock.now_ms()

    def due_at_ms(self, delay_seconds: float) -> int:
        """Return when a message that is delayed from now on is due: never early, and never before the next tick.

        Raises InvalidDelayError if the delay is negative, not a number, or too long.
        """
        if not 0 <= delay_seconds < MAX_TIME_MS / 1000:
            raise InvalidDelayError
        begin_ms = self.clock.next_ms()
        self.at_ms = min(self.at_ms, begin_ms)  # The clock may have been set back since the last tick.
        return max(begin_ms + math.ceil(delay_seconds * 1000), self.at_ms + 1)
