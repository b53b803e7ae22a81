"""Checks all that a store holds of one topic: head, cursor, log, what came back; and that the counts agree.

published (next_seq) = acknowledged and dropped (cursor) + waiting in the log + records
bytes of the log (head) = bytes gone (cursor) + those of the same messages
"""

from typing import NamedTuple

from miniqueue.core.cursor_state import CursorState
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk, Record
from miniqueue.core.partition import DEFAULT_GROUP
from miniqueue.storage import delay_keys, keys
from miniqueue.tools.delays_audit import DelaysAudit
from miniqueue.tools.log_audit import LogAudit
from miniqueue.tools.problems import Problems
from miniqueue.tools.record_audit import RecordAudit
from miniqueue.tools.unique_audit import UniqueAudit


class TopicCounts(NamedTuple):
    """What a topic holds. `messages` are in chunks, `settled` ones of them kept for the sake of others."""

    chunks: int
    messages: int
    waiting: int
    delayed: int
    returned: int
    settled: int


class TopicAudit:
    """One topic, for one walk: first `set_…` as keys come, then chunks, then records, then `finish`."""

    def __init__(self, name: bytes, topic_id: int, problems: Problems) -> None:
        self.name = name
        self.topic_id = topic_id
        self._problems = problems
        self._head: int | None = 0  # None: it could not be read
        self._head_bytes = 0
        self._cursor: CursorState | None = None
        self._has_cursor = False
        self._bitmaps: dict[int, int | None] = {}
        self._gaps: dict[int, int | None] = {}
        self._kept: tuple[int, int | None] | None = None
        self._log: LogAudit | None = None
        self._records: RecordAudit | None = None
        self._delays: dict[int, DelaysAudit] = {}
        self.uniques = UniqueAudit(topic_id, problems)

    def delays(self, partition: int) -> DelaysAudit:
        """Return the walk over what was published with a delay."""
        if partition not in self._delays:
            self._delays[partition] = DelaysAudit(delay_keys.delays(self.topic_id, partition), self._problems)
        return self._delays[partition]

    def set_head(self, next_seq: int | None, log_bytes: int) -> None:
        """Take the next sequence number, None when it could not be read, and the bytes up to there."""
        self._head = next_seq
        self._head_bytes = log_bytes

    def set_cursor(self, cursor: CursorState | None) -> None:
        """Take the cursor, None when it could not be read."""
        self._has_cursor = True
        self._cursor = cursor

    def set_bitmap(self, first_seq: int, bits: int | None) -> None:
        """Take the settled bits of a chunk, None when they could not be read."""
        self._bitmaps[first_seq] = bits

    def set_gap(self, start: int, stop: int | None) -> None:
        """Take a gap; `stop` is None when it could not be read."""
        self._gaps[start] = stop

    def set_start(self, kept: tuple[int, int | None] | None) -> None:
        """Take from where and up to where finished chunks are kept; None when it could not be read."""
        self._kept = kept or (0, None)

    def take_chunk(self, key: bytes, chunk: Chunk) -> None:
        """Take the next chunk."""
        self._the_log().take(key, chunk)

    def skip_chunk(self, first_seq: int) -> None:
        """Pass a chunk that could not be read."""
        self._the_log().skip(first_seq)

    def take_record(self, key: bytes, place: Range, order: int, record: Record) -> None:
        """Take the next record."""
        is_waiting = self._the_log().has_waiting(record.seq)
        self._the_records().take(key, place, order, record, is_waiting=is_waiting)

    def skip_record(self, place: Range) -> None:
        """Pass a record that could not be read."""
        self._the_records().skip(place)

    def finish(self) -> None:
        """Compare the counts, when everything was taken."""
        log, records = self._the_log(), self._the_records()
        log.finish()
        for delays in self._delays.values():
            delays.finish()
        if log.is_readable and records.is_readable:
            self.uniques.finish(lambda _partition, seq: log.has_waiting(seq))
        if not self._has_cursor:
            self._problems.add("there is no cursor", self._cursor_key())
        if self._cursor is None or log.next_seq is None:
            return
        causes = _wrong_counts(self._cursor, log.next_seq, log, records)
        for cause in [*causes, *_wrong_bytes(self._cursor, max(self._head_bytes, log.log_bytes), log, records)]:
            self._problems.add(cause, self._cursor_key())

    def counts(self) -> TopicCounts:
        """Return what the topic holds."""
        log, records = self._the_log(), self._the_records().counts
        return TopicCounts(
            chunks=log.chunk_count,
            messages=log.message_count,
            waiting=log.waiting_count,
            delayed=records[Range.DELAYED] + sum(delays.message_count for delays in self._delays.values()),
            returned=records[Range.FRONT] + records[Range.BACK],
            settled=log.settled_count,
        )

    def _cursor_key(self) -> bytes:
        return keys.cursor(self.topic_id, 0, DEFAULT_GROUP)

    def _the_log(self) -> LogAudit:
        """Return the walk over the log, begun when everything in front of the chunks was taken."""
        if self._log is None:
            self._log = LogAudit(
                self.topic_id,
                self._problems,
                next_seq=self._head,
                head_seq=None if self._cursor is None else self._cursor.head_seq,
                kept=self._kept,
                bitmaps=self._bitmaps,
                gaps=self._gaps,
            )
        return self._log

    def _the_records(self) -> RecordAudit:
        if self._records is None:
            serial = None if self._cursor is None else self._cursor.serial
            self._records = RecordAudit(self._problems, next_seq=self._the_log().next_seq, serial=serial)
        return self._records


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
