"""Turns the messages that one group needs of one lane into the keys and values that the broker would have written.

    waiting  ─▶ head before the first chunk that it needs, bits of messages that it does not need, gaps between chunks
    returned ─▶ records with the same order
    finish   ─▶ cursor; all other messages count as acknowledged

`log` calls it for each message of the lane that the group needs.
"""

from collections.abc import Sequence

from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.message.message import Record
from miniqueue.errors import InvalidLineError
from miniqueue.storage.format import keys, values
from miniqueue.tools.lines.messages import StoredMessage
from miniqueue.tools.lines.sequence_set import SequenceSet

Batch = dict[bytes, bytes | None]


class GroupImport:
    """One group in one lane of a new topic.

    Args:
      position: topic id, number of the lane, group id.

    Attributes:
      size_bytes: size of all messages that the group needs.
    """

    def __init__(self, position: tuple[int, int, int]) -> None:
        self.size_bytes = 0
        self._position = position
        self._message_count = self._serial = self._delayed_count = 0
        self._seqs = SequenceSet()
        self._serials = SequenceSet()
        self._head_seq: int | None = None  # start of the first chunk that the group needs
        self._end_seq = 0  # end of the last chunk that the group needs
        self._settled = 0  # bits of the chunk that is being filled
        self._is_needed = False  # whether the group needs a message of the chunk that is being filled

    def add(self, seq: int, size_bytes: int) -> bool:
        """Count a message that the group needs; return whether it is new."""
        self._message_count += 1
        self.size_bytes += size_bytes
        return self._seqs.add(seq)

    def wait(self, index: int, *, is_needed: bool) -> None:
        """Take whether the group needs message `index` of the chunk that is being filled."""
        self._is_needed |= is_needed
        if not is_needed:
            self._settled |= 1 << index

    def end_chunk(self, first_seq: int, stop_seq: int, batch: Batch) -> None:
        """Take the range of the chunk that was filled."""
        if self._is_needed:
            self._skip_to(first_seq, batch)
            self._end_seq = stop_seq
            if self._settled:
                batch[keys.bitmap(*self._position, first_seq)] = values.encode_bitmap(self._settled)
        self._settled, self._is_needed = 0, False

    def _skip_to(self, seq: int, batch: Batch) -> None:
        """Add a gap from the last chunk to `seq`, if there is any."""
        if self._head_seq is None:
            self._head_seq = seq
        elif seq > self._end_seq:
            batch[keys.gap(*self._position, self._end_seq)] = values.encode_number(seq)

    def take_returned(self, seq: int, message: StoredMessage, batch: Batch) -> None:
        """Add a returned message; raise InvalidLineError if it cannot be added."""
        assert message.published_at_ms is not None  # only a waiting message can lack it
        serial = message.order & (1 << 64) - 1
        if message.range_ is Range.FRONT:
            serial = FRONT_START - message.order
        if not self._serials.add(serial):
            raise InvalidLineError(f"another message has the serial {serial}")
        self._serial = max(self._serial, serial)
        self._delayed_count += message.range_ is Range.DELAYED
        record = Record(seq, message.published_at_ms, message.counts, message.payload, message.attributes)
        batch[keys.record(*self._position, message.range_, message.order)] = values.encode_record(record)

    def finish(self, next_seq: int, log_bytes: int, batch: Batch) -> None:
        """Add the cursor, and the gap up to the end of the log."""
        self._skip_to(next_seq, batch)
        assert self._head_seq is not None
        cursor = CursorState(
            acked_count=next_seq - self._message_count,
            head_seq=self._head_seq,
            serial=self._serial,
            delayed_count=self._delayed_count,
            gone_bytes=log_bytes - self.size_bytes,
            log_bytes=log_bytes,
        )
        batch[keys.cursor(*self._position)] = values.encode_cursor(cursor)


def chosen(groups: dict[bytes, GroupImport], names: Sequence[bytes]) -> list[GroupImport]:
    """Return the groups of these names, or all groups without names; raise InvalidLineError for an unknown group."""
    for name in names:
        if name not in groups:
            raise InvalidLineError(f"the topic has no group {name.decode()!r}")
    return [groups[name] for name in names] if names else [*groups.values()]
