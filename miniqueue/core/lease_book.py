"""Leases that end by themselves: found by the receipts of their messages, and by their deadlines.

    _held       first receipt ─▶ cursor, lease, deadline      what is leased; leases do not overlap
    _starts     first receipts, sorted                        may name leases that are no more
    _deadlines  heap of (deadline, first receipt)             the same; a deadline that was put off stands here twice

What a list names that is no more is skipped when it is met, and swept out when it outnumbers the rest, so that each act
costs O(log n) whatever is leased. A deadline is a time in seconds on a clock that nobody can set.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held, split
from miniqueue.core.lease import Lease
from miniqueue.core.receipts import runs

#: So many entries that name nothing are not worth sweeping.
_FEW = 64


class LeaseBook:
    """The leases of one topic that belong to no connection.

    Args:
      prefix: what every receipt begins with; that of each book is another one.

    Attributes:
      count: messages leased.
      size_bytes: of their payloads.
    """

    __slots__ = ("_deadlines", "_held", "_starts", "count", "prefix", "size_bytes")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.count = 0
        self.size_bytes = 0
        self._held: dict[int, tuple[GroupCursor, Lease, float]] = {}
        self._starts: list[int] = []
        self._deadlines: list[tuple[float, int]] = []

    def add(self, cursor: GroupCursor, lease: Lease, deadline: float) -> None:
        """Keep a lease until it is taken or expires."""
        self._put(cursor, lease, deadline)
        self.count += lease.count
        self.size_bytes += lease.size_bytes

    def take(self, receipts: Sequence[int]) -> list[Held]:
        """Give up leases of exactly the messages named, in their order, as far as they are held."""
        taken = [held[:2] for start, stop in runs(receipts) for held in self._cut_out(start, stop)]
        self._forget(taken)
        return taken

    def forget(self, cursor: GroupCursor) -> None:
        """Give up all leases of a cursor, which the caller ends."""
        gone = [start for start, held in self._held.items() if held[0] is cursor]
        self._forget([self._held.pop(start)[:2] for start in gone])

    def attributes_of(self, receipt: int) -> bytes | None:
        """Return the attributes of the message with a receipt, encoded; None when it is not leased."""
        index = bisect_right(self._starts, receipt) - 1
        held = self._held.get(self._starts[index]) if index >= 0 else None
        return None if held is None else held[1].attributes_of(receipt)

    def extend(self, receipts: Sequence[int], deadline: float) -> list[Held]:
        """Give the messages named another deadline; return their leases, in their order, as far as they are held.

        Who is named twice is found twice.
        """
        found: list[Held] = []
        for start, stop in runs(receipts):
            for cursor, lease, _ in list(self._cut_out(start, stop)):
                self._put(cursor, lease, deadline)
                found.append((cursor, lease))
        return found

    def expire(self, now: float, max_count: int) -> list[Held]:
        """Give up leases that are over, in the order of their receipts: all, or as many as hold `max_count` messages.

        The first to be over is the first to go.
        """
        expired: list[Held] = []
        deadlines, room = self._deadlines, max_count
        while deadlines and deadlines[0][0] <= now and room > 0:
            deadline, start = heappop(deadlines)
            held = self._held.get(start)
            if held is not None and held[2] == deadline:  # else it was settled or put off
                expired.append(held[:2])
                del self._held[start]
                room -= held[1].count
        self._forget(expired)
        return sorted(expired, key=_first_receipt)

    def _put(self, cursor: GroupCursor, lease: Lease, deadline: float) -> None:
        start, starts = lease.receipt, self._starts
        self._held[start] = cursor, lease, deadline
        heappush(self._deadlines, (deadline, start))
        if not starts or start > starts[-1]:
            starts.append(start)
        elif starts[index := bisect_left(starts, start)] != start:
            starts.insert(index, start)
        self._sweep()

    def _cut_out(self, start: int, stop: int) -> Iterator[tuple[GroupCursor, Lease, float]]:
        """Remove the messages with receipts from `start` to before `stop`; what is cut off them stays."""
        starts = self._starts
        while start < stop:
            index = bisect_right(starts, start) - 1
            held = self._held.get(starts[index]) if index >= 0 else None
            end = held[1].receipt + held[1].count if held is not None else start
            if held is not None and start < end:
                end = min(end, stop)
                yield self._remove(held, start, end)
                start = end
            else:  # nobody's, like all up to the next lease
                start = min(starts[index + 1], stop) if index + 1 < len(starts) else stop

    def _remove(self, held: tuple[GroupCursor, Lease, float], start: int, end: int) -> tuple[GroupCursor, Lease, float]:
        cursor, lease, deadline = held
        del self._held[lease.receipt]
        if (start, end) == (lease.receipt, lease.receipt + lease.count):
            return held
        wanted, others = split(cursor, lease, start, end)
        for other in others:
            self._put(cursor, other, deadline)
        return cursor, wanted, deadline

    def _forget(self, leases: list[Held]) -> None:
        for _, lease in leases:
            self.count -= lease.count
            self.size_bytes -= lease.size_bytes
        self._sweep()

    def _sweep(self) -> None:
        most = 2 * len(self._held) + _FEW
        if len(self._starts) > most:
            self._starts[:] = sorted(self._held)
        if len(self._deadlines) > most:
            self._deadlines = [(deadline, start) for start, (_, _, deadline) in self._held.items()]
            heapify(self._deadlines)


def _first_receipt(held: Held) -> int:
    return held[1].receipt
