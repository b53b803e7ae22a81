"""Counts the bytes that a group holds, where a store of an earlier version does not tell."""

from collections.abc import AsyncIterator

from miniqueue.core.lease import Range
from miniqueue.storage import keys, records

Pairs = AsyncIterator[tuple[bytes, bytes]]


def records_of(topic_id: int, partition: int, group: int) -> keys.KeyRange:
    """Return the range of all that came back in a group."""
    first, last = (keys.records(topic_id, partition, group, place, 0) for place in (Range.FRONT, Range.BACK))
    return first[0], last[1]


async def held_bytes(chunks: Pairs, returned: Pairs, bitmaps: dict[int, int]) -> int:
    """Return how long payloads and attributes are together that are not settled; reads every message."""
    total_bytes = 0
    async for key, value in chunks:
        first_seq = keys.chunk_first_seq(key)
        settled = bitmaps.get(first_seq, 0)
        sizes = records.decode_chunk(first_seq, value).sizes()
        total_bytes += sum(size for index, size in enumerate(sizes) if not settled >> index & 1)
    async for _, value in returned:
        total_bytes += records.decode_record(value).content_bytes
    return total_bytes
