"""The clocks, as a protocol that tests can replace: a wall clock, and a monotonic clock that cannot be set."""

import time
from typing import Protocol

#: If more than this many periods pass between two ticks, the broker did not run in the meantime: that is a gap.
MAX_GAP_PERIODS = 3
#: A shorter time is not a gap, however short the period: a busy machine has such stalls.
MIN_GAP_SECONDS = 3.0


def is_gap(seconds: float, period_seconds: float) -> bool:
    """Whether the time between two ticks is so long that the broker did not run in the meantime."""
    return seconds > max(MAX_GAP_PERIODS * period_seconds, MIN_GAP_SECONDS)


class Clock(Protocol):
    """Returns the wall-clock time, which can step forward and back, and a monotonic time, which cannot."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def next_ms(self) -> int:
        """Milliseconds since 1970, rounded up: a period that is counted from here never ends early."""
        ...

    def monotonic(self) -> float:
        """Seconds since some time in the past; setting a clock does not change them."""
        ...


class SystemClock:
    """The clocks of the machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def next_ms(self) -> int:
        """Milliseconds since 1970, UTC, rounded up."""
        return -(-time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        """Seconds since some time in the past."""
        return time.monotonic()
