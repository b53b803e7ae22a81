"""The clocks, as something that can be handed in: that of the wall, and one that nobody can set."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time, which may step, forwards and back, and a time that does not."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def next_ms(self) -> int:
        """The same, rounded up: what begins now and counts from here is never over early."""
        ...

    def monotonic(self) -> float:
        """Seconds since some time in the past; no clock that is set changes them."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def next_ms(self) -> int:
        """The same, rounded up."""
        return -(-time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        """Seconds since some time in the past."""
        return time.monotonic()
