"""Checks the returned messages of one group in one partition: each record against its key, the cursor, and the log.

    range     order, and so the key                        the message must have been returned by
    front     FRONT_START - serial                         NACK, a time limit, or a lost connection
    delayed   due time in ms · 2⁶⁴ + serial                DACK, or as for front if the topic has retry delays
    back      the log's tail at the return · 2⁶⁴ + serial  BACK

`serial` is from 1 to the serial of the cursor; the tail is at most the current tail. A message has one record, and none
while it waits in the log.
"""

from collections.abc import Iterator

from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.message import Counts, Record
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.lines.sequence_set import SequenceSet

_NOTHING_IS_BEYOND = 1 << 64
_MAX_TIME_MS = 1 << 62  # later than any delay, earlier than an order of the front range read as a due time


class RecordAudit:
    """Check of the records of one group in one partition.

    Args:
      problems: collects the findings.
      next_seq: next sequence number of the partition; None if unknown.
      serial: serial number of the last return in the cursor; None if unknown.

    Attributes:
      counts: number of records by range.
      size_bytes: size of their payloads and attributes.
      is_readable: whether every record has been decoded.
    """

    def __init__(self, problems: Problems, *, next_seq: int | None, serial: int | None) -> None:
        self.counts = dict.fromkeys((Range.FRONT, Range.DELAYED, Range.BACK), 0)
        self.size_bytes = 0
        self.is_readable = True
        self._problems = problems
        self._next_seq = _NOTHING_IS_BEYOND if next_seq is None else next_seq
        self._serial = serial
        self._seqs = SequenceSet()

    def take(self, key: bytes, range_: Range, order: int, record: Record, *, is_waiting: bool) -> None:
        """Check a record; `is_waiting`: whether the log contains its message, too, unsettled."""
        self.counts[range_] += 1
        self.size_bytes += record.content_bytes
        for cause in self._wrong(range_, order, record, is_waiting):
            self._problems.add(cause, key)

    def skip(self, range_: Range) -> None:
        """Skip a record that cannot be read; its problem has been reported."""
        self.counts[range_] += 1
        self.is_readable = False

    def _wrong(self, range_: Range, order: int, record: Record, is_waiting: bool) -> Iterator[str]:
        if not self._has_good_order(range_, order):
            yield "the order does not fit the range"
        if not _was_returned_by(range_, record.counts):
            yield f"the message was never returned to this range: {record.counts}"
        if record.seq >= self._next_seq:
            yield f"message {record.seq} has not been published, the next is {self._next_seq}"
        elif is_waiting:
            yield f"message {record.seq} is waiting in the log too"
        elif not self._seqs.add(record.seq):
            yield f"message {record.seq} has another record"

    def _has_good_order(self, range_: Range, order: int) -> bool:
        high, serial = order >> 64, order & (1 << 64) - 1
        if range_ is Range.FRONT:
            high, serial = 0, FRONT_START - order
        is_known = self._serial is None or serial <= self._serial
        return serial >= 1 and is_known and high <= (self._next_seq if range_ is Range.BACK else _MAX_TIME_MS)


def _was_returned_by(range_: Range, counts: Counts) -> bool:
    if range_ is Range.FRONT:  # messages that an operator moved, or that found no room, have no count
        return True
    return bool(counts.dacks or counts.nacks or counts.timeouts if range_ is Range.DELAYED else counts.backs)
