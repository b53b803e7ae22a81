"""Counts why clients were refused: for the metrics, and for the log once a minute for each reason."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar

from miniqueue.server.repeats import RepeatLimit

LOG_INTERVAL_SECONDS: Final = 60.0

ReasonT = TypeVar("ReasonT", bound=StrEnum)


class Tally(Generic[ReasonT]):
    """Counts by reason. Not for use by several threads at once.

    Args:
      monotonic: the clock of the log's limit, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._counts: Counter[ReasonT] = Counter()
        self._log_limit = RepeatLimit(LOG_INTERVAL_SECONDS, monotonic)

    @property
    def counts(self) -> Mapping[ReasonT, int]:
        """How often each reason has occurred; one that never did may be missing."""
        return self._counts

    def _admit(self, reason: ReasonT) -> int | None:
        """Count one; return how many were not logged before it, or None when this one is not to be logged either."""
        self._counts[reason] += 1
        return self._log_limit.admit(reason)
