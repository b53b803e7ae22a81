"""What waits of one key, in the order in which it will be handed out.

    ordered      by sequence number: what came back comes before what follows it, and, not yet due, it is in the way
    not ordered  FRONT, then DELAYED as far as due, then BACK and LOG as they lie behind each other

The log is an array of sequence numbers, 8 bytes for each message; what came back is a heap. Messages without a key
have a queue too, which is never ordered nor limited.
"""

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Protocol

from miniqueue.core.lease import Range
from miniqueue.core.message import Record

#: What a queue costs in memory beside its key and its messages, and what came back beside payload and attributes.
QUEUE_BYTES: Final = 350
RETURNED_BYTES: Final = 300
SEQ_BYTES: Final = 8

_MAX_SERIAL: Final = (1 << 64) - 1
#: Added to orders, so that those of one range come before those of the next.
_DELAYED_RANK: Final = 1 << 160
_BACK_RANK: Final = 1 << 161
_FEW: Final = 32


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How the messages of each key are handed out.

    Attributes:
      is_ordered: one at a time, by sequence number.
      max_leased: how many at a time; not looked at where they are ordered.
      per_second: how many each second; 0 for no limit.
      leases: how many messages of a key may be leased.
      has_limit: whether leases are counted.
    """

    is_ordered: bool = False
    max_leased: int = sys.maxsize
    per_second: float = 0.0
    leases: int = field(init=False)
    has_limit: bool = field(init=False)

    def __post_init__(self) -> None:
        leases = 1 if self.is_ordered else self.max_leased
        object.__setattr__(self, "leases", leases)  # both are asked for with each message
        object.__setattr__(self, "has_limit", leases < sys.maxsize)


FREE: Final = KeyRules()


class Bounds(Protocol):
    """How far all keys go.

    Attributes:
      due_limit: the first order of DELAYED that is not due.
      stop_seq: where ordered keys end for now, if `is_held`.
    """

    due_limit: int
    stop_seq: float
    is_held: bool


class Returned:
    """A message that came back and waits; `record` is None while its payload is not in memory."""

    __slots__ = ("is_gone", "is_timed", "order", "place", "queue", "rank", "record", "seq")

    def __init__(self, queue: "KeyQueue", place: Range, order: int, record: Record) -> None:
        self.queue = queue
        self.place = place
        self.order = order
        self.seq = record.seq
        self.record: Record | None = record
        self.rank = record.seq if queue.rules.is_ordered else _rank(place, order)
        self.is_gone = False  # leased, or dropped
        self.is_timed = False  # a timer will bring it

    def __lt__(self, other: "Returned") -> bool:
        return self.rank < other.rank


class KeyQueue:
    """The messages of one key.

    Attributes:
      key: b"" for none.
      rules: that hold for it.
      leased_count: messages that are leased, where that is limited.
      next_at: when the next one would come at an even pace.
      is_listed, is_paced: whether it has a turn, or a timer that will give it one.
    """

    __slots__ = ("_log", "_returned", "_start", "is_listed", "is_paced", "key", "leased_count", "next_at", "rules")

    def __init__(self, key: bytes, rules: KeyRules) -> None:
        self.key = key
        self.rules = rules
        self.leased_count = 0
        self.next_at = 0.0
        self.is_listed = self.is_paced = False
        self._log = array("Q")
        self._start = 0  # of what is left in `_log`
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
        """Add a message that came back."""
        if self._returned is None:
            self._returned = []
        heappush(self._returned, returned)

    def head(self, bounds: Bounds) -> "int | Returned | None":
        """Return the next message: its sequence number where it is in the log; None while none may be handed out."""
        seq = self._log[self._start] if self._start < len(self._log) else None
        if not (self._returned or bounds.is_held):
            return seq
        is_ordered, first = self.rules.is_ordered, self.first_returned()
        if first is None or (seq is not None and self._log_rank(seq) < first.rank):
            return None if seq is None or (is_ordered and seq >= bounds.stop_seq) else seq
        is_due = first.place is not Range.DELAYED or first.order < bounds.due_limit
        return first if not is_ordered or (is_due and first.seq < bounds.stop_seq) else None

    def first_returned(self) -> Returned | None:
        """Return what comes first of what came back."""
        returned = self._returned
        while returned and returned[0].is_gone:
            heappop(returned)
        return returned[0] if returned else None

    def pop(self) -> None:
        """Take the first message of the log away."""
        self._start += 1
        if self._start > _FEW and 2 * self._start > len(self._log):
            del self._log[: self._start]
            self._start = 0

    def cut(self, stop_seq: int) -> int:
        """Forget the messages of the log from `stop_seq` on; return how many those were."""
        before = len(self._log)
        while len(self._log) > self._start and self._log[-1] >= stop_seq:
            self._log.pop()
        return before - len(self._log)

    def _log_rank(self, seq: int) -> int:
        return seq if self.rules.is_ordered else _BACK_RANK + (seq << 64 | _MAX_SERIAL)


def _rank(place: Range, order: int) -> int:
    """Return what orders messages that came back to different ranges; less comes first."""
    return order + {Range.FRONT: 0, Range.DELAYED: _DELAYED_RANK, Range.BACK: _BACK_RANK}[place]
