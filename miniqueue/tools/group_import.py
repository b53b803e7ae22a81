"""Turns what one group still is to get of one lane into the keys and values that the broker would have written.

waiting  ─▶ head in front of the first chunk that it needs, bits of what it does not, gaps where it needs none
returned ─▶ records under the same order
finish   ─▶ cursor: what is not among its messages counts as acknowledged
"""

from collections.abc import Sequence

from miniqueue.core.cursor import FRONT_START
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.lease import Range
from miniqueue.core.message import Record
from miniqueue.errors import InvalidLineError
from miniqueue.storage import keys, records
from miniqueue.tools.message_lines import StoredMessage
from miniqueue.tools.seen import Seen

Batch = dict[bytes, bytes | None]


class GroupImport:
    """One group in one lane of a new topic.

    Args:
      place: topic id, number of the lane, group id.

    Attributes:
      size_bytes: of all that it is to get.
    """

    def __init__(self, place: tuple[int, int, int]) -> None:
        self.size_bytes = 0
        self._place = place
        self._message_count = self._serial = self._delayed_count = 0
        self._seqs = Seen()
        self._serials = Seen()
        self._head_seq: int | None = None  # of the first chunk
        self._end_seq = 0  # of the last chunk
        self._settled = 0  # bits of the chunk that is being filled
        self._is_needed = False  # that chunk

    def add(self, seq: int, size_bytes: int) -> bool:
        """Count a message that it is to get; return whether it is new."""
        self._message_count += 1
        self.size_bytes += size_bytes
        return self._seqs.add(seq)

    def wait(self, index: int, *, is_needed: bool) -> None:
        """Take whether it is to get message `index` of the chunk that is being filled."""
        self._is_needed |= is_needed
        if not is_needed:
            self._settled |= 1 << index

    def end_chunk(self, first_seq: int, stop_seq: int, batch: Batch) -> None:
        """Take where the chunk is that was filled."""
        if self._is_needed:
            self._go_on(first_seq, batch)
            self._end_seq = stop_seq
            if self._settled:
                batch[keys.bitmap(*self._place, first_seq)] = records.encode_bitmap(self._settled)
        self._settled, self._is_needed = 0, False

    def _go_on(self, seq: int, batch: Batch) -> None:
        """Leave out what is between the last chunk and `seq`."""
        if self._head_seq is None:
            self._head_seq = seq
        elif seq > self._end_seq:
            batch[keys.gap(*self._place, self._end_seq)] = records.encode_number(seq)

    def take_returned(self, seq: int, message: StoredMessage, batch: Batch) -> None:
        """Add a message that came back; raises InvalidLineError when it cannot be added."""
        assert message.published_at_ms is not None  # only a waiting message may be without
        serial = message.order & (1 << 64) - 1
        if message.place is Range.FRONT:
            serial = FRONT_START - message.order
        if not self._serials.add(serial):
            raise InvalidLineError(f"another message has the serial {serial}")
        self._serial = max(self._serial, serial)
        self._delayed_count += message.place is Range.DELAYED
        record = Record(seq, message.published_at_ms, message.counts, message.payload, message.attributes)
        batch[keys.record(*self._place, message.place, message.order)] = records.encode_record(record)

    def finish(self, next_seq: int, log_bytes: int, batch: Batch) -> None:
        """Add the cursor, and what is left out up to the end of the log."""
        self._go_on(next_seq, batch)
        assert self._head_seq is not None
        cursor = CursorState(
            acked_count=next_seq - self._message_count,
            head_seq=self._head_seq,
            serial=self._serial,
            delayed_count=self._delayed_count,
            gone_bytes=log_bytes - self.size_bytes,
            log_bytes=log_bytes,
        )
        batch[keys.cursor(*self._place)] = records.encode_cursor(cursor)


def chosen(groups: dict[bytes, GroupImport], names: Sequence[bytes]) -> list[GroupImport]:
    """Return the groups of these names, all for none; raises InvalidLineError when there is no such group."""
    for name in names:
        if name not in groups:
            raise InvalidLineError(f"the topic has no group {name.decode()!r}")
    return [groups[name] for name in names] if names else [*groups.values()]
