"""Turns the messages of one imported topic into the keys and values that the broker would have written.

    waiting, in order of id ─▶ chunks of neighbours with the same time, and gaps where numbers are left out
    returned                ─▶ records under the same order
    finish                  ─▶ head and cursor: what is not among the messages counts as acknowledged

It knows no lines and no store.
"""

from miniqueue.core.attributes import unique_key
from miniqueue.core.cursor import FRONT_START
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk, Record
from miniqueue.core.message_id import format_message_id
from miniqueue.core.partition import DEFAULT_GROUP, MAX_CHUNK_BYTES, MAX_CHUNK_MESSAGES
from miniqueue.core.topic_settings import TopicSettings
from miniqueue.errors import InvalidLineError
from miniqueue.storage import dedup_keys, dedup_records, keys, records
from miniqueue.tools.delayed_lines import StoredDelayed
from miniqueue.tools.delays_import import DelaysImport
from miniqueue.tools.message_lines import MAX_SEQ, StoredMessage
from miniqueue.tools.seen import Seen

Batch = dict[bytes, bytes | None]


class TopicImport:
    """One new topic.

    Args:
      name: of the topic.
      topic_id: new.
      now_ms: the time of its creation, and of messages whose line does not say when they were published.

    Attributes:
      message_count: taken so far.
    """

    def __init__(self, name: bytes, topic_id: int, now_ms: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.message_count = 0
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
        self._settings: TopicSettings | None = None
        self._delays = DelaysImport(topic_id)
        self._unique_keys: set[bytes] = set()

    def take(self, message: StoredMessage, batch: Batch) -> None:
        """Add a message; what is complete goes into `batch`. Raises InvalidLineError when it cannot be."""
        seq = self._next_seq if message.seq is None else message.seq
        if seq > MAX_SEQ:
            raise InvalidLineError(f"no id is left for it: 0-{MAX_SEQ} is the last")
        if not self._seqs.add(seq):
            raise InvalidLineError(f"message 0-{seq} came before")
        self._own(message.attributes, format_message_id(0, seq), batch)
        if message.place is Range.LOG:
            self._take_waiting(seq, message, batch)
        else:
            self._take_returned(seq, message, batch)
        self._next_seq = max(self._next_seq, seq + 1)
        self._log_bytes += len(message.payload) + len(message.attributes)
        self.message_count += 1

    def delay(self, message: StoredDelayed, batch: Batch) -> None:
        """Add a message that is not due; raises InvalidLineError when it cannot be."""
        self._delays.take(message, batch)
        self._own(message.message.attributes, bytes(DelayedId(0, *message.place)), batch)
        self.message_count += 1

    def configure(self, settings: TopicSettings) -> None:
        """Give the topic settings; raises InvalidLineError if it has some already."""
        if self._settings is not None:
            raise InvalidLineError("the settings of this topic came before")
        self._settings = settings

    def _own(self, attributes: bytes, message_id: bytes, batch: Batch) -> None:
        """Give a message the unique key that it has, if any; raises InvalidLineError when another one has it."""
        if key := unique_key(attributes):
            if key in self._unique_keys:
                raise InvalidLineError("another message of the topic has the same unique key")
            self._unique_keys.add(key)
            batch[dedup_keys.unique(self.topic_id, key)] = dedup_records.encode_unique(message_id)

    def end_chunk(self, batch: Batch) -> None:
        """Add the messages of the log that wait in memory, if any, as a chunk."""
        if self._payloads:
            first_seq = self._log_end - len(self._payloads)
            attributes = self._attributes if any(self._attributes) else None
            chunk = Chunk(first_seq, self._published_at_ms, self._payloads, self._log_bytes, attributes)
            batch[keys.chunk(self.topic_id, 0, first_seq)] = records.encode_chunk(chunk)
            self._payloads, self._attributes, self._content_bytes = [], [], 0

    def finish(self, batch: Batch) -> None:
        """Add what remains: the last chunk, head, cursor and the entry in the registry."""
        self.end_chunk(batch)
        self._delays.finish(batch)
        if self._head_seq is None:
            self._head_seq = self._next_seq
        elif self._log_end < self._next_seq:
            batch[self._gap_key()] = records.encode_number(self._next_seq)
        cursor = CursorState(
            acked_count=self._next_seq - self.message_count + self._delays.state.message_count,
            head_seq=self._head_seq,
            serial=self._serial,
            delayed_count=self._delayed_count,
            log_bytes=self._log_bytes,
        )
        batch[keys.head(self.topic_id, 0)] = records.encode_head(self._next_seq, self._log_bytes)
        batch[keys.cursor(self.topic_id, 0, DEFAULT_GROUP)] = records.encode_cursor(cursor)
        if self._settings is not None:
            batch[keys.settings(self.topic_id)] = records.encode_settings(self._settings)
        batch[keys.topic(self.name)] = records.encode_topic(self.topic_id, self._now_ms)

    def _take_waiting(self, seq: int, message: StoredMessage, batch: Batch) -> None:
        if seq < self._log_end:
            raise InvalidLineError(f"message 0-{seq} is not in order: it waits behind 0-{self._log_end - 1}")
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
        key = keys.record(self.topic_id, 0, DEFAULT_GROUP, message.place, message.order)
        record = Record(seq, message.published_at_ms, message.counts, message.payload, message.attributes)
        batch[key] = records.encode_record(record)

    def _is_chunk_full(self, more_bytes: int) -> bool:
        return len(self._payloads) >= MAX_CHUNK_MESSAGES or self._content_bytes + more_bytes > MAX_CHUNK_BYTES

    def _gap_key(self) -> bytes:
        return keys.gap(self.topic_id, 0, DEFAULT_GROUP, self._log_end)
