"""How long messages waited, as a histogram of fixed size over the last minute.

    ms        ≤1  ≤2  ≤3  ≤5 … ≤7 days, more
    slot 0   [ 9][ 4][ 0][ 1] …                 a slot takes `SLOT_TICKS` ticks; the oldest makes room for the next
    slot 1   [ 2] …

A quantile is the bound of the bucket in which it lies: never too low, and above 1 ms too high by a factor of 2 at most,
or of 4 above a day.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

SLOTS = 6
SLOT_TICKS = 10

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
#: The upper bounds of the buckets; the last one takes everything else.
BOUNDS_MS = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(n * _SECOND for n in (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 30)),
    *(n * _HOUR for n in (1, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 30)),
)
_BUCKETS = len(BOUNDS_MS)


class Latencies:
    """What was noted in the last `SLOTS` slots of time."""

    __slots__ = ("_counts", "_slot")

    def __init__(self) -> None:
        self._counts = array("H", bytes(2 * SLOTS * _BUCKETS))
        self._slot = 0

    def note(self, tick: int, latency_ms: int) -> None:
        """Count one message that waited so long; one from the future did not wait."""
        self._move_to(tick // SLOT_TICKS)
        bucket = min(bisect_left(BOUNDS_MS, latency_ms), _BUCKETS - 1)
        at = self._slot % SLOTS * _BUCKETS + bucket
        self._counts[at] = min(self._counts[at] + 1, 0xFFFF)

    def quantiles_ms(self, tick: int, shares: Sequence[float]) -> list[float] | None:
        """Return the latency within which each of `shares` of the messages stayed; None when there was no message."""
        self._move_to(tick // SLOT_TICKS)
        sums = list(accumulate(sum(self._counts[bucket::_BUCKETS]) for bucket in range(_BUCKETS)))
        return [BOUNDS_MS[bisect_left(sums, share * sums[-1])] for share in shares] if sums[-1] else None

    def _move_to(self, slot: int) -> None:
        """Clear the slots that have not been written since they were used last."""
        for passed in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            start = passed % SLOTS * _BUCKETS
            self._counts[start : start + _BUCKETS] = array("H", bytes(2 * _BUCKETS))
        self._slot = max(self._slot, slot)
