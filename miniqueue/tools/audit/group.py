"""Checks the cursor, bitmaps, gaps, and returned messages of one group in one partition against the log.

    published messages (next_seq) = acknowledged and dropped messages (cursor) + messages waiting in the log + records
    bytes of the log (head)       = bytes of acknowledged and dropped messages (cursor) + bytes of waiting messages
                                    and of records

The counts are compared only if everything that they count has been read.
"""

from miniqueue.core.cursor.lease import Range
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.message.message import Chunk, Record
from miniqueue.storage.format import keys
from miniqueue.tools.audit.log import LogAudit
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.audit.records import RecordAudit

#: Topic id, number of the partition, group id.
Position = tuple[int, int, int]


class GroupAudit:
    """Check of one group in one partition: the setters, then `begin`, chunks, `end_log`, records, and `finish`."""

    def __init__(self, position: Position, problems: Problems) -> None:
        self.has_cursor = False
        self.log: LogAudit
        self.records: RecordAudit
        self._position = position
        self._problems = problems
        self._cursor: CursorState | None = None
        self._head_bytes = 0
        self._bitmaps: dict[int, int | None] = {}
        self._gaps: dict[int, int | None] = {}

    def set_cursor(self, cursor: CursorState | None) -> None:
        """Take the cursor; None if it cannot be read."""
        self.has_cursor = True
        self._cursor = cursor

    def set_bitmap(self, first_seq: int, bits: int | None) -> None:
        """Take the settled bits of a chunk; None if they cannot be read."""
        self._bitmaps[first_seq] = bits

    def set_gap(self, start: int, stop: int | None) -> None:
        """Take a gap; `stop` is None if it cannot be read."""
        self._gaps[start] = stop

    def begin(self, head: tuple[int | None, int], kept: tuple[int, int | None] | None) -> None:
        """Begin the check of the log, with its head and its retained range."""
        next_seq, self._head_bytes = head
        cursor = self._cursor
        self.log = LogAudit(
            self._position,
            self._problems,
            next_seq=next_seq,
            head_seq=None if cursor is None else cursor.head_seq,
            kept=kept,
            bitmaps=self._bitmaps,
            gaps=self._gaps,
        )

    def take_chunk(self, key: bytes, chunk: Chunk) -> None:
        """Check the next chunk."""
        self.log.take(key, chunk)

    def end_log(self) -> None:
        """Begin the check of the records, after the last chunk."""
        serial = None if self._cursor is None else self._cursor.serial
        self.records = RecordAudit(self._problems, next_seq=self.log.next_seq, serial=serial)

    def take_record(self, key: bytes, range_: Range, order: int, record: Record) -> None:
        """Check the next record."""
        self.records.take(key, range_, order, record, is_waiting=self.log.has_waiting(record.seq))

    @property
    def is_readable(self) -> bool:
        """Whether every chunk, bitmap, and record has been decoded."""
        return self.log.is_readable and self.records.is_readable

    def finish(self) -> None:
        """Compare the counts, after the last pair."""
        log, records, key = self.log, self.records, keys.cursor(*self._position)
        log.finish()
        if not self.has_cursor:
            self._problems.add("there is no cursor", key)
        if self._cursor is None or log.next_seq is None:
            return
        causes = _wrong_counts(self._cursor, log.next_seq, log, records)
        for cause in [*causes, *_wrong_bytes(self._cursor, max(self._head_bytes, log.log_bytes), log, records)]:
            self._problems.add(cause, key)


def _wrong_counts(cursor: CursorState, next_seq: int, log: LogAudit, records: RecordAudit) -> list[str]:
    causes = []
    if cursor.head_seq > next_seq:
        causes.append(f"continues at message {cursor.head_seq}, but the next message is {next_seq}")
    delayed_count = records.counts[Range.DELAYED]
    if cursor.delayed_count != delayed_count:
        causes.append(f"counts {cursor.delayed_count} delayed messages, but there are {delayed_count}")
    remaining_count = log.waiting_count + sum(records.counts.values())
    settled_count = cursor.acked_count + cursor.dropped_count
    if log.is_readable and settled_count + remaining_count != next_seq:
        causes.append(f"counts {settled_count} acknowledged messages of {next_seq}, but {remaining_count} remain")
    return causes


def _wrong_bytes(cursor: CursorState, log_bytes: int, log: LogAudit, records: RecordAudit) -> list[str]:
    if cursor.gone_bytes is None or cursor.log_bytes is None or not (log.is_readable and records.is_readable):
        return []
    counted_bytes = max(log_bytes, cursor.log_bytes) - cursor.gone_bytes
    remaining_bytes = log.waiting_bytes + records.size_bytes
    return [] if counted_bytes == remaining_bytes else [f"counts {counted_bytes} bytes, but {remaining_bytes} remain"]
