"""Leases with deadlines, by the receipts of their messages and by their deadlines.

    _held       first receipt ─▶ cursor, lease, deadline      the leases; they do not overlap
    _starts     first receipts, sorted                        may contain leases that have ended
    _deadlines  heap of (deadline, first receipt)             too; after an extension it contains both deadlines

Entries of ended leases are skipped when they are met, and removed when they outnumber the others, so each call costs
O(log n) for n leases. A deadline is a time in seconds on the monotonic clock.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple, Protocol

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, split
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.receipts import runs

#: Maximum number of entries of ended leases that are not worth removing: a sweep of so few saves nothing.
_FEW = 64
#: The memory of one lease besides its messages, and of one message besides its payload and attributes.
LEASE_BYTES = 600
MESSAGE_BYTES = 50


class Payer(Protocol):
    """Whoever pays for the memory of leases."""

    def charge_lease(self, size_bytes: int) -> None:
        """Pay for memory; a negative size is given back."""
        ...


#: A lease in the book: with its cursor, its deadline, and who pays for it.
_Held = tuple[GroupCursor, Lease, float, Payer | None]


class FoundRuns(NamedTuple):
    """Leased messages that were found by their receipts.

    Attributes:
      runs: their receipts as runs (first, count), each of one lease.
      seen_count: number of leases that were inspected, at least the number of runs.
      cut_count: number of runs that are a part of their lease.
    """

    runs: list[tuple[int, int]]
    seen_count: int
    cut_count: int


class LeaseBook:
    """The leases of one topic that belong to no connection.

    Args:
      prefix: the prefix of every receipt; each book has a different one.

    Attributes:
      count: number of leased messages.
      size_bytes: size of what is leased.
    """

    __slots__ = ("_deadlines", "_held", "_starts", "count", "prefix", "size_bytes")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.count = self.size_bytes = 0
        self._held: dict[int, _Held] = {}
        self._starts: list[int] = []
        self._deadlines: list[tuple[float, int]] = []

    def add(self, cursor: GroupCursor, lease: Lease, deadline: float, payer: Payer | None = None) -> None:
        """Add a lease, which stays until it is taken or expires; `payer` pays for its memory as long."""
        self._put(cursor, lease, deadline, payer)
        self.count += lease.count

    def take(self, receipts: Sequence[int]) -> list[CursorLease]:
        """Remove the messages with these receipts, as far as they are leased; return their leases in this order."""
        taken = [held[:2] for start, stop in runs(receipts) for held in self._cut_out(start, stop)]
        self._forget(taken)
        return taken

    def forget(self, cursor: GroupCursor) -> None:
        """Remove all leases of a cursor, which the caller ends."""
        starts = [start for start, held in self._held.items() if held[0] is cursor]
        self._forget([self._take(start)[:2] for start in starts])

    def clear(self) -> None:
        """Remove all leases, which have ended with their topic."""
        for start in list(self._held):
            self._take(start)
        self._sweep()
        self.count = 0

    def held(self) -> list[_Held]:
        """Return all leases, in no order."""
        return list(self._held.values())

    def attributes_of(self, receipt: int) -> bytes | None:
        """Return the encoded attributes of the message with a receipt; None if it is not leased."""
        held = self.find(receipt)
        return None if held is None else held[1].attributes_of(receipt)

    def find(self, receipt: int) -> tuple[GroupCursor, Lease, float] | None:
        """Return cursor, lease, and deadline of the message with a receipt; None if it is not leased."""
        index = bisect_right(self._starts, receipt) - 1
        held = self._held.get(self._starts[index]) if index >= 0 else None
        return held[:3] if held is not None and receipt < held[1].receipt + held[1].count else None

    def find_runs(self, receipts: Sequence[int], max_count: int) -> FoundRuns:
        """Find the leases of messages with these receipts, in the order of `receipts`.

        Stops after the run of receipts with which more than `max_count` leases were inspected.
        """
        leased_runs: list[tuple[int, int]] = []
        seen_count = cut_count = 0
        starts, leases = self._starts, self._held
        for receipt, stop in runs(receipts):
            for index in range(max(0, bisect_right(starts, receipt) - 1), bisect_left(starts, stop)):
                seen_count += 1
                if (held := leases.get(start := starts[index])) is not None:
                    first, end = max(receipt, start), min(stop, start + held[1].count)
                    if first < end:
                        leased_runs.append((first, end - first))
                        cut_count += end - first < held[1].count
            seen_count += not starts
            if seen_count > max_count:
                break
        return FoundRuns(leased_runs, seen_count, cut_count)

    def has_few_leases(self, receipts: Sequence[int], max_count: int) -> bool:
        """Whether the messages with these receipts have at most about `max_count` leases, and not more runs."""
        if isinstance(receipts, range):
            return bisect_left(self._starts, receipts.stop) - bisect_left(self._starts, receipts.start) <= max_count
        return self.find_runs(receipts, max_count).seen_count <= max_count

    def extend(self, receipts: Sequence[int], deadline: float) -> list[CursorLease]:
        """Set another deadline for the messages with these receipts, as far as they are leased.

        Returns their leases in the order of `receipts`; a receipt that is named twice counts twice.
        """
        extended: list[CursorLease] = []
        for start, stop in runs(receipts):
            for cursor, lease, _, payer in list(self._cut_out(start, stop)):
                self._put(cursor, lease, deadline, payer)
                extended.append((cursor, lease))
        return extended

    def has_expired(self, now: float) -> bool:
        """Whether a deadline has passed, of a lease that may have been settled or extended."""
        return bool(self._deadlines) and self._deadlines[0][0] <= now

    def expire(self, now: float, max_count: int, max_bytes: float = inf) -> list[CursorLease]:
        """Remove messages whose leases have expired, earliest deadline first; return them in the order of receipts.

        There are at most `max_count` of them, so the last lease may be cut; and none after `max_bytes`.
        """
        expired: list[CursorLease] = []
        room, room_bytes = max_count, max_bytes
        while self._deadlines and self._deadlines[0][0] <= now and room > 0 and room_bytes > 0:
            deadline, start = heappop(self._deadlines)
            held = self._held.get(start)
            if held is not None and held[2] == deadline:  # otherwise the lease was settled or extended
                expired.append(self._remove(held, start, start + min(held[1].count, room))[:2])
                room -= expired[-1][1].count
                room_bytes -= expired[-1][1].size_bytes
        self._forget(expired)
        return sorted(expired, key=_first_receipt)

    def _put(self, cursor: GroupCursor, lease: Lease, deadline: float, payer: Payer | None) -> None:
        start, starts = lease.receipt, self._starts
        self._held[start] = cursor, lease, deadline, payer
        self.size_bytes += lease.held_bytes
        if payer is not None:
            payer.charge_lease(lease.held_bytes + MESSAGE_BYTES * lease.count + LEASE_BYTES)
        heappush(self._deadlines, (deadline, start))
        if not starts or start > starts[-1]:
            starts.append(start)
        elif starts[index := bisect_left(starts, start)] != start:
            starts.insert(index, start)
        self._sweep()

    def _take(self, start: int) -> _Held:
        held = self._held.pop(start)
        _, lease, _, payer = held
        self.size_bytes -= lease.held_bytes
        if payer is not None:
            payer.charge_lease(-(lease.held_bytes + MESSAGE_BYTES * lease.count + LEASE_BYTES))
        return held

    def _cut_out(self, start: int, stop: int) -> Iterator[_Held]:
        """Remove the messages with receipts from `start` to before `stop`; the rest of their leases stays."""
        starts = self._starts
        while start < stop:
            index = bisect_right(starts, start) - 1
            held = self._held.get(starts[index]) if index >= 0 else None
            end = held[1].receipt + held[1].count if held is not None else start
            if held is not None and start < end:
                end = min(end, stop)
                yield self._remove(held, start, end)
                start = end
            else:  # no receipt before the next lease is leased
                start = min(starts[index + 1], stop) if index + 1 < len(starts) else stop

    def _remove(self, held: _Held, start: int, end: int) -> _Held:
        cursor, lease, deadline, payer = held
        self._take(lease.receipt)
        if (start, end) == (lease.receipt, lease.receipt + lease.count):
            return held
        wanted, others = split(cursor, lease, start, end)
        for other in others:
            self._put(cursor, other, deadline, payer)
        return cursor, wanted, deadline, payer

    def _forget(self, leases: list[CursorLease]) -> None:
        for _, lease in leases:
            self.count -= lease.count
        self._sweep()

    def _sweep(self) -> None:
        most = 2 * len(self._held) + _FEW
        if len(self._starts) > most:
            self._starts[:] = sorted(self._held)
        if len(self._deadlines) > most:
            self._deadlines = [(deadline, start) for start, (_, _, deadline, _) in self._held.items()]
            heapify(self._deadlines)


def _first_receipt(held: CursorLease) -> int:
    return held[1].receipt
