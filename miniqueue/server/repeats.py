"""Saying once what happens a thousand times: a limit for repeated log events.

    admit("refused") -> 0         first time: log it
    admit("refused") -> None      within the interval: hold it back, count it
    admit("refused") -> 2         interval over: log it, with the two that were held back

It knows no logger and reads no clock but the one it is given. What was held back last is told with the next
event of that key only; for totals there are metrics.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class _Repetition:
    next_at_seconds: float
    held_back: int = 0


class RepeatLimit:
    """Lets one event of each key through per interval. Not for use by several threads at once."""

    def __init__(self, interval_seconds: float, monotonic: Callable[[], float], *, max_keys: int = 1000) -> None:
        """Take a clock that returns seconds; at most `max_keys` keys are remembered, the newest ones."""
        self._interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._repetitions: dict[Hashable, _Repetition] = {}

    def admit(self, key: Hashable) -> int | None:
        """Return how many events of `key` were held back since the last one, or None to hold this one back."""
        now = self._monotonic()
        known = self._repetitions.get(key)
        if known is not None and now < known.next_at_seconds:
            known.held_back += 1
            return None
        self._repetitions.pop(key, None)  # so that dict order is the order of the last admission
        if len(self._repetitions) >= self._max_keys:
            del self._repetitions[next(iter(self._repetitions))]
        self._repetitions[key] = _Repetition(now + self._interval_seconds)
        return known.held_back if known else 0
