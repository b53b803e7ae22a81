"""Checks what came back to one topic: each record against its key, the cursor and the log.

    range     order, and so the key                       the record must have come back by
    front     FRONT_START - serial                        NACK, a time limit or a lost connection
    delayed   due time in ms · 2⁶⁴ + serial               DACK, or as to the front where the topic retries later
    back      the log's tail at that time · 2⁶⁴ + serial  BACK

`serial` is from 1 up to that of the cursor; the tail is not beyond that of now. A message has one record, and none
while it waits in the log.
"""

from collections.abc import Iterator

from miniqueue.core.cursor import FRONT_START
from miniqueue.core.lease import Range
from miniqueue.core.message import Counts, Record
from miniqueue.tools.problems import Problems
from miniqueue.tools.seen import Seen

_NOTHING_IS_BEYOND = 1 << 64
_MAX_TIME_MS = 1 << 62  # far beyond any delay; an order of the front read as a delay is beyond it


class RecordAudit:
    """The records of a topic, for one walk.

    Args:
      problems: where to note what is wrong.
      next_seq: of the partition; None when it is not known.
      serial: of the cursor; None when it is not known.

    Attributes:
      counts: of records by range.
      size_bytes: of their payloads and attributes.
      is_readable: whether every record could be decoded.
    """

    def __init__(self, problems: Problems, *, next_seq: int | None, serial: int | None) -> None:
        self.counts = dict.fromkeys((Range.FRONT, Range.DELAYED, Range.BACK), 0)
        self.size_bytes = 0
        self.is_readable = True
        self._problems = problems
        self._next_seq = _NOTHING_IS_BEYOND if next_seq is None else next_seq
        self._serial = serial
        self._seen = Seen()

    def take(self, key: bytes, place: Range, order: int, record: Record, *, is_waiting: bool) -> None:
        """Check a record; `is_waiting` says whether the log has its message too, not settled."""
        self.counts[place] += 1
        self.size_bytes += record.content_bytes
        for cause in self._wrong(place, order, record, is_waiting):
            self._problems.add(cause, key)

    def skip(self, place: Range) -> None:
        """Pass a record that could not be read; its problem is noted already."""
        self.counts[place] += 1
        self.is_readable = False

    def _wrong(self, place: Range, order: int, record: Record, is_waiting: bool) -> Iterator[str]:
        if not self._has_good_order(place, order):
            yield "the order does not fit the range"
        if not _came_back_by(place, record.counts):
            yield f"the message has never come back to this range: {record.counts}"
        if record.seq >= self._next_seq:
            yield f"message {record.seq} has not been published, the next is {self._next_seq}"
        elif is_waiting:
            yield f"message {record.seq} is waiting in the log too"
        elif not self._seen.add(record.seq):
            yield f"message {record.seq} has another record"

    def _has_good_order(self, place: Range, order: int) -> bool:
        high, serial = order >> 64, order & (1 << 64) - 1
        if place is Range.FRONT:
            high, serial = 0, FRONT_START - order
        is_known = self._serial is None or serial <= self._serial
        return serial >= 1 and is_known and high <= (self._next_seq if place is Range.BACK else _MAX_TIME_MS)


def _came_back_by(place: Range, counts: Counts) -> bool:
    if place is Range.FRONT:  # also what an operator moves and what finds no room, which counts as nothing
        return True
    return bool(counts.dacks or counts.nacks or counts.timeouts if place is Range.DELAYED else counts.backs)
