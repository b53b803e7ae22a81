"""The leases of one consumer, by the receipts of their messages."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, Lease
from miniqueue.core.cursor.receipts import runs
from miniqueue.errors import NothingOutstandingError

#: A lease with the cursor that granted it.
CursorLease = tuple[GroupCursor, Lease]

_lease, _size_bytes = itemgetter(1), attrgetter("size_bytes")


def split(cursor: GroupCursor, lease: Lease, receipt: int, end_receipt: int) -> tuple[Lease, list[Lease]]:
    """Cut a lease in up to three, so that the messages from `receipt` to before `end_receipt` have their own.

    Returns the lease of these messages, and the leases of the others; together they replace `lease`. Raises
    NothingOutstandingError if it was settled before, or ended with its topic.
    """
    assert isinstance(lease, ChunkLease)  # the only kind with more than one message
    wanted, others = lease.cut(receipt, end_receipt)
    cursor.replace_lease(lease, [wanted, *others])
    return wanted, others


def size_of(held: Iterable[CursorLease]) -> int:
    """Return the size of the messages of leases."""
    return sum(map(_size_bytes, map(_lease, held)))


def settle_each(act: Callable[[GroupCursor, Lease], None], held: Iterable[CursorLease]) -> int:
    """Settle leases one by one; return the number of settled messages.

    Skips leases that have ended: their topic may have been deleted, or is being read again.
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
      count: number of leased messages.
      size_bytes: size of what is held.
    """

    __slots__ = ("_held", "_starts", "count", "size_bytes")

    def __init__(self) -> None:
        self._held: dict[int, CursorLease] = {}  # keyed by first receipt
        self._starts: list[int] = []  # the first receipts, sorted
        self.count = 0
        self.size_bytes = 0

    def add(self, cursor: GroupCursor, lease: Lease) -> None:
        """Add a lease."""
        self._held[lease.receipt] = cursor, lease
        insort(self._starts, lease.receipt)
        self.count += lease.count
        self.size_bytes += lease.held_bytes

    def has_any(self, receipts: range) -> bool:
        """Whether a message with one of these consecutive receipts is held."""
        index = bisect_right(self._starts, receipts.stop - 1) - 1
        return index >= 0 and self._end(index) > receipts.start

    def take_only(self) -> CursorLease:
        """Remove the first lease, and return it; raises NothingOutstandingError if there is none."""
        starts = self._starts
        if len(starts) != 1:
            if not starts:
                raise NothingOutstandingError
            return self._remove(0)
        starts.clear()  # fast path: most consumers hold one lease, and this needs no lookup
        self.count = self.size_bytes = 0
        return self._held.popitem()[1]

    @property
    def first_receipt(self) -> int:
        """The receipt of the first message; raises NothingOutstandingError if there is none."""
        if not self._starts:
            raise NothingOutstandingError
        return self._starts[0]

    def attributes_of(self, receipt: int | None) -> bytes | None:
        """Return the encoded attributes of a message, with receipt None of the first; None if it is not held."""
        index = 0 if receipt is None else bisect_right(self._starts, receipt) - 1
        if index < 0 or not self._starts:
            return None
        lease = self._held[self._starts[index]][1]
        return lease.attributes_of(lease.receipt if receipt is None else receipt)

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is held, as a whole."""
        held = self._held.get(lease.receipt)
        return held is not None and held[1] is lease

    def deadline_of(self, _lease: Lease) -> float | None:
        """Return when a lease ends; None if it has no deadline, or is not held."""
        return None

    def leases(self) -> list[CursorLease]:
        """Return all leases in the order of their receipts."""
        return [self._held[start] for start in self._starts]

    def has_few(self, receipts: Sequence[int], max_count: int) -> bool:
        """Whether these receipts are consecutive, and at most `max_count` leases begin within them."""
        if not isinstance(receipts, range):
            return False
        return bisect_left(self._starts, receipts.stop) - bisect_left(self._starts, receipts.start) <= max_count

    def take_first(self, max_count: int) -> list[CursorLease]:
        """Remove the first messages, at most `max_count`, and return their leases, the last of which may be cut."""
        taken: list[CursorLease] = []
        while self._starts and max_count > 0:
            lease = self._held[self._starts[0]][1]
            taken.append(self._cut_out(0, lease.receipt, lease.receipt + min(lease.count, max_count)))
            max_count -= taken[-1][1].count
        return taken

    def parts(self, max_count: int) -> Iterator[list[CursorLease]]:
        """Remove everything, and yield it in parts as `take_first` does."""
        while some := self.take_first(max_count):
            yield some

    def take(self, receipts: Sequence[int]) -> Iterator[CursorLease]:
        """Remove the messages with these receipts, as far as they are held; yield their leases in this order."""
        for start, stop in runs(receipts):
            receipt = start
            while receipt < stop:
                index = bisect_right(self._starts, receipt) - 1
                end = self._end(index)
                if receipt < end:
                    end = min(end, stop)
                    yield self._cut_out(index, receipt, end)
                    receipt = end
                else:  # no receipt before the next lease is held
                    following = self._starts[index + 1] if index + 1 < len(self._starts) else stop
                    receipt = min(following, stop)

    def _end(self, index: int) -> int:
        if index < 0:
            return 0
        lease = self._held[self._starts[index]][1]
        return lease.receipt + lease.count

    def _remove(self, index: int) -> CursorLease:
        held = self._held.pop(self._starts.pop(index))
        self.count -= held[1].count
        self.size_bytes -= held[1].held_bytes
        return held

    def _cut_out(self, index: int, receipt: int, end_receipt: int) -> CursorLease:
        cursor, lease = self._remove(index)
        if (receipt, end_receipt) == (lease.receipt, lease.receipt + lease.count):
            return cursor, lease
        try:
            wanted, others = split(cursor, lease, receipt, end_receipt)
        except NothingOutstandingError:
            return cursor, lease  # the whole lease ended with its topic; settling it raises the same error
        for other in others:
            self.add_part(cursor, other, lease)
        return cursor, wanted

    def add_part(self, cursor: GroupCursor, part: Lease, _whole: Lease) -> None:
        """Add a part of a lease that was held as a whole before."""
        Holding.add(self, cursor, part)
