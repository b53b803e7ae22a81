"""Whose turn it is among partitions: one after the other, as long as each has something.

    busy   ▮▮▮▮ ─▶ the first gives a run of messages, and goes behind the others
    idle   ▯▯▯▯▯▯▯▯ ─▶ some are looked at for every run, all when no other has anything; who has something is busy

So the cost of taking does not grow with partitions that are empty, and none waits longer than for some runs of others.
There is no order between partitions: what must be loaded of one does not hold up the rest.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Lease

#: So many idle partitions are looked at for each run that is handed out.
LOOKS: Final = 8


class PartitionTurns:
    """Whose turn it is among partitions of one priority.

    Args:
      cursors: of one group.
    """

    __slots__ = ("_busy", "_idle")

    def __init__(self, cursors: Sequence[GroupCursor]) -> None:
        self._busy: deque[GroupCursor] = deque()
        self._idle = deque(cursors)

    @property
    def is_blocked(self) -> bool:
        """Whether something must be loaded before some partition can go on."""
        return any(cursor.blocked_on is not None for cursor in self._busy)

    def may_have_next(self, horizon_ms: int) -> bool:
        """Whether the next `take` may hand something out."""
        may_have_next = cursor_view.may_have_next
        return any(may_have_next(one, horizon_ms) for cursors in (self._busy, self._idle) for one in cursors)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages of the partition whose turn it is.

        Returns None when there is none now, or when it must be loaded first: then `blocked_on` is set in a cursor.
        """
        self._look(LOOKS, horizon_ms)
        taken = self._take(max_count, horizon_ms)
        if taken is None and self._look(len(self._idle), horizon_ms):
            taken = self._take(max_count, horizon_ms)
        return taken

    def _look(self, count: int, horizon_ms: int) -> bool:
        """Look at the next idle partitions; return whether one of them has something."""
        idle, busy_count = self._idle, len(self._busy)
        for _ in range(min(count, len(idle))):
            if cursor_view.may_have_next(idle[0], horizon_ms):
                self._busy.append(idle.popleft())
            else:
                idle.rotate(-1)
        return len(self._busy) > busy_count

    def _take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        busy = self._busy
        for _ in range(len(busy)):
            cursor = busy.popleft()
            lease = cursor.take(max_count, horizon_ms)
            if lease is not None:
                busy.append(cursor)
                return cursor, lease
            (self._idle if cursor.blocked_on is None else busy).append(cursor)
        return None


class LooksInTurn:
    """Cursors to look at: all for who waits, otherwise some each time.

    Args:
      cursors: of one group.
      waiters: those who wait there.
    """

    __slots__ = ("_cursors", "_waiters")

    def __init__(self, cursors: Sequence[GroupCursor], waiters: Collection[object]) -> None:
        self._cursors = deque(cursors)
        self._waiters = waiters

    def __iter__(self) -> Iterator[GroupCursor]:
        for _ in range(len(self._cursors) if self._waiters else min(LOOKS, len(self._cursors))):
            self._cursors.rotate(-1)
            yield self._cursors[-1]
