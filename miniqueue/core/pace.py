"""How fast something may go: so many a second, evenly, after a rest a few at once.

It is one time, the one at which the next would come at an even pace; who is ahead of it by more than `BURST_SECONDS`
waits. A rest is not saved up: after the longest one as many may go at once as in a tenth of a second, but always one.

    may go at once   [····]           of these as many as fit
    now ────────────────┼──▶ next_at  now + BURST_SECONDS
"""

from typing import Final

#: What may be ahead of an even pace: timers are late, and one for each message would cost more than the message.
BURST_SECONDS: Final = 0.1


class Pace:
    """The pace of one thing.

    Args:
      per_second: how many may go each second; more than 0.
    """

    __slots__ = ("_interval_seconds", "_next_at")

    def __init__(self, per_second: float) -> None:
        self._interval_seconds = 1 / per_second
        self._next_at = 0.0

    def room(self, now: float) -> int:
        """Return how many may go at `now`, in seconds on a clock that only goes forward."""
        ahead_seconds = max(self._next_at, now) - now
        if ahead_seconds >= BURST_SECONDS:
            return 0
        return max(1, int((BURST_SECONDS - ahead_seconds) / self._interval_seconds))

    def spend(self, count: int, now: float) -> None:
        """Note that `count` went, never more than there was room for; what did not go after all is negative."""
        self._next_at = max(self._next_at, now) + count * self._interval_seconds

    @property
    def opens_at(self) -> float:
        """From when on there is room; may be past."""
        return self._next_at - BURST_SECONDS
