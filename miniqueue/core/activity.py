"""How much of what happened in each of the last seconds: a ring of counts.

    tick      57   58   59   60   61            a tick is a second, or whatever passes between two looks
    ring   … [ 3][ 0][ 7][  ][  ] …             slots of ticks at which nothing was noted are cleared on the way

It has a fixed size and knows no time: whoever notes something says which tick it is.
"""

from array import array
from collections.abc import Sequence

#: So many ticks are remembered.
TICKS = 60


class Activity:
    """The counts of some kinds of events, tick by tick.

    Args:
      kinds: how many kinds there are.
    """

    __slots__ = ("_kinds", "_ring", "_tick")

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self._ring = array("I", bytes(4 * kinds * TICKS))
        self._tick = -1

    def note(self, tick: int, counts: Sequence[int]) -> None:
        """Set the counts of a tick, one for each kind, none below 0; ticks only go up."""
        for skipped in range(max(self._tick + 1, tick - TICKS + 1), tick):
            self._set(skipped, [0] * self._kinds)
        self._set(tick, [min(count, 0xFFFF_FFFF) for count in counts])
        self._tick = tick

    def sums(self, tick: int, ticks: int) -> list[int]:
        """Return what happened of each kind in the last `ticks` up to `tick`, at most `TICKS` of them."""
        first, kinds = max(0, tick - ticks + 1, self._tick - TICKS + 1), self._kinds
        at = [seen % TICKS * kinds for seen in range(first, min(tick, self._tick) + 1)]
        return [sum(self._ring[start + kind] for start in at) for kind in range(kinds)]

    def is_quiet(self, tick: int) -> bool:
        """Whether nothing was noted in all that is remembered."""
        return tick - self._tick >= TICKS

    def _set(self, tick: int, counts: Sequence[int]) -> None:
        start = tick % TICKS * self._kinds
        self._ring[start : start + self._kinds] = array("I", counts)
