"""Reads the waiting messages of one group in one partition without changing any of them.

    ready     FRONT ─▶ DELAYED, as far as due ─▶ BACK and LOG, merged by sequence number
    delayed   DELAYED, the part that is not due

Messages are read from the store in small pages, on the store's thread; messages that the cursor has delivered or
settled by now are left out. The messages that are loaded for consumers are not affected. Every message has its
position, after which reading can continue.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, Lease, Range, RecordLease
from miniqueue.core.group import view
from miniqueue.core.message.attributes import is_for, with_failure
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.message import NEVER_RETURNED, Chunk, Counts, Record
from miniqueue.storage.format import keys, values
from miniqueue.storage.port import Store

#: Maximum number and size of the values that are read at once; small, since a reader may stop at any message.
PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10
#: Maximum number of chunks that are read at once; a chunk contains many messages.
_CHUNKS = 16


class Position(NamedTuple):
    """The position of a message; `order` is its sequence number in the log, and the order of its record elsewhere."""

    range_: Range
    order: int


class StoredMessage(NamedTuple):
    """A waiting or leased message; `position` is None if reading cannot continue after it.

    A message that was published with a delay and is not due has a `delayed_id`, and no sequence number yet. A returned
    one can have a `failure`, the reason of the last NACK that gave one.
    """

    seq: int
    published_at_ms: int
    payload: bytes
    counts: Counts = NEVER_RETURNED
    attributes: bytes = b""
    position: Position | None = None
    delayed_id: DelayedId | None = None
    failure: bytes = b""

    @property
    def content_bytes(self) -> int:
        """The size of payload and attributes."""
        return len(self.payload) + len(self.attributes)

    @property
    def shown_attributes(self) -> bytes:
        """The encoded attributes as clients see them: with the failure."""
        return with_failure(self.attributes, self.failure)


START = Position(Range.FRONT, -1)


class CursorBrowser:
    """Reads one partition of a topic as one group sees it.

    Args:
      store: the store to read.
      topic_id: the id of the topic.
      cursor: the cursor of the group in this partition.
      group_name: the name of the group; messages for another group are left out.
    """

    def __init__(self, store: Store, topic_id: int, cursor: GroupCursor, group_name: bytes) -> None:
        self._store = store
        self._topic_id = topic_id
        self._partition = cursor.partition
        self._group = cursor.group
        self._cursor = cursor
        self._group_name = group_name

    async def ready(self, after: Position, due_ms: int) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages that could be delivered at `due_ms`, in order of delivery, starting after `after`."""
        sources = [self.back_and_log(after)]
        if after.range_ <= Range.DELAYED:
            start = after.order + 1 if after.range_ is Range.DELAYED else 0
            sources.insert(0, self.returned(Range.DELAYED, start, (due_ms + 1) << 64))
        if after.range_ is Range.FRONT:
            sources.insert(0, self.returned(Range.FRONT, after.order + 1))
        for source in sources:
            async with aclosing(source):
                async for message in source:
                    yield message

    async def delayed(self, after: Position, due_ms: int) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages that are not due at `due_ms`, by due time, starting after `after`."""
        start = after.order + 1 if after.range_ is Range.DELAYED else 0
        async with aclosing(self.returned(Range.DELAYED, max(start, (due_ms + 1) << 64))) as waiting:
            async for message in waiting:
                yield message

    async def returned(self, range_: Range, start: int, stop: int | None = None) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages that wait in a range of records, by order, from `start` up to but excluding `stop`."""
        if view.is_empty(self._cursor, range_):
            return
        key, last_key = keys.records(self._topic_id, self._partition, self._group, range_, start)
        if stop is not None:
            last_key = keys.record(self._topic_id, self._partition, self._group, range_, stop)
        while pairs := await self._store.scan(key, last_key, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            for key, value in pairs:
                order = keys.record_order(key)
                if view.is_waiting(self._cursor, range_, order):
                    yield _of_record(values.decode_record(value), Position(range_, order))
            key += b"\x00"

    async def log(self, start_seq: int) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages of the log that were not delivered since startup, from `start_seq` on."""
        cursor = self._cursor
        start_seq = max(start_seq, view.ready_seq(cursor))
        first = await self._chunk_before(start_seq)
        key = keys.chunk(self._topic_id, self._partition, start_seq if first is None else first.first_seq)
        while pairs := await self._store.scan(
            key, keys.chunk(self._topic_id, self._partition, cursor.tail_seq), max_items=_CHUNKS, max_bytes=PAGE_BYTES
        ):
            for key, value in pairs:
                chunk = values.decode_chunk(keys.chunk_first_seq(key), value)
                for index in view.ready_in(cursor, chunk, start_seq):
                    if self._is_own(chunk, index):
                        yield of_chunk(chunk, index)
            key += b"\x00"

    async def back_and_log(self, after: Position) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages of BACK and of the log in the order of delivery, starting after `after`."""
        back_start, log_start = _merge_starts(after)
        async with aclosing(self.returned(Range.BACK, back_start)) as back, aclosing(self.log(log_start)) as log:
            returned, unread = await anext(back, None), await anext(log, None)
            while returned is not None or unread is not None:
                if returned is not None and (unread is None or _log_seq(returned) <= unread.seq):
                    yield returned
                    returned = await anext(back, None)
                elif unread is not None:
                    yield unread
                    unread = await anext(log, None)

    async def in_log(self, seq: int) -> StoredMessage | None:
        """Return the message with a sequence number if it waits in the log."""
        chunk = await self.waiting_in(seq)
        return None if chunk is None else of_chunk(chunk, seq - chunk.first_seq)

    async def waiting_in(self, seq: int) -> Chunk | None:
        """Return the chunk in which the message with a sequence number waits; None if it does not wait in the log."""
        is_unread = view.ready_seq(self._cursor) <= seq < self._cursor.tail_seq
        chunk = await self.chunk_of(seq) if is_unread else None
        if chunk is None:
            return None
        index = next(iter(view.ready_in(self._cursor, chunk, seq)), None)
        return chunk if index == seq - chunk.first_seq and self._is_own(chunk, index) else None

    def _is_own(self, chunk: Chunk, index: int) -> bool:
        return chunk.attributes is None or is_for(chunk.attributes[index], self._group_name)

    async def chunk_of(self, seq: int) -> Chunk | None:
        """Return the chunk that contains the message with a sequence number; None if it was deleted."""
        chunk = await self._chunk_before(seq)
        return None if chunk is None or seq >= chunk.end_seq else chunk

    async def _chunk_before(self, seq: int) -> Chunk | None:
        """Return the last chunk that begins at `seq` or before."""
        first_seq = self._cursor.head_seq  # If the log has a chunk, it has this one.
        start, stop = (keys.chunk(self._topic_id, self._partition, number) for number in (first_seq, seq + 1))
        (last,) = await self._store.last_of([(start, stop)])
        return None if last is None else values.decode_chunk(keys.chunk_first_seq(last[0]), last[1])


def of_chunk(chunk: Chunk, index: int) -> StoredMessage:
    """Return a message of a chunk."""
    attributes = b"" if chunk.attributes is None else chunk.attributes[index]
    seq = chunk.first_seq + index
    position = Position(Range.LOG, seq)
    return StoredMessage(seq, chunk.committed_at_ms, chunk.payloads[index], NEVER_RETURNED, attributes, position)


def of_lease(lease: Lease, index: int) -> StoredMessage:
    """Return a message of a lease."""
    if isinstance(lease, ChunkLease):
        return of_chunk(lease.progress.chunk, lease.start + index)._replace(position=None)
    assert isinstance(lease, RecordLease)
    return _of_record(lease.record, None)


def _of_record(record: Record, position: Position | None) -> StoredMessage:
    seq, published_at_ms, counts, payload, attributes, failure = record
    return StoredMessage(seq, published_at_ms, payload, counts, attributes, position, failure=failure)


def _merge_starts(after: Position) -> tuple[int, int]:
    """Return where to continue in BACK, and in the log.

    The order of a record in BACK contains the end of the log at that time; the record comes before the message with
    that sequence number.
    """
    if after.range_ is Range.BACK:
        return after.order + 1, after.order >> 64
    if after.range_ is Range.LOG:
        return (after.order + 1) << 64, after.order + 1
    return 0, 0


def _log_seq(returned: StoredMessage) -> int:
    assert returned.position is not None
    return returned.position.order >> 64
