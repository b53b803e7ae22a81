"""Reads what a store holds: at start, and again after the store has failed.

The work grows with the topics and with the messages that were half settled, never with the backlog.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.partition import DEFAULT_GROUP, Partition
from miniqueue.errors import CorruptionError
from miniqueue.storage import keys, records
from miniqueue.storage.port import Store

PAGE_ITEMS = 1024
PAGE_BYTES = 1 << 20


class StoreContent(NamedTuple):
    """What the broker keeps in memory of a store; messages are not part of it."""

    topics: list[Topic]
    next_topic_id: int
    commit_number: int
    unpurged_topic_ids: list[int]


class _StoredTopic(NamedTuple):
    name: bytes
    id: int
    partitions: list[Partition]


async def read_content(store: Store, known: dict[bytes, Topic], acknowledged: int) -> StoreContent:
    """Read every topic; objects in `known` are filled again, so that those who wait there stay.

    They are filled at the end, all at once: nobody may be served from a store that has not proved itself.

    Args:
      store: open.
      known: topics by name.
      acknowledged: the number of the last commit that anybody was told of.

    Raises CorruptionError when something that must be there is not.
    """
    stored = [await _read_topic(store, key, value) async for key, value in pages(store, keys.topics())]
    next_topic_id = await _number(store, keys.NEXT_TOPIC, default=1)
    commit_number = await _number(store, keys.COMMIT, default=0)
    unpurged_topic_ids = [keys.purge_topic_id(key) async for key, _ in pages(store, keys.purges())]
    if commit_number < acknowledged:
        raise CorruptionError(f"commit {acknowledged} was acknowledged, the store ends with {commit_number}")
    topics = [_filled(known.get(topic.name) or Topic(topic.name), topic) for topic in stored]
    return StoreContent(topics, next_topic_id, commit_number, unpurged_topic_ids)


def _filled(topic: Topic, stored: _StoredTopic) -> Topic:
    topic.id = stored.id
    topic.partitions = stored.partitions
    return topic


async def pages(store: Store, key_range: keys.KeyRange) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield every pair of a range, a page at a time."""
    start, stop = key_range
    while pairs := await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        for pair in pairs:
            yield pair
        start = pairs[-1][0] + b"\x00"


async def _read_topic(store: Store, key: bytes, value: bytes) -> _StoredTopic:
    topic_id, _created_at_ms = records.decode_topic(value)
    return _StoredTopic(keys.topic_name(key), topic_id, [await _read_partition(store, topic_id, 0)])


async def _read_partition(store: Store, topic_id: int, partition: int) -> Partition:
    next_seq = await _number(store, keys.head(topic_id, partition), default=0)
    return Partition(next_seq, {DEFAULT_GROUP: await _read_cursor(store, topic_id, partition, next_seq)})


async def _read_cursor(store: Store, topic_id: int, partition: int, next_seq: int) -> GroupCursor:
    cursor = await store.get(keys.cursor(topic_id, partition, DEFAULT_GROUP))
    if cursor is None:
        raise CorruptionError(f"topic {topic_id}, partition {partition}: the group's cursor is missing")
    stored = keys.bitmaps(topic_id, partition, DEFAULT_GROUP)
    bitmaps = {keys.bitmap_first_seq(key): records.decode_bitmap(value) async for key, value in pages(store, stored)}
    stored = keys.gaps(topic_id, partition, DEFAULT_GROUP)
    gaps = {keys.gap_first_seq(key): records.decode_number(value) async for key, value in pages(store, stored)}
    return GroupCursor(records.decode_cursor(cursor), next_seq, bitmaps, gaps)


async def _number(store: Store, key: bytes, default: int) -> int:
    value = await store.get(key)
    return default if value is None else records.decode_number(value)
