"""The waiting messages of one key, in the order of delivery.

    ordered      by sequence number: a returned message comes before later ones, and blocks them until it is due
    not ordered  FRONT, then DELAYED if due, then BACK and LOG, merged by position

The messages of the log are an array of sequence numbers, 8 bytes each; returned messages are a heap. Messages without a
key have a queue too, which is neither ordered nor limited.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Protocol

from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.message import Record

#: Memory use of a queue without its key and its messages.
QUEUE_BYTES: Final = 350
#: Memory use of a returned message without payload and attributes.
RETURNED_BYTES: Final = 300
#: Memory use of a message of the log: an item of an array.
SEQ_BYTES: Final = 8

_MAX_SERIAL: Final = (1 << 64) - 1
#: Added to orders, which have at most 128 bits, so that those of one range come before those of the next.
_DELAYED_RANK: Final = 1 << 160
_BACK_RANK: Final = 1 << 161
#: Number of consumed array items from which on removing them is worth a copy of the rest.
_FEW: Final = 32


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How the messages of each key are delivered.

    Attributes:
      is_ordered: whether they are delivered one at a time, by sequence number.
      max_leased: maximum number of leased messages of a key that is not ordered.
      per_second: maximum number of deliveries per second; 0 means unlimited.
      leases: maximum number of leased messages of a key, derived from the first two.
      has_limit: whether leases are counted.
    """

    is_ordered: bool = False
    max_leased: int = sys.maxsize
    per_second: float = 0.0
    leases: int = field(init=False)
    has_limit: bool = field(init=False)

    def __post_init__(self) -> None:
        leases = 1 if self.is_ordered else self.max_leased
        object.__setattr__(self, "leases", leases)  # fields, not properties: both are read for each message
        object.__setattr__(self, "has_limit", leases < sys.maxsize)


UNLIMITED: Final = KeyRules()


class Bounds(Protocol):
    """The limits that all keys of a partition share.

    Attributes:
      due_limit: the first order of DELAYED that is not due.
      stop_seq: ordered keys deliver no message from this one on, if `is_held`.
      is_held: whether there is such a stop.
    """

    due_limit: int
    stop_seq: float
    is_held: bool


class Returned:
    """A returned message that waits; `record` is None while its payload is not in memory."""

    __slots__ = ("is_gone", "is_timed", "order", "queue", "range_", "rank", "record", "seq")

    def __init__(self, queue: "KeyQueue", range_: Range, order: int, record: Record) -> None:
        self.queue = queue
        self.range_ = range_
        self.order = order
        self.seq = record.seq
        self.record: Record | None = record
        self.rank = record.seq if queue.rules.is_ordered else _rank(range_, order)
        self.is_gone = False  # leased, or dropped
        self.is_timed = False  # in the heap of `KeyTurns`, which lists its key when it is due

    def __lt__(self, other: "Returned") -> bool:
        return self.rank < other.rank


class KeyQueue:
    """The messages of one key.

    Attributes:
      key: the key; b"" for messages without one.
      rules: the rules of the key.
      leased_count: number of leased messages, if the rules limit it.
      next_at: when the next delivery would be due at an even pace.
      is_listed, is_paced: whether the key waits for its turn, or for a timer that lists it.
    """

    __slots__ = ("_log", "_returned", "_start", "is_listed", "is_paced", "key", "leased_count", "next_at", "rules")

    def __init__(self, key: bytes, rules: KeyRules) -> None:
        self.key = key
        self.rules = rules
        self.leased_count = 0
        self.next_at = 0.0
        self.is_listed = self.is_paced = False
        self._log = array("Q")
        self._start = 0  # items of `_log` before this index are consumed
        self._returned: list[Returned] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._start == len(self._log) and not self._returned

    def append(self, seq: int) -> None:
        """Add the next message of the log."""
        self._log.append(seq)

    def extend(self, seqs: Iterable[int]) -> None:
        """Add the next messages of the log."""
        self._log.extend(seqs)

    def add(self, returned: Returned) -> None:
        """Add a returned message."""
        if self._returned is None:
            self._returned = []
        heappush(self._returned, returned)

    def head(self, bounds: Bounds) -> "int | Returned | None":
        """Return the next message, of the log its sequence number; None while no message may be delivered."""
        seq = self._log[self._start] if self._start < len(self._log) else None
        if not (self._returned or bounds.is_held):
            return seq
        is_ordered, first = self.rules.is_ordered, self.first_returned()
        if first is None or (seq is not None and self._log_rank(seq) < first.rank):
            return None if seq is None or (is_ordered and seq >= bounds.stop_seq) else seq
        is_due = first.range_ is not Range.DELAYED or first.order < bounds.due_limit
        return first if not is_ordered or (is_due and first.seq < bounds.stop_seq) else None

    def first_returned(self) -> Returned | None:
        """Return the first returned message."""
        returned = self._returned
        while returned and returned[0].is_gone:
            heappop(returned)
        return returned[0] if returned else None

    def pop(self) -> None:
        """Remove the first message of the log."""
        self._start += 1
        if self._start > _FEW and 2 * self._start > len(self._log):
            del self._log[: self._start]
            self._start = 0

    def remove(self, seq: int) -> None:
        """Remove a message of the log, wherever it is in the queue."""
        del self._log[bisect_left(self._log, seq, self._start)]

    def cut(self, stop_seq: int) -> int:
        """Forget the messages of the log from `stop_seq` on; return their number."""
        before = len(self._log)
        while len(self._log) > self._start and self._log[-1] >= stop_seq:
            self._log.pop()
        return before - len(self._log)

    def _log_rank(self, seq: int) -> int:
        return seq if self.rules.is_ordered else _BACK_RANK + (seq << 64 | _MAX_SERIAL)


def _rank(range_: Range, order: int) -> int:
    """Return a number that orders returned messages of different ranges; the lowest comes first."""
    return order + {Range.FRONT: 0, Range.DELAYED: _DELAYED_RANK, Range.BACK: _BACK_RANK}[range_]
