"""Turns among partitions, and among the lanes of priorities.

Partitions of one priority take turns:

    busy   ▮▮▮▮ ─▶ the first one delivers a run of messages, and moves to the end
    idle   ▯▯▯▯▯▯▯▯ ─▶ some are polled for every run, all if no busy one has a message; one with a message is busy

So the cost of taking does not grow with the number of empty partitions, and each partition waits only for a few runs of
others. There is no order among partitions: a partition that must load does not delay the others.

Lanes: high before normal before low, without starvation. A lane that has waited while `MAX_PASSED` messages of other
lanes were delivered has the next turn:

    high      ▮▮▮▮▮▮▮▮…▮ 30      ▮▮▮▮…▮ 30
    normal                  ▮           ▮
    low                      ▮           ▮

If the lane whose turn it is must load, no other lane delivers, so the order does not depend on what is in memory.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.group import view
from miniqueue.core.message.lanes import RANGES

#: Number of idle partitions to poll for each delivered run: few, so that the cost of a run does not depend on how many
#: there are.
MAX_POLLED: Final = 8

_partition = attrgetter("partition")


class PartitionTurns:
    """Turns among the partitions of one priority.

    Args:
      cursors: the cursors of one group.
    """

    __slots__ = ("_busy", "_idle")

    def __init__(self, cursors: Sequence[GroupCursor]) -> None:
        self._busy: deque[GroupCursor] = deque()
        self._idle = deque(cursors)

    @property
    def is_blocked(self) -> bool:
        """Whether a partition must load before it can continue."""
        return any(cursor.blocked_on is not None for cursor in self._busy)

    def may_have_next(self, horizon_ms: int) -> bool:
        """Whether the next `take` may return a lease."""
        may_have_next = view.may_have_next
        return any(may_have_next(cursor, horizon_ms) for cursors in (self._busy, self._idle) for cursor in cursors)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages of the partition whose turn it is.

        Returns None if no message is ready, or if one must be loaded first; then `blocked_on` is set in a cursor.
        """
        self._poll(MAX_POLLED, horizon_ms)
        taken = self._take(max_count, horizon_ms)
        if taken is None and self._poll(len(self._idle), horizon_ms):
            taken = self._take(max_count, horizon_ms)
        return taken

    def _poll(self, count: int, horizon_ms: int) -> bool:
        """Poll the next idle partitions; return whether one of them may have a message."""
        idle, busy_count = self._idle, len(self._busy)
        for _ in range(min(count, len(idle))):
            if view.may_have_next(idle[0], horizon_ms):
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


class CursorsInTurn:
    """The cursors to poll: all while a consumer waits, otherwise the next few.

    Args:
      cursors: the cursors of one group.
      waiters: the waiting consumers of the group.
    """

    __slots__ = ("_cursors", "_waiters")

    def __init__(self, cursors: Sequence[GroupCursor], waiters: Collection[object]) -> None:
        self._cursors = deque(cursors)
        self._waiters = waiters

    def __iter__(self) -> Iterator[GroupCursor]:
        for _ in range(len(self._cursors) if self._waiters else min(MAX_POLLED, len(self._cursors))):
            self._cursors.rotate(-1)
            yield self._cursors[-1]


#: Number of messages of other lanes after which a waiting lane has the next turn. Two lanes may reach it at once, so
#: each of them delivers at least one of every 32 messages.
MAX_PASSED: Final = 30


class LaneTurns:
    """Turns among lanes of several priorities.

    Args:
      lanes: the partitions of each priority of one group, highest priority first.
    """

    __slots__ = ("_lanes", "_passed")

    def __init__(self, lanes: Sequence[PartitionTurns]) -> None:
        self._lanes = lanes
        self._passed = [0] * len(lanes)

    @property
    def is_blocked(self) -> bool:
        """Whether a lane must load before it can continue."""
        return any(lane.is_blocked for lane in self._lanes)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages.

        Returns None if no message is ready, or if one must be loaded first; then `blocked_on` is set in a cursor, and
        no other lane delivers meanwhile.
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
        """Return the lanes to poll, in this order, each with the maximum number of messages that it may deliver."""
        turns = [(index, 1) for index, passed in enumerate(self._passed) if passed >= MAX_PASSED]
        for index in [index for index, waits in enumerate(waiting) if waits]:
            lower = [
                passed for passed, waits in zip(self._passed[index + 1 :], waiting[index + 1 :], strict=True) if waits
            ]
            room = MAX_PASSED - max(lower) if lower else max_count
            turns.append((index, max(1, min(max_count, room))))
        return turns


def by_priority(cursors: Iterable[GroupCursor]) -> list[list[GroupCursor]]:
    """Return the cursors of each priority that has any, highest first, each sorted by partition."""
    by_number = sorted(cursors, key=_partition)
    if len(by_number) == 1:
        return [by_number]  # most topics have one partition
    # There may be thousands of cursors, so that no function is called for each.
    edges = [[bisect_left(by_number, edge, key=_partition) for edge in (lanes.start, lanes.stop)] for lanes in RANGES]
    return [by_number[start:stop] for start, stop in edges if start < stop]


def turns_among(cursors: Iterable[GroupCursor]) -> LaneTurns | PartitionTurns:
    """Return the turns among the cursors of one group."""
    lanes = [PartitionTurns(lane) for lane in by_priority(cursors) or [[]]]
    return lanes[0] if len(lanes) == 1 else LaneTurns(lanes)
