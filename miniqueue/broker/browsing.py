"""Reads the messages of one group in one partition as they wait, without touching any of them.

    ready     FRONT ─▶ DELAYED, as far as due ─▶ BACK and LOG, merged by sequence number
    delayed   DELAYED, what is not due

It reads the store a small page at a time, on the store's thread, and leaves out what the cursor has handed out or
settled by now. What consumers find loaded stays as it is. Every message comes with its position, from which reading
can go on behind it.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from miniqueue.core import cursor_view
from miniqueue.core.attributes import is_for
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lease import ChunkLease, Lease, Range, RecordLease
from miniqueue.core.message import NEVER_RETURNED, Chunk, Counts, Record
from miniqueue.storage import keys, records
from miniqueue.storage.port import Store

PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10
_CHUNKS = 16


class Position(NamedTuple):
    """The place of a message; `order` is its sequence number in the log, and that of its record elsewhere."""

    place: Range
    order: int


class Found(NamedTuple):
    """A message as it waits or is leased; `position` is None where it has none to go on from.

    One that was published with a delay and is not due has a `delayed_id`, and no number yet.
    """

    seq: int
    published_at_ms: int
    payload: bytes
    counts: Counts = NEVER_RETURNED
    attributes: bytes = b""
    position: Position | None = None
    delayed_id: DelayedId | None = None


START = Position(Range.FRONT, -1)


class Browser:
    """Reads one partition of a topic.

    Args:
      store: to read.
      topic_id: of the topic.
      cursor: of a group there.
      group_name: of that group; what is for another one is not there for it.
    """

    def __init__(self, store: Store, topic_id: int, cursor: GroupCursor, group_name: bytes) -> None:
        self._store = store
        self._topic_id = topic_id
        self._partition = cursor.partition
        self._group = cursor.group
        self._cursor = cursor
        self._group_name = group_name

    async def ready(self, after: Position, due_ms: int) -> AsyncGenerator[Found, None]:
        """Yield what could be handed out at `due_ms`, in that order, from behind `after` on."""
        sources = [self._back_and_log(after)]
        if after.place <= Range.DELAYED:
            start = after.order + 1 if after.place is Range.DELAYED else 0
            sources.insert(0, self.returned(Range.DELAYED, start, (due_ms + 1) << 64))
        if after.place is Range.FRONT:
            sources.insert(0, self.returned(Range.FRONT, after.order + 1))
        for source in sources:
            async with aclosing(source):
                async for found in source:
                    yield found

    async def delayed(self, after: Position, due_ms: int) -> AsyncGenerator[Found, None]:
        """Yield what is not due at `due_ms`, by due time, from behind `after` on."""
        start = after.order + 1 if after.place is Range.DELAYED else 0
        async with aclosing(self.returned(Range.DELAYED, max(start, (due_ms + 1) << 64))) as waiting:
            async for found in waiting:
                yield found

    async def returned(self, place: Range, start: int, stop: int | None = None) -> AsyncGenerator[Found, None]:
        """Yield what waits in a range of records, by order, from `start` to before `stop`."""
        if cursor_view.is_empty(self._cursor, place):
            return
        key, last_key = keys.records(self._topic_id, self._partition, self._group, place, start)
        if stop is not None:
            last_key = keys.record(self._topic_id, self._partition, self._group, place, stop)
        while pairs := await self._store.scan(key, last_key, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            for key, value in pairs:
                order = keys.record_order(key)
                if cursor_view.is_waiting(self._cursor, place, order):
                    yield _of_record(records.decode_record(value), Position(place, order))
            key += b"\x00"

    async def log(self, start_seq: int) -> AsyncGenerator[Found, None]:
        """Yield what nobody was handed yet, or not since the start, from `start_seq` on."""
        cursor = self._cursor
        start_seq = max(start_seq, cursor_view.ready_seq(cursor))
        first = await self._chunk_before(start_seq)
        key = keys.chunk(self._topic_id, self._partition, start_seq if first is None else first.first_seq)
        while pairs := await self._store.scan(
            key, keys.chunk(self._topic_id, self._partition, cursor.tail_seq), max_items=_CHUNKS, max_bytes=PAGE_BYTES
        ):
            for key, value in pairs:
                chunk = records.decode_chunk(keys.chunk_first_seq(key), value)
                for index in cursor_view.ready_in(cursor, chunk, start_seq):
                    if self._is_own(chunk, index):
                        yield of_chunk(chunk, index)
            key += b"\x00"

    async def _back_and_log(self, after: Position) -> AsyncGenerator[Found, None]:
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

    async def in_log(self, seq: int) -> Found | None:
        """Return the message with a sequence number if it waits in the log."""
        is_unread = cursor_view.ready_seq(self._cursor) <= seq < self._cursor.tail_seq
        chunk = await self._chunk_before(seq) if is_unread else None
        if chunk is None or seq >= chunk.end_seq:
            return None
        index = next(iter(cursor_view.ready_in(self._cursor, chunk, seq)), None)
        return of_chunk(chunk, index) if index == seq - chunk.first_seq and self._is_own(chunk, index) else None

    def _is_own(self, chunk: Chunk, index: int) -> bool:
        return chunk.attributes is None or is_for(chunk.attributes[index], self._group_name)

    async def in_returned(self, seq: int) -> Found | None:
        """Return the message with a sequence number if it came back; reads all that did, until it is found."""
        for place in (Range.FRONT, Range.DELAYED, Range.BACK):
            async with aclosing(self.returned(place, 0)) as waiting:
                async for found in waiting:
                    if found.seq == seq:
                        return found
        return None

    async def _chunk_before(self, seq: int) -> Chunk | None:
        """Return the last chunk that begins at `seq` or before."""
        first_seq = self._cursor.state.head_seq  # this chunk is there, if any is
        start, stop = (keys.chunk(self._topic_id, self._partition, number) for number in (first_seq, seq + 1))
        (last,) = await self._store.last_of([(start, stop)])
        return None if last is None else records.decode_chunk(keys.chunk_first_seq(last[0]), last[1])


def of_chunk(chunk: Chunk, index: int) -> Found:
    """Return a message of a chunk."""
    attributes = b"" if chunk.attributes is None else chunk.attributes[index]
    seq = chunk.first_seq + index
    position = Position(Range.LOG, seq)
    return Found(seq, chunk.committed_at_ms, chunk.payloads[index], NEVER_RETURNED, attributes, position)


def of_lease(lease: Lease, index: int) -> Found:
    """Return a message of a lease."""
    if isinstance(lease, ChunkLease):
        return of_chunk(lease.progress.chunk, lease.start + index)._replace(position=None)
    assert isinstance(lease, RecordLease)
    return _of_record(lease.record, None)


def _of_record(record: Record, position: Position | None) -> Found:
    return Found(record.seq, record.published_at_ms, record.payload, record.counts, record.attributes, position)


def _merge_starts(after: Position) -> tuple[int, int]:
    """Return where to go on among what came back to the back, and in the log.

    A record in BACK remembers where the log ended; it comes before the message with that sequence number.
    """
    if after.place is Range.BACK:
        return after.order + 1, after.order >> 64
    if after.place is Range.LOG:
        return (after.order + 1) << 64, after.order + 1
    return 0, 0


def _log_seq(returned: Found) -> int:
    assert returned.position is not None
    return returned.position.order >> 64
