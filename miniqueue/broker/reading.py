"""Cold reads: brings what a cursor lacks from the store into its window."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.gaps import Gaps
from miniqueue.core.known_returns import KnownReturns
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk, Record
from miniqueue.errors import CorruptionError
from miniqueue.storage import keys, records
from miniqueue.storage.port import Store

PAGE_ITEMS = 4096
PAGE_BYTES = 1 << 20
#: So many single messages are loaded at a time, of those that came back.
PAGE_PAYLOADS = 64


async def load(
    store: Store,
    place: Range,
    cursor: GroupCursor,
    topic_id: int,
    flush: Callable[[], Awaitable[None]],
) -> None:
    """Load the next page of `place` into the cursor's window.

    Raises StorageError, or what `flush` raises; the window is unchanged then.
    """
    try:
        if cursor.keyed is not None and await _load_keyed(store, place, cursor, topic_id, flush):
            pass
        elif place is Range.LOG:
            await _load_log(store, cursor, topic_id)
        else:
            await _load_returned(store, place, cursor, topic_id, flush)
    except BaseException:
        window = cursor.log if place is Range.LOG else cursor.returned[place]
        window.abandon_load()
        raise
    if cursor.blocked_on is place:
        cursor.blocked_on = None  # who takes nothing now, since the topic is paused, must not have it loaded again


async def _load_keyed(
    store: Store, place: Range, cursor: GroupCursor, topic_id: int, flush: Callable[[], Awaitable[None]]
) -> bool:
    """Have known by key what is loaded, a part in each turn of the loop; False when the store has more to load."""
    if place is not Range.LOG:
        is_loaded = cursor.returned[place].resume_at is None
        if is_loaded and cursor.keyed is not None:
            await _load_payloads(store, cursor, cursor.keyed.returns, topic_id, flush)
        return is_loaded
    while (keyed := cursor.keyed) is not None:
        if not keyed.ahead.look():
            break
        await asyncio.sleep(0)
    return cursor.log.resume_at is None


async def _load_payloads(
    store: Store, cursor: GroupCursor, returns: KnownReturns, topic_id: int, flush: Callable[[], Awaitable[None]]
) -> None:
    """Load messages that came back, and are known without their payloads."""
    await flush()
    for returned in returns.lacking(PAGE_PAYLOADS):
        value = await store.get(keys.record(topic_id, cursor.partition, cursor.group, returned.place, returned.order))
        if value is not None:
            returns.supply(returned, records.decode_record(value))
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
    chunks = [records.decode_chunk(keys.chunk_first_seq(key), value) for key, value in pairs]
    where = f"topic {topic_id}, partition {partition}"
    wanted, end_seq = _wanted(chunks, cursor.gaps, first_seq, where)
    cursor.log.load(((chunk.first_seq, chunk) for chunk in wanted), end_seq if end_seq < tail_seq else None)


async def _pairs_by_key(
    store: Store, gaps: Gaps, place: tuple[int, int], seqs: tuple[int, int], damage: CorruptionError
) -> list[tuple[bytes, bytes]]:
    """Read a page of a log after a scan has met damage, which may be that of the topic that comes next."""
    pairs: list[tuple[bytes, bytes]] = []
    seq, stop_seq = seqs
    while seq < stop_seq and not _may_be_cut(pairs):
        key = keys.chunk(*place, seq)
        value = await store.get(key)
        if value is None:
            raise damage
        pairs.append((key, value))
        seq = gaps.end_of(records.decode_chunk(seq, value).end_seq)
    return pairs


def _wanted(chunks: list[Chunk], gaps: Gaps, first_seq: int, where: str) -> tuple[list[Chunk], int]:
    """Return the chunks outside the gaps and where reading goes on; what is not finished must be there."""
    wanted: list[Chunk] = []
    expected = first_seq
    for chunk in chunks:
        if chunk.first_seq < expected:
            continue  # in a gap of this group; another still needs it
        if chunk.first_seq > expected:
            break
        wanted.append(chunk)
        expected = gaps.end_of(chunk.end_seq)
    if not wanted or chunks[-1].first_seq >= expected:
        raise CorruptionError(f"{where}: messages from {expected} on are missing")
    return wanted, expected


async def _load_returned(
    store: Store,
    place: Range,
    cursor: GroupCursor,
    topic_id: int,
    flush: Callable[[], Awaitable[None]],
) -> None:
    window = cursor.returned[place]
    start, stop = keys.records(topic_id, cursor.partition, cursor.group, place, window.begin_load())
    await flush()
    pairs = await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)
    found: Iterable[tuple[int, Record]] = [
        (keys.record_order(key), records.decode_record(value)) for key, value in pairs
    ]
    window.load(found, keys.record_order(pairs[-1][0]) + 1 if _may_be_cut(pairs) else None)


def _may_be_cut(pairs: list[tuple[bytes, Any]]) -> bool:
    return len(pairs) >= PAGE_ITEMS or sum(len(value) for _, value in pairs) >= PAGE_BYTES
