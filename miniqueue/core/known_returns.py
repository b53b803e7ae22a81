"""What is known of messages that came back and wait, by key.

    window ─▶ known: key, place, order, seq ─▶ its queue, at once or when it is due
              └ payload, up to MAX_RETURNED_BYTES; others are loaded when their turn comes

Where keys are ordered everything that came back must be known before anything is handed out, because it may be in the
way of what follows it. Elsewhere what is due is known, as far as there is room.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from miniqueue.core.attributes import key_of
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.key_queue import RETURNED_BYTES, Returned
from miniqueue.core.lease import Range, RecordLease
from miniqueue.core.message import Record
from miniqueue.core.turns import Turns

#: So much of what came back is kept in memory.
MAX_RETURNED_BYTES: Final = 8 << 20

_PLACES: Final = (Range.FRONT, Range.DELAYED, Range.BACK)


class KnownReturns:
    """The records of one cursor.

    Args:
      cursor: whose these are.
      turns: where they wait, by key; its rules say whether keys are ordered.

    Attributes:
      size_bytes: of those whose payloads are in memory.
    """

    __slots__ = ("_cursor", "_is_ordered", "_known", "_turns", "_wanted", "_windows", "size_bytes")

    def __init__(self, cursor: GroupCursor, turns: Turns) -> None:
        self.size_bytes = 0
        self._cursor = cursor
        self._windows = [(place, cursor.returned[place]) for place in _PLACES]
        self._turns = turns
        self._is_ordered = turns.rules.is_ordered
        self._known: dict[Range, dict[int, Returned]] = {place: {} for place in _PLACES}
        self._wanted: Returned | None = None  # whose payload is not in memory

    def is_any(self, place: Range) -> bool:
        """Whether any of a range is known."""
        return bool(self._known[place])

    def waiting(self, places: Iterable[Range]) -> Iterator[Returned]:
        """Return those that are known of some ranges, and not leased."""
        return (returned for place in places for returned in self._known[place].values())

    def look(self, *, is_full: bool) -> Range | None:
        """Know what is loaded, and must or can be known; return the range of which more must be loaded first."""
        for place, window in self._windows:
            if window.head is None:  # nothing came back, or all is known
                continue
            self.look_at(place, is_full=is_full)
            if window.resume_at is None or (not self._is_ordered and (is_full or not window.is_lacking)):
                continue
            if self._is_ordered or place is not Range.DELAYED or window.resume_at < self._turns.due_limit:
                return place
        return None

    def look_at(self, place: Range, *, is_full: bool) -> None:
        """Know what is loaded of one range."""
        window = self._cursor.returned[place]
        while len(window):
            assert window.head is not None
            is_early = place is Range.DELAYED and window.head >= self._turns.due_limit
            if not self._is_ordered and (is_early or is_full):
                return
            order, record = window.take()
            window.let_go(order)
            if order not in self._known[place]:  # else it was loaded with others once more
                self._know(place, order, record, is_early=is_early)

    def _know(self, place: Range, order: int, record: Record, *, is_early: bool) -> None:
        turns = self._turns
        queue = turns.queue(key_of(record.attributes))
        returned = Returned(queue, place, order, record)
        self._known[place][order] = returned
        turns.index_bytes += RETURNED_BYTES
        if self.size_bytes + record.size_bytes > MAX_RETURNED_BYTES:
            returned.record = None
        else:
            self.size_bytes += record.size_bytes
        if is_early:
            turns.wait(returned)
        if queue.rules.is_ordered or not is_early:
            queue.add(returned)
            turns.enlist(queue)

    def lease(self, returned: Returned) -> RecordLease | None:
        """Lease a message, which waits with its key no more; None when it must be loaded first."""
        cursor, record = self._cursor, returned.record
        if record is None:
            cursor.blocked_on, self._wanted = returned.place, returned
            return None
        self._forget(returned)
        cursor.returned[returned.place].take_again(returned.order)
        lease = RecordLease(cursor.next_receipt, record, returned.place, returned.order)
        cursor._grant(lease)
        return lease

    def oldest(self, *, is_full: bool) -> Returned | None:
        """Return any message that is known, of those that came back to the back if there are any."""
        for place in (Range.BACK, Range.FRONT, Range.DELAYED):
            self.look_at(place, is_full=is_full)
            if self._known[place]:
                return next(iter(self._known[place].values()))
        return None

    def lacking(self, max_count: int) -> list[Returned]:
        """Return messages whose payloads must be loaded: the one that `lease` lacked, and others whose turn is soon."""
        found = [one for one in self._turns.some(max_count) if one is not self._wanted]
        if (wanted := self._wanted) is not None and not wanted.is_gone and wanted.record is None:
            found.insert(0, wanted)
        return found

    def supply(self, returned: Returned, record: Record) -> None:
        """Have the payload of a message in memory, however many others are."""
        if not returned.is_gone and returned.record is None:
            returned.record = record
            self.size_bytes += record.size_bytes

    def drop(self, place: Range, orders: Iterable[int]) -> None:
        """Forget messages that are gone, as far as they are known."""
        known = self._known[place]
        for returned in [known[order] for order in orders if order in known]:
            self._forget(returned)
            self._turns.enlist(returned.queue)

    def evict(self) -> None:
        """Drop the payloads."""
        for known in self._known.values():
            for returned in known.values():
                returned.record = None
        self.size_bytes = 0

    def give_back(self) -> None:
        """Have everything loaded again by whoever takes next."""
        for place, known in self._known.items():
            if known:
                self._cursor.returned[place].give_back((), min(known))

    def _forget(self, returned: Returned) -> None:
        returned.is_gone = True
        del self._known[returned.place][returned.order]
        self._turns.index_bytes -= RETURNED_BYTES
        if returned.record is not None:
            self.size_bytes -= returned.record.size_bytes
