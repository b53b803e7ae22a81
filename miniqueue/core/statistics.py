"""Statistics of the last minute, of fixed size: a histogram of latencies, and counts of events per second.

`Latencies` counts how long messages waited:

    ms        ≤1  ≤2  ≤3  ≤5 … ≤7 days, more
    slot 0   [ 9][ 4][ 0][ 1] …                 a slot covers `SLOT_TICKS` ticks; the next one replaces the oldest
    slot 1   [ 2] …

A quantile is the upper bound of its bucket: never too low, and above 1 ms at most twice too high, above a day at most
four times.

`Activity` counts events of several kinds, tick by tick:

    tick      57   58   59   60   61            a tick is a second, or the time between two samples
    ring   … [ 3][ 0][ 7][  ][  ] …             the slots of skipped ticks are cleared

Neither reads a clock: the caller passes the number of the tick.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

#: Number of slots of the histogram, and the ticks that each covers: one minute in all.
SLOTS = 6
SLOT_TICKS = 10

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
#: The upper bounds of the buckets; the last bucket also counts longer times.
BOUNDS_MS = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(n * _SECOND for n in (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 30)),
    *(n * _HOUR for n in (1, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 30)),
)
_BUCKETS = len(BOUNDS_MS)


class Latencies:
    """The latencies in the last `SLOTS` slots."""

    __slots__ = ("_counts", "_slot")

    def __init__(self) -> None:
        self._counts = array("H", bytes(2 * SLOTS * _BUCKETS))
        self._slot = 0

    def note(self, tick: int, latency_ms: int) -> None:
        """Count a message; a negative latency, from a clock that was set back, counts as none."""
        self._move_to(tick // SLOT_TICKS)
        bucket = min(bisect_left(BOUNDS_MS, latency_ms), _BUCKETS - 1)
        at = self._slot % SLOTS * _BUCKETS + bucket
        self._counts[at] = min(self._counts[at] + 1, 0xFFFF)

    def quantiles_ms(self, tick: int, shares: Sequence[float]) -> list[float] | None:
        """Return the quantiles of these shares; None if there was no message."""
        self._move_to(tick // SLOT_TICKS)
        sums = list(accumulate(sum(self._counts[bucket::_BUCKETS]) for bucket in range(_BUCKETS)))
        return [BOUNDS_MS[bisect_left(sums, share * sums[-1])] for share in shares] if sums[-1] else None

    def _move_to(self, slot: int) -> None:
        """Make `slot` the current one, and clear the slots since the last one."""
        for passed in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            start = passed % SLOTS * _BUCKETS
            self._counts[start : start + _BUCKETS] = array("H", bytes(2 * _BUCKETS))
        self._slot = max(self._slot, slot)


#: Number of ticks to remember: one minute.
TICKS = 60


class Activity:
    """The counts of several kinds of events, tick by tick.

    Args:
      kinds: number of kinds.
    """

    __slots__ = ("_kinds", "_ring", "_tick")

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self._ring = array("I", bytes(4 * kinds * TICKS))
        self._tick = -1

    def note(self, tick: int, counts: Sequence[int]) -> None:
        """Set the counts of a tick, one per kind and not negative; ticks must increase."""
        for skipped in range(max(self._tick + 1, tick - TICKS + 1), tick):
            self._set(skipped, [0] * self._kinds)
        self._set(tick, [min(count, 0xFFFF_FFFF) for count in counts])
        self._tick = tick

    def sums(self, tick: int, ticks: int) -> list[int]:
        """Return the sums of each kind over the last `ticks` ticks up to `tick`, at most `TICKS`."""
        first, kinds = max(0, tick - ticks + 1, self._tick - TICKS + 1), self._kinds
        starts = [counted % TICKS * kinds for counted in range(first, min(tick, self._tick) + 1)]
        return [sum(self._ring[start + kind] for start in starts) for kind in range(kinds)]

    def is_quiet(self, tick: int) -> bool:
        """Whether no event is remembered at `tick`."""
        return tick - self._tick >= TICKS

    def _set(self, tick: int, counts: Sequence[int]) -> None:
        start = tick % TICKS * self._kinds
        self._ring[start : start + self._kinds] = array("I", counts)
