"""Whose turn it is among lanes: high before normal before low, but nobody starves.

A lane that has waited while `MAX_PASSED` messages of others were handed out has the next turn:

    high      ▮▮▮▮▮▮▮▮…▮ 30      ▮▮▮▮…▮ 30
    normal                  ▮           ▮
    low                      ▮           ▮

What must be loaded is waited for, so the order is the same, whatever is in memory.
"""

from collections.abc import Sequence
from typing import Final

from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Lease

#: So many messages of other lanes may be handed out while one waits. As two may come to that at once, each of them has
#: one of every 32 at least.
MAX_PASSED: Final = 30


class LaneTurns:
    """Whose turn it is among lanes of several priorities.

    Args:
      cursors: of one group, in the order in which they are looked at.
    """

    __slots__ = ("_cursors", "_passed")

    def __init__(self, cursors: Sequence[GroupCursor]) -> None:
        self._cursors = cursors
        self._passed = [0] * len(cursors)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages.

        Returns None when there is none now, or when it must be loaded first: then `blocked_on` is set in a cursor. No
        other lane is looked at meanwhile, so the order is the same, whatever is in memory.
        """
        waiting = [cursor_view.may_have_next(cursor, horizon_ms) for cursor in self._cursors]
        self._passed = [passed if waits else 0 for passed, waits in zip(self._passed, waiting, strict=True)]
        for index, count in self._turns(max_count, waiting):
            cursor = self._cursors[index]
            lease = cursor.take(count, horizon_ms)
            if lease is not None:
                self._passed = [passed + lease.count for passed in self._passed]
                self._passed[index] = 0
                return cursor, lease
            if cursor.blocked_on is not None:
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
