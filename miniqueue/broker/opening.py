"""Reads what a store holds: at start, and again after the store has failed.

The work grows with the topics and with the messages that were half settled, never with the backlog; but bytes that an
old store does not tell are counted, until the topic's cursor has been written anew.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from miniqueue.broker import counting
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
    state = _State([pair async for pair in pages(store, keys.state())])
    commit_number = state.number(keys.COMMIT, default=0)
    if commit_number < acknowledged:
        raise CorruptionError(f"commit {acknowledged} was acknowledged, the store ends with {commit_number}")
    stored = [await _stored_topic(store, state, key, value) for key, value in state.between(keys.topics())]
    return StoreContent(
        topics=[_filled(known.get(topic.name) or Topic(topic.name), topic) for topic in stored],
        next_topic_id=state.number(keys.NEXT_TOPIC, default=1),
        commit_number=commit_number,
        unpurged_topic_ids=[keys.purge_topic_id(key) for key, _ in state.between(keys.purges())],
    )


def _filled(topic: Topic, stored: _StoredTopic) -> Topic:
    topic.fill(stored.id, stored.partitions)
    return topic


async def pages(store: Store, key_range: keys.KeyRange) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield every pair of a range, a page at a time."""
    start, stop = key_range
    while pairs := await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        for pair in pairs:
            yield pair
        start = pairs[-1][0] + b"\x00"


class _State:
    """Everything stored but the messages, in key order.

    It is read as one range: a few reads for each topic took 4 s for 10,000 topics, this takes less than 1.
    """

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._keys = [key for key, _ in pairs]
        self._values = dict(pairs)

    def value(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def number(self, key: bytes, default: int) -> int:
        value = self.value(key)
        return default if value is None else records.decode_number(value)

    def between(self, key_range: keys.KeyRange) -> Iterator[tuple[bytes, bytes]]:
        start, stop = (bisect_left(self._keys, bound) for bound in key_range)
        return ((key, self._values[key]) for key in self._keys[start:stop])


async def _stored_topic(store: Store, state: _State, key: bytes, value: bytes) -> _StoredTopic:
    topic_id, _created_at_ms = records.decode_topic(value)
    return _StoredTopic(keys.topic_name(key), topic_id, [await _partition(store, state, topic_id, 0)])


async def _partition(store: Store, state: _State, topic_id: int, partition: int) -> Partition:
    head = state.value(keys.head(topic_id, partition))
    next_seq, log_bytes = (0, 0) if head is None else records.decode_head(head)
    cursor = await _cursor(store, state, (topic_id, partition, DEFAULT_GROUP), next_seq, log_bytes)
    return Partition(next_seq, {DEFAULT_GROUP: cursor}, cursor.tail_bytes)


async def _cursor(
    store: Store, state: _State, place: tuple[int, int, int], next_seq: int, log_bytes: int
) -> GroupCursor:
    topic_id, partition, _group = place
    value = state.value(keys.cursor(*place))
    if value is None:
        raise CorruptionError(f"topic {topic_id}, partition {partition}: the group's cursor is missing")
    cursor = records.decode_cursor(value)
    bitmaps = {
        keys.bitmap_first_seq(key): records.decode_bitmap(value) for key, value in state.between(keys.bitmaps(*place))
    }
    gaps = state.between(keys.gaps(*place))
    if cursor.log_bytes is None:
        chunks, returned = counting.chunks_of(topic_id, partition), counting.records_of(*place)
        log_bytes = await counting.held_bytes(pages(store, chunks), pages(store, returned), bitmaps)
    return GroupCursor(
        cursor._replace(log_bytes=max(log_bytes, cursor.log_bytes or 0)),
        next_seq,
        bitmaps,
        {keys.gap_first_seq(key): records.decode_number(value) for key, value in gaps},
    )
