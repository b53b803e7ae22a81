"""Limits for repeated log events, and counts of rejections by reason.

    admit("refused") -> 0         first time: log it
    admit("refused") -> None      within the interval: do not log it, count it
    admit("refused") -> 2         interval over: log it, with the number of events that were not logged

Knows no logger, and reads only the clock that it receives. The last suppressed events of a key are reported only with
the next event of that key; the metrics have the totals.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar


@dataclass(slots=True)
class _Repetition:
    next_at_seconds: float
    held_back: int = 0


class LogRateLimit:
    """Admits one event of each key per interval. Not thread-safe."""

    def __init__(self, interval_seconds: float, monotonic: Callable[[], float], *, max_keys: int = 1000) -> None:
        """Create the limit.

        Args:
          interval_seconds: minimum time between two admitted events of a key.
          monotonic: the clock, in seconds.
          max_keys: maximum number of remembered keys; the oldest are forgotten first.
        """
        self._interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._repetitions: dict[Hashable, _Repetition] = {}

    def admit(self, key: Hashable) -> int | None:
        """Return the number of events of `key` suppressed since the last admitted one, or None to suppress this one."""
        now = self._monotonic()
        repetition = self._repetitions.get(key)
        if repetition is not None and now < repetition.next_at_seconds:
            repetition.held_back += 1
            return None
        self._repetitions.pop(key, None)  # keeps the dictionary in the order of admissions
        if len(self._repetitions) >= self._max_keys:
            del self._repetitions[next(iter(self._repetitions))]
        self._repetitions[key] = _Repetition(now + self._interval_seconds)
        return repetition.held_back if repetition else 0


#: Interval of log lines with the same reason.
LOG_INTERVAL_SECONDS: Final = 60.0

ReasonT = TypeVar("ReasonT", bound=StrEnum)


class ReasonCounter(Generic[ReasonT]):
    """Counts events by reason, and limits their log lines. Not thread-safe.

    Args:
      monotonic: the clock of the limit, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._counts: Counter[ReasonT] = Counter()
        self._log_limit = LogRateLimit(LOG_INTERVAL_SECONDS, monotonic)

    @property
    def counts(self) -> Mapping[ReasonT, int]:
        """Number of events by reason; reasons that never occurred may be missing."""
        return self._counts

    def admit(self, reason: ReasonT) -> int | None:
        """Count an event; return the number of events not logged before it, or None if this one is not to be logged."""
        self._counts[reason] += 1
        return self._log_limit.admit(reason)
