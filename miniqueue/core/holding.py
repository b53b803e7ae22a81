"""What one consumer holds: leases, found by the receipts of their messages."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import ChunkLease, Lease
from miniqueue.core.receipts import runs
from miniqueue.errors import NothingOutstandingError

#: A lease with the cursor that gave it.
Held = tuple[GroupCursor, Lease]


def split(cursor: GroupCursor, lease: Lease, receipt: int, end_receipt: int) -> tuple[Lease, list[Lease]]:
    """Cut a lease in up to three, so that the messages from `receipt` to before `end_receipt` stand alone.

    Returns the lease of those, and the leases of the others; together they take the place of `lease`. Raises
    NothingOutstandingError when that was settled before, or ended with its topic.
    """
    cursor._revoke(lease)
    assert isinstance(lease, ChunkLease)  # the only kind with more than one message
    wanted, others = lease.cut(receipt, end_receipt)
    cursor._leases |= {part.receipt: part for part in (wanted, *others)}
    return wanted, others


def settle_each(act: Callable[[GroupCursor, Lease], None], held: Iterable[Held]) -> int:
    """Settle leases, one after the other; return how many messages that were.

    Leases that are over are passed over: their topic may be gone, or is read anew.
    """
    count = 0
    for cursor, lease in held:
        try:
            act(cursor, lease)
        except NothingOutstandingError:
            continue
        count += lease.count
    return count


class Holding:
    """Leases with receipts that do not overlap.

    Attributes:
      count: messages held.
      size_bytes: of their payloads.
    """

    __slots__ = ("_held", "_starts", "count", "size_bytes")

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}  # by first receipt
        self._starts: list[int] = []  # the same first receipts, sorted
        self.count = 0
        self.size_bytes = 0

    def add(self, cursor: GroupCursor, lease: Lease) -> None:
        """Hold a lease."""
        self._held[lease.receipt] = cursor, lease
        insort(self._starts, lease.receipt)
        self.count += lease.count
        self.size_bytes += lease.size_bytes

    def take_only(self) -> Held:
        """Give up the one lease held; raises NothingOutstandingError when there is none."""
        starts = self._starts
        if len(starts) != 1:
            if not starts:
                raise NothingOutstandingError
            return self._remove(0)
        starts.clear()  # as a rule there is one: nothing is left, whatever it was
        self.count = self.size_bytes = 0
        return self._held.popitem()[1]

    def attributes_of(self, receipt: int | None) -> bytes | None:
        """Return the attributes of a message, encoded; None for the one held. None when it is not held."""
        index = 0 if receipt is None else bisect_right(self._starts, receipt) - 1
        if index < 0 or not self._starts:
            return None
        lease = self._held[self._starts[index]][1]
        return lease.attributes_of(lease.receipt if receipt is None else receipt)

    def take_all(self) -> list[Held]:
        """Give up every lease, in the order of their receipts."""
        return [self._remove(0) for _ in range(len(self._starts))]

    def take(self, receipts: Sequence[int]) -> Iterator[Held]:
        """Give up leases of exactly the messages named, in their order, as far as they are held."""
        for start, stop in runs(receipts):
            receipt = start
            while receipt < stop:
                index = bisect_right(self._starts, receipt) - 1
                end = self._end(index)
                if receipt < end:
                    end = min(end, stop)
                    yield self._cut_out(index, receipt, end)
                    receipt = end
                else:  # nobody's, like all up to the next lease
                    following = self._starts[index + 1] if index + 1 < len(self._starts) else stop
                    receipt = min(following, stop)

    def _end(self, index: int) -> int:
        if index < 0:
            return 0
        lease = self._held[self._starts[index]][1]
        return lease.receipt + lease.count

    def _remove(self, index: int) -> Held:
        held = self._held.pop(self._starts.pop(index))
        self.count -= held[1].count
        self.size_bytes -= held[1].size_bytes
        return held

    def _cut_out(self, index: int, receipt: int, end_receipt: int) -> Held:
        cursor, lease = self._remove(index)
        if (receipt, end_receipt) == (lease.receipt, lease.receipt + lease.count):
            return cursor, lease
        try:
            wanted, others = split(cursor, lease, receipt, end_receipt)
        except NothingOutstandingError:
            return cursor, lease  # it ended with its topic, all of it; whoever settles it finds out
        for other in others:
            self.add(cursor, other)
        return cursor, wanted
