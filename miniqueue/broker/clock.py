"""The wall clock, as something that can be handed in."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time; it may step, forwards and back."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def next_ms(self) -> int:
        """The same, rounded up: what begins now and counts from here is never over early."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def next_ms(self) -> int:
        """The same, rounded up."""
        return -(-time.time_ns() // 1_000_000)
