"""Loads messages that a cursor lacks from the store into its window."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Gaps, Range
from miniqueue.core.keyed.reader import keyed_of
from miniqueue.core.keyed.returns_index import ReturnsIndex
from miniqueue.core.message.message import Chunk, Record
from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys, values
from miniqueue.storage.port import Store

#: Maximum number and size of the values that are read at once.
PAGE_ITEMS = 4096
PAGE_BYTES = 1 << 20
#: Maximum number of returned messages that are loaded one by one at a time.
PAGE_PAYLOADS = 64


async def load(
    store: Store,
    range_: Range,
    cursor: GroupCursor,
    topic_id: int,
    flush: Callable[[], Awaitable[None]],
) -> None:
    """Load the next page of `range_` into the cursor's window.

    Raises StorageError, or the exception of `flush`; then the window is unchanged.
    """
    try:
        if cursor.keyed is not None and await _load_keyed(store, range_, cursor, topic_id, flush):
            pass
        elif range_ is Range.LOG:
            await _load_log(store, cursor, topic_id)
        else:
            await _load_returned(store, range_, cursor, topic_id, flush)
    except BaseException:
        window = cursor.log if range_ is Range.LOG else cursor.returned[range_]
        window.abandon_load()
        raise
    if cursor.blocked_on is range_:
        cursor.blocked_on = None  # If no message is taken now, since the topic is paused, it must not be loaded again.


async def _load_keyed(
    store: Store, range_: Range, cursor: GroupCursor, topic_id: int, flush: Callable[[], Awaitable[None]]
) -> bool:
    """Index loaded messages by key, a part in each event-loop iteration; return False if the store has more to load."""
    if range_ is not Range.LOG:
        is_loaded = cursor.returned[range_].resume_at is None
        if is_loaded and (keyed := keyed_of(cursor)) is not None:
            await _load_payloads(store, cursor, keyed.returns, topic_id, flush)
        return is_loaded
    while (keyed := keyed_of(cursor)) is not None:
        if not keyed.ahead.extend():
            break
        await asyncio.sleep(0)
    return cursor.log.resume_at is None


async def _load_payloads(
    store: Store, cursor: GroupCursor, returns: ReturnsIndex, topic_id: int, flush: Callable[[], Awaitable[None]]
) -> None:
    """Load the payloads of returned messages that are indexed without them."""
    await flush()
    for returned in returns.lacking(PAGE_PAYLOADS):
        value = await store.get(keys.record(topic_id, cursor.partition, cursor.group, returned.range_, returned.order))
        if value is not None:
            returns.supply(returned, values.decode_record(value))
        elif not returned.is_gone:
            raise CorruptionError(f"topic {topic_id}, partition {cursor.partition}: what came back is missing")


async def _load_log(store: Store, cursor: GroupCursor, topic_id: int) -> None:
    partition = cursor.partition
    first_seq, tail_seq = cursor.log.begin_load(), cursor.tail_seq
    start, stop = keys.chunk(topic_id, partition, first_seq), keys.chunk(topic_id, partition, tail_seq)
    try:
        page_bytes = min(PAGE_BYTES, cursor.log.max_bytes)
        pairs = await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=page_bytes)
    except CorruptionError as exc:
        pairs = await _pairs_by_key(store, cursor.gaps, (topic_id, partition), (first_seq, tail_seq), exc)
    if cursor.log.resume_at != first_seq:  # what was to be loaded first has been removed
        cursor.log.abandon_load()
        return
    chunks = [values.decode_chunk(keys.chunk_first_seq(key), value) for key, value in pairs]
    where = f"topic {topic_id}, partition {partition}"
    wanted, end_seq = _wanted(chunks, cursor.gaps, first_seq, where)
    cursor.log.load(((chunk.first_seq, chunk) for chunk in wanted), end_seq if end_seq < tail_seq else None)


async def _pairs_by_key(
    store: Store, gaps: Gaps, position: tuple[int, int], seqs: tuple[int, int], damage: CorruptionError
) -> list[tuple[bytes, bytes]]:
    """Read a page of a log by key after a scan met damage, which may belong to the next topic in the store."""
    pairs: list[tuple[bytes, bytes]] = []
    seq, stop_seq = seqs
    while seq < stop_seq and not _may_be_cut(pairs):
        key = keys.chunk(*position, seq)
        value = await store.get(key)
        if value is None:
            raise damage
        pairs.append((key, value))
        seq = gaps.end_of(values.decode_chunk(seq, value).end_seq)
    return pairs


def _wanted(chunks: list[Chunk], gaps: Gaps, first_seq: int, where: str) -> tuple[list[Chunk], int]:
    """Return the chunks outside the gaps, and where reading continues; unfinished chunks must exist."""
    wanted: list[Chunk] = []
    expected = first_seq
    for chunk in chunks:
        if chunk.first_seq < expected:
            continue  # The chunk is in a gap of this group; another group still needs it.
        if chunk.first_seq > expected:
            break
        wanted.append(chunk)
        expected = gaps.end_of(chunk.end_seq)
    if not wanted or chunks[-1].first_seq >= expected:
        raise CorruptionError(f"{where}: messages from {expected} on are missing")
    return wanted, expected


async def _load_returned(
    store: Store,
    range_: Range,
    cursor: GroupCursor,
    topic_id: int,
    flush: Callable[[], Awaitable[None]],
) -> None:
    window = cursor.returned[range_]
    start, stop = keys.records(topic_id, cursor.partition, cursor.group, range_, window.begin_load())
    await flush()
    pairs = await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)
    records: Iterable[tuple[int, Record]] = [
        (keys.record_order(key), values.decode_record(value)) for key, value in pairs
    ]
    window.load(records, keys.record_order(pairs[-1][0]) + 1 if _may_be_cut(pairs) else None)


def _may_be_cut(pairs: list[tuple[bytes, Any]]) -> bool:
    return len(pairs) >= PAGE_ITEMS or sum(len(value) for _, value in pairs) >= PAGE_BYTES
