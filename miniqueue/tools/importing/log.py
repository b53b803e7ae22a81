"""Turns the messages of one lane of an imported topic into the keys and values that the broker would have written.

    waiting, in order of id ─▶ chunks of adjacent messages with the same time
    returned                ─▶ each group
    finish                  ─▶ head, and the cursor of each group

`topic` calls it for each message of the lane.
"""

from collections.abc import Mapping

from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.partition import MAX_CHUNK_BYTES, MAX_CHUNK_MESSAGES
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.message import Chunk
from miniqueue.errors import InvalidLineError
from miniqueue.storage.format import keys, values
from miniqueue.tools.importing.group import Batch, GroupImport, chosen
from miniqueue.tools.lines.messages import MAX_SEQ, StoredMessage
from miniqueue.tools.lines.sequence_set import SequenceSet


class LogImport:
    """One lane of a new topic.

    Args:
      topic_id: id of the topic.
      number: number of the lane.
      groups: ids of the groups by name.
      now_ms: publish time of messages whose line does not contain it.

    Attributes:
      message_count: number of messages taken so far; a message that several groups need counts once.
    """

    def __init__(self, topic_id: int, number: int, groups: Mapping[bytes, int], now_ms: int) -> None:
        self.message_count = 0
        self._log = topic_id, number
        self._groups = {name: GroupImport((topic_id, number, id_)) for name, id_ in groups.items()}
        self._now_ms = now_ms
        self._next_seq = 0
        self._seqs = SequenceSet()
        self._log_end = 0  # after the last message of the log
        self._payloads: list[bytes] = []  # payloads of the chunk that is being filled, which ends at `_log_end`
        self._attributes: list[bytes] = []  # attributes of these messages
        self._content_bytes = 0
        self._log_bytes = 0  # size of waiting messages
        self._returned_bytes = 0  # size of returned messages, as if they were after the log
        self._published_at_ms = 0

    def take(self, message: StoredMessage, batch: Batch) -> bytes:
        """Add a message, and return its id; complete chunks are added to `batch`.

        Raises InvalidLineError if it cannot be added.
        """
        seq = self._next_seq if message.seq is None else message.seq
        if seq > MAX_SEQ:
            raise InvalidLineError(f"no id remains for the message: {self._id(MAX_SEQ)} is the last")
        size_bytes, groups = len(message.payload) + len(message.attributes), chosen(self._groups, message.groups)
        if not all(group.add(seq, size_bytes) for group in groups):
            raise InvalidLineError(f"duplicate message {self._id(seq)}")
        if message.range_ is Range.LOG:
            self._take_waiting(seq, message, groups, batch)
        else:
            self._take_returned(seq, message, groups, batch)
        self._next_seq = max(self._next_seq, seq + 1)
        is_new = self._seqs.add(seq)
        self.message_count += is_new
        if message.range_ is Range.LOG:
            self._log_bytes += size_bytes
        elif is_new:
            self._returned_bytes += size_bytes
        return format_message_id(self._log[1], seq)

    def _id(self, seq: int) -> str:
        return format_message_id(self._log[1], seq).decode()

    def end_chunk(self, batch: Batch) -> None:
        """Add the messages of the log that are in memory, if any, as a chunk."""
        if self._payloads:
            first_seq = self._log_end - len(self._payloads)
            attributes = self._attributes if any(self._attributes) else None
            chunk = Chunk(first_seq, self._published_at_ms, self._payloads, self._log_bytes, attributes)
            batch[keys.chunk(*self._log, first_seq)] = values.encode_chunk(chunk)
            for group in self._groups.values():
                group.end_chunk(first_seq, self._log_end, batch)
            self._payloads, self._attributes, self._content_bytes = [], [], 0

    def finish(self, batch: Batch) -> None:
        """Add what remains: the last chunk, head, and cursors.

        Bytes after the last chunk must belong to ids that are finished; otherwise a group that begins later would count
        them. If there is no such id, one id is skipped.
        """
        self.end_chunk(batch)
        log_bytes = max(self._log_bytes + self._returned_bytes, *[group.size_bytes for group in self._groups.values()])
        if log_bytes > self._log_bytes and self._log_end == self._next_seq:
            self._next_seq += 1
        batch[keys.head(*self._log)] = values.encode_head(self._next_seq, log_bytes)
        for group in self._groups.values():
            group.finish(self._next_seq, log_bytes, batch)

    def _take_waiting(self, seq: int, message: StoredMessage, groups: list[GroupImport], batch: Batch) -> None:
        if seq < self._log_end:
            raise InvalidLineError(
                f"message {self._id(seq)} is out of order: it waits after {self._id(self._log_end - 1)}"
            )
        published_at_ms = self._now_ms if message.published_at_ms is None else message.published_at_ms
        is_next = seq == self._log_end and published_at_ms == self._published_at_ms
        content_bytes = len(message.payload) + len(message.attributes)
        if not is_next or self._is_chunk_full(content_bytes):
            self.end_chunk(batch)
        needing = set(groups)
        for group in self._groups.values():
            group.wait(len(self._payloads), is_needed=group in needing)
        self._payloads.append(message.payload)
        self._attributes.append(message.attributes)
        self._content_bytes += content_bytes
        self._published_at_ms = published_at_ms
        self._log_end = seq + 1

    def _take_returned(self, seq: int, message: StoredMessage, groups: list[GroupImport], batch: Batch) -> None:
        for group in groups:
            group.take_returned(seq, message, batch)
        if message.range_ is Range.BACK:
            self._next_seq = max(self._next_seq, message.order >> 64)

    def _is_chunk_full(self, more_bytes: int) -> bool:
        return len(self._payloads) >= MAX_CHUNK_MESSAGES or self._content_bytes + more_bytes > MAX_CHUNK_BYTES
