"""A rate limiter: N per second, evenly spaced, with small bursts after a pause.

Its state is one time, `next_at`: when the next delivery would be due at an even pace. A delivery may be at most
`BURST_SECONDS` ahead of it. Pauses are not saved up: after the longest pause, the deliveries of a tenth of a second may
happen at once, and always at least one.

    may go at once   [····]           as many as fit before now + BURST_SECONDS
    now ────────────────┼──▶ next_at  now + BURST_SECONDS
"""

from typing import Final

#: How far deliveries may be ahead of an even pace: timers are late, and a timer for each message would cost more than
#: the message.
BURST_SECONDS: Final = 0.1


class RateLimiter:
    """Limits the rate of one kind of delivery.

    Args:
      per_second: maximum rate; more than 0.
    """

    __slots__ = ("_interval_seconds", "_next_at")

    def __init__(self, per_second: float) -> None:
        self._interval_seconds = 1 / per_second
        self._next_at = 0.0

    def room(self, now: float) -> int:
        """Return how many deliveries are allowed at `now`, in seconds on the monotonic clock."""
        ahead_seconds = max(self._next_at, now) - now
        if ahead_seconds >= BURST_SECONDS:
            return 0
        return max(1, int((BURST_SECONDS - ahead_seconds) / self._interval_seconds))

    def spend(self, count: int, now: float) -> None:
        """Count deliveries, at most as many as `room` returned; a negative `count` takes deliveries back."""
        self._next_at = max(self._next_at, now) + count * self._interval_seconds

    @property
    def opens_at(self) -> float:
        """The time from which on there is room; it may have passed."""
        return self._next_at - BURST_SECONDS
