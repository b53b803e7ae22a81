"""Checks what a store holds for one group in one partition: cursor, bitmaps, gaps, what came back; against the log.

published (next_seq) = acknowledged and dropped (cursor) + waiting in the log + records
bytes of the log (head) = bytes gone (cursor) + those of the same messages
"""

from miniqueue.core.cursor_state import CursorState
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk, Record
from miniqueue.storage import keys
from miniqueue.tools.log_audit import LogAudit
from miniqueue.tools.problems import Problems
from miniqueue.tools.record_audit import RecordAudit

#: Topic id, number of the partition, group id.
Place = tuple[int, int, int]


class GroupAudit:
    """One group in one partition, for one walk: first what keys say of it, then `begin`, chunks, records, `finish`."""

    def __init__(self, place: Place, problems: Problems) -> None:
        self.has_cursor = False
        self.log: LogAudit
        self.records: RecordAudit
        self._place = place
        self._problems = problems
        self._cursor: CursorState | None = None
        self._head_bytes = 0
        self._bitmaps: dict[int, int | None] = {}
        self._gaps: dict[int, int | None] = {}

    def set_cursor(self, cursor: CursorState | None) -> None:
        """Take the cursor, None when it could not be read."""
        self.has_cursor = True
        self._cursor = cursor

    def set_bitmap(self, first_seq: int, bits: int | None) -> None:
        """Take the settled bits of a chunk, None when they could not be read."""
        self._bitmaps[first_seq] = bits

    def set_gap(self, start: int, stop: int | None) -> None:
        """Take a gap; `stop` is None when it could not be read."""
        self._gaps[start] = stop

    def begin(self, head: tuple[int | None, int], kept: tuple[int, int | None] | None) -> None:
        """Begin with the log, whose head and kept part are known now."""
        next_seq, self._head_bytes = head
        cursor = self._cursor
        self.log = LogAudit(
            self._place,
            self._problems,
            next_seq=next_seq,
            head_seq=None if cursor is None else cursor.head_seq,
            kept=kept,
            bitmaps=self._bitmaps,
            gaps=self._gaps,
        )

    def take_chunk(self, key: bytes, chunk: Chunk) -> None:
        """Take the next chunk."""
        self.log.take(key, chunk)

    def end_log(self) -> None:
        """Begin with the records: there are no more chunks."""
        serial = None if self._cursor is None else self._cursor.serial
        self.records = RecordAudit(self._problems, next_seq=self.log.next_seq, serial=serial)

    def take_record(self, key: bytes, place: Range, order: int, record: Record) -> None:
        """Take the next record."""
        self.records.take(key, place, order, record, is_waiting=self.log.has_waiting(record.seq))

    @property
    def is_readable(self) -> bool:
        """Whether everything could be decoded."""
        return self.log.is_readable and self.records.is_readable

    def finish(self) -> None:
        """Compare the counts, when everything was taken."""
        log, records, key = self.log, self.records, keys.cursor(*self._place)
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
        causes.append(f"reading goes on at message {cursor.head_seq}, but the next to be published is {next_seq}")
    delayed_count = records.counts[Range.DELAYED]
    if cursor.delayed_count != delayed_count:
        causes.append(f"counts {cursor.delayed_count} delayed messages, there are {delayed_count}")
    left_count = log.waiting_count + sum(records.counts.values())
    gone_count = cursor.acked_count + cursor.dropped_count
    if log.is_readable and gone_count + left_count != next_seq:
        causes.append(f"counts {gone_count} acknowledged messages of {next_seq}, but {left_count} are left")
    return causes


def _wrong_bytes(cursor: CursorState, log_bytes: int, log: LogAudit, records: RecordAudit) -> list[str]:
    if cursor.gone_bytes is None or cursor.log_bytes is None or not (log.is_readable and records.is_readable):
        return []
    counted_bytes = max(log_bytes, cursor.log_bytes) - cursor.gone_bytes
    left_bytes = log.waiting_bytes + records.size_bytes
    return [] if counted_bytes == left_bytes else [f"counts {counted_bytes} bytes, but {left_bytes} are left"]
