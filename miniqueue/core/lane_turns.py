"""Whose turn it is among lanes: high before normal before low, but nobody starves.

A lane that has waited while `MAX_PASSED` messages of others were handed out has the next turn:

    high      ▮▮▮▮▮▮▮▮…▮ 30      ▮▮▮▮…▮ 30
    normal                  ▮           ▮
    low                      ▮           ▮

What must be loaded is waited for, so the order is the same, whatever is in memory.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lanes import rank_of
from miniqueue.core.lease import Lease
from miniqueue.core.partition_turns import PartitionTurns

#: So many messages of other lanes may be handed out while one waits. As two may come to that at once, each of them has
#: one of every 32 at least.
MAX_PASSED: Final = 30


class LaneTurns:
    """Whose turn it is among lanes of several priorities.

    Args:
      lanes: of one group, in the order in which they are looked at; each has the partitions of one priority.
    """

    __slots__ = ("_lanes", "_passed")

    def __init__(self, lanes: Sequence[PartitionTurns]) -> None:
        self._lanes = lanes
        self._passed = [0] * len(lanes)

    @property
    def is_blocked(self) -> bool:
        """Whether something must be loaded before some lane can go on."""
        return any(lane.is_blocked for lane in self._lanes)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages.

        Returns None when there is none now, or when it must be loaded first: then `blocked_on` is set in a cursor. No
        other lane is looked at meanwhile, so the order is the same, whatever is in memory.
        """
        waiting = [lane.may_have_next(horizon_ms) for lane in self._lanes]
        self._passed = [passed if waits else 0 for passed, waits in zip(self._passed, waiting, strict=True)]
        for index, count in self._turns(max_count, waiting):
            lane = self._lanes[index]
            taken = lane.take(count, horizon_ms)
            if taken is not None:
                self._passed = [passed + taken[1].count for passed in self._passed]
                self._passed[index] = 0
                return taken
            if lane.is_blocked:
                return None
        return None

    def _turns(self, max_count: int, waiting: list[bool]) -> list[tuple[int, int]]:
        """Return which lanes to look at, in this order, and how many messages each may give."""
        turns = [(index, 1) for index, passed in enumerate(self._passed) if passed >= MAX_PASSED]
        for index in [index for index, waits in enumerate(waiting) if waits]:
            behind = [
                passed for passed, waits in zip(self._passed[index + 1 :], waiting[index + 1 :], strict=True) if waits
            ]
            room = MAX_PASSED - max(behind) if behind else max_count
            turns.append((index, max(1, min(max_count, room))))
        return turns


def turns_among(cursors: Sequence[GroupCursor]) -> LaneTurns | PartitionTurns:
    """Return whose turn it is among cursors of one group, which are sorted by `lanes.rank_of`."""
    lanes = [PartitionTurns([*lane]) for _, lane in groupby(cursors, lambda cursor: rank_of(cursor.partition)[0])]
    return lanes[0] if len(lanes) == 1 else LaneTurns(lanes)
