"""The index by key of returned messages that wait.

    window ─▶ indexed: key, range, order, seq ─▶ the queue of its key, at once or when it is due
              └ payload, up to MAX_RETURNED_BYTES; others are loaded when their turn comes

If keys are ordered, all returned messages must be indexed before any message is delivered, because each may block the
messages after it. Otherwise due messages are indexed, while there is room.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range, RecordLease
from miniqueue.core.keyed.key_queue import RETURNED_BYTES, Returned
from miniqueue.core.keyed.key_turns import KeyTurns
from miniqueue.core.message.attributes import key_of
from miniqueue.core.message.message import Record

#: Maximum size of the payloads of returned messages in memory, as much as a cursor without keys loads of the log.
MAX_RETURNED_BYTES: Final = 8 << 20
#: Maximum number of messages among which `first_from` searches; it takes 0.1 ms.
MAX_SEARCHED: Final = 2000


class ReturnsIndex:
    """The returned messages of one cursor.

    Args:
      cursor: the cursor.
      turns: the queues of the keys, and their rules.

    Attributes:
      size_bytes: size of the messages whose payloads are in memory.
    """

    __slots__ = ("_cursor", "_is_ordered", "_known", "_turns", "_wanted", "_windows", "size_bytes")

    def __init__(self, cursor: GroupCursor, turns: KeyTurns) -> None:
        self.size_bytes = 0
        self._cursor = cursor
        self._windows = [(range_, cursor.returned[range_]) for range_ in RETURN_RANGES]
        self._turns = turns
        self._is_ordered = turns.rules.is_ordered
        self._known: dict[Range, dict[int, Returned]] = {range_: {} for range_ in RETURN_RANGES}
        self._wanted: Returned | None = None  # the message that `lease` could not lease without its payload

    def is_any(self, range_: Range) -> bool:
        """Whether a message of a range is indexed."""
        return bool(self._known[range_])

    def first_from(self, range_: Range, order: int) -> int | None:
        """Return the first indexed order of a range from `order` on, or a lower bound if there are many; None: none."""
        known = self._known[range_]
        if len(known) > MAX_SEARCHED:
            return order
        return min((each for each in known if each >= order), default=None)

    def waiting(self, ranges: Iterable[Range]) -> Iterator[Returned]:
        """Return the indexed messages of some ranges; none of them is leased."""
        return (returned for range_ in ranges for returned in self._known[range_].values())

    def extend(self, *, is_full: bool) -> Range | None:
        """Index the loaded messages that must or can be indexed; return a range that must be loaded first, or None."""
        for range_, window in self._windows:
            if window.head is None:  # the range is empty, or all of it is indexed
                continue
            self.extend_range(range_, is_full=is_full)
            if window.resume_at is None or (not self._is_ordered and (is_full or not window.is_lacking)):
                continue
            if self._is_ordered or range_ is not Range.DELAYED or window.resume_at < self._turns.due_limit:
                return range_
        return None

    def extend_range(self, range_: Range, *, is_full: bool) -> None:
        """Index the loaded messages of one range."""
        window = self._cursor.returned[range_]
        while len(window):
            assert window.head is not None
            is_early = range_ is Range.DELAYED and window.head >= self._turns.due_limit
            if not self._is_ordered and (is_early or is_full):
                return
            order, record = window.take()
            window.let_go(order)
            if order not in self._known[range_]:  # otherwise it was loaded a second time, with others
                self._add(range_, order, record, is_early=is_early)

    def _add(self, range_: Range, order: int, record: Record, *, is_early: bool) -> None:
        turns = self._turns
        queue = turns.queue(key_of(record.attributes))
        returned = Returned(queue, range_, order, record)
        self._known[range_][order] = returned
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
        """Lease a message, and remove it from the index; return None if it must be loaded first."""
        cursor, record = self._cursor, returned.record
        if record is None:
            cursor.blocked_on, self._wanted = returned.range_, returned
            return None
        self._forget(returned)
        cursor.returned[returned.range_].take_again(returned.order)
        lease = RecordLease(cursor.next_receipt, record, returned.range_, returned.order)
        cursor.grant(lease)
        return lease

    def oldest(self, *, is_full: bool) -> Returned | None:
        """Return an indexed message: one of BACK if there are any, then FRONT, then DELAYED; None if there is none."""
        for range_ in (Range.BACK, Range.FRONT, Range.DELAYED):
            self.extend_range(range_, is_full=is_full)
            if self._known[range_]:
                return next(iter(self._known[range_].values()))
        return None

    def lacking(self, max_count: int) -> list[Returned]:
        """Return messages whose payloads must be loaded: first the one that `lease` lacked, then those next in turn."""
        lacking = [returned for returned in self._turns.some(max_count) if returned is not self._wanted]
        if (wanted := self._wanted) is not None and not wanted.is_gone and wanted.record is None:
            lacking.insert(0, wanted)
        return lacking

    def supply(self, returned: Returned, record: Record) -> None:
        """Add the loaded payload of a message, even above the limit."""
        if not returned.is_gone and returned.record is None:
            returned.record = record
            self.size_bytes += record.size_bytes

    def drop(self, range_: Range, orders: Iterable[int]) -> None:
        """Remove dropped messages from the index."""
        known = self._known[range_]
        for returned in [known[order] for order in orders if order in known]:
            self._forget(returned)
            self._turns.enlist(returned.queue)

    def evict(self) -> None:
        """Free the payloads."""
        for known in self._known.values():
            for returned in known.values():
                returned.record = None
        self.size_bytes = 0

    def give_back(self) -> None:
        """Return all messages to the windows, which load them again."""
        for range_, known in self._known.items():
            if known:
                self._cursor.returned[range_].give_back((), min(known))

    def _forget(self, returned: Returned) -> None:
        returned.is_gone = True
        del self._known[returned.range_][returned.order]
        self._turns.index_bytes -= RETURNED_BYTES
        if returned.record is not None:
            self.size_bytes -= returned.record.size_bytes
