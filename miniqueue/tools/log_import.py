"""Turns the messages of one lane of an imported topic into the keys and values that the broker would have written.

waiting, in order of id ─▶ chunks of neighbours with the same time, and gaps where numbers are left out
returned                ─▶ records under the same order
finish                  ─▶ head and cursor: what is not among the messages counts as acknowledged
"""

from miniqueue.core.cursor import FRONT_START
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk, Record
from miniqueue.core.message_id import format_message_id
from miniqueue.core.partition import DEFAULT_GROUP, MAX_CHUNK_BYTES, MAX_CHUNK_MESSAGES
from miniqueue.errors import InvalidLineError
from miniqueue.storage import keys, records
from miniqueue.tools.message_lines import MAX_SEQ, StoredMessage
from miniqueue.tools.seen import Seen

Batch = dict[bytes, bytes | None]


class LogImport:
    """One lane of a new topic.

    Args:
      topic_id: of the topic.
      number: of the lane.
      now_ms: the time of messages whose line does not say when they were published.

    Attributes:
      message_count: taken so far.
    """

    def __init__(self, topic_id: int, number: int, now_ms: int) -> None:
        self.message_count = 0
        self._log = topic_id, number
        self._now_ms = now_ms
        self._next_seq = 0
        self._serial = 0
        self._delayed_count = 0
        self._seqs = Seen()
        self._serials = Seen()
        self._head_seq: int | None = None  # of the first chunk
        self._log_end = 0  # behind the last message of the log
        self._payloads: list[bytes] = []  # of the chunk that is being filled, which ends at `_log_end`
        self._attributes: list[bytes] = []  # of each of those
        self._content_bytes = 0
        self._log_bytes = 0  # of all messages, also of those that came back
        self._published_at_ms = 0

    def take(self, message: StoredMessage, batch: Batch) -> bytes:
        """Add a message, and return its id; what is complete goes into `batch`.

        Raises InvalidLineError when it cannot be added.
        """
        seq = self._next_seq if message.seq is None else message.seq
        if seq > MAX_SEQ:
            raise InvalidLineError(f"no id is left for it: {self._id(MAX_SEQ)} is the last")
        if not self._seqs.add(seq):
            raise InvalidLineError(f"message {self._id(seq)} came before")
        if message.place is Range.LOG:
            self._take_waiting(seq, message, batch)
        else:
            self._take_returned(seq, message, batch)
        self._next_seq = max(self._next_seq, seq + 1)
        self._log_bytes += len(message.payload) + len(message.attributes)
        self.message_count += 1
        return format_message_id(self._log[1], seq)

    def _id(self, seq: int) -> str:
        return format_message_id(self._log[1], seq).decode()

    def end_chunk(self, batch: Batch) -> None:
        """Add the messages of the log that wait in memory, if any, as a chunk."""
        if self._payloads:
            first_seq = self._log_end - len(self._payloads)
            attributes = self._attributes if any(self._attributes) else None
            chunk = Chunk(first_seq, self._published_at_ms, self._payloads, self._log_bytes, attributes)
            batch[keys.chunk(*self._log, first_seq)] = records.encode_chunk(chunk)
            self._payloads, self._attributes, self._content_bytes = [], [], 0

    def finish(self, batch: Batch) -> None:
        """Add what remains: the last chunk, head and cursor."""
        self.end_chunk(batch)
        if self._head_seq is None:
            self._head_seq = self._next_seq
        elif self._log_end < self._next_seq:
            batch[self._gap_key()] = records.encode_number(self._next_seq)
        cursor = CursorState(
            acked_count=self._next_seq - self.message_count,
            head_seq=self._head_seq,
            serial=self._serial,
            delayed_count=self._delayed_count,
            log_bytes=self._log_bytes,
        )
        batch[keys.head(*self._log)] = records.encode_head(self._next_seq, self._log_bytes)
        batch[keys.cursor(*self._log, DEFAULT_GROUP)] = records.encode_cursor(cursor)

    def _take_waiting(self, seq: int, message: StoredMessage, batch: Batch) -> None:
        if seq < self._log_end:
            raise InvalidLineError(
                f"message {self._id(seq)} is not in order: it waits behind {self._id(self._log_end - 1)}"
            )
        published_at_ms = self._now_ms if message.published_at_ms is None else message.published_at_ms
        is_next = seq == self._log_end and published_at_ms == self._published_at_ms
        content_bytes = len(message.payload) + len(message.attributes)
        if not is_next or self._is_chunk_full(content_bytes):
            self.end_chunk(batch)
        if self._head_seq is None:
            self._head_seq = seq
        elif seq > self._log_end:
            batch[self._gap_key()] = records.encode_number(seq)
        self._payloads.append(message.payload)
        self._attributes.append(message.attributes)
        self._content_bytes += content_bytes
        self._published_at_ms = published_at_ms
        self._log_end = seq + 1

    def _take_returned(self, seq: int, message: StoredMessage, batch: Batch) -> None:
        assert message.published_at_ms is not None  # only a waiting message may be without
        high, serial = message.order >> 64, message.order & (1 << 64) - 1
        if message.place is Range.FRONT:
            serial = FRONT_START - message.order
        if not self._serials.add(serial):
            raise InvalidLineError(f"another message has the serial {serial}")
        if message.place is Range.BACK:
            self._next_seq = max(self._next_seq, high)
        self._serial = max(self._serial, serial)
        self._delayed_count += message.place is Range.DELAYED
        key = keys.record(*self._log, DEFAULT_GROUP, message.place, message.order)
        record = Record(seq, message.published_at_ms, message.counts, message.payload, message.attributes)
        batch[key] = records.encode_record(record)

    def _is_chunk_full(self, more_bytes: int) -> bool:
        return len(self._payloads) >= MAX_CHUNK_MESSAGES or self._content_bytes + more_bytes > MAX_CHUNK_BYTES

    def _gap_key(self) -> bytes:
        return keys.gap(*self._log, DEFAULT_GROUP, self._log_end)
