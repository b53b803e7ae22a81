"""The age of the oldest unsettled message of a topic, and the statistics of the log that a topic retains.

    log                    the first unfinished chunk ── usually in memory, or one value of the store
    returned messages      the first and the last record of each range: in FRONT the last record was returned first; in
                           DELAYED and BACK the first record was, unless its message was returned before

So the age is exact for topics without returned messages, and otherwise as close as a few values allow. The result is
cached until a message is settled, because messages that are published meanwhile are not older.

The statistics of the retained log say how much of it can be read again, and since when. They read at most one value
of the store for each partition, the first chunk, which is cached.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import compress, groupby
from operator import add, attrgetter, ne
from typing import Final, NamedTuple, TypeVar

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic, total
from miniqueue.broker.stored.log_index import PartitionLog
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range
from miniqueue.core.group import view
from miniqueue.core.message.message import ChunkExtent
from miniqueue.storage.format import keys, values
from miniqueue.storage.port import Store

T = TypeVar("T")

#: Number of cursors that are inspected in one iteration of the event loop.
CURSORS_IN_TURN: Final = 500

_COUNTS_OF_SETTLES: Final = ("acked_count", "dropped_count", "serial")
_tail = attrgetter("tail_seq", "tail_bytes")
_id, _partition, _head_seq = attrgetter("id"), attrgetter("partition"), attrgetter("head_seq")
_tail_seq, _acked_count, _dropped_count = attrgetter("tail_seq"), attrgetter("acked_count"), attrgetter("dropped_count")


async def oldest_at_ms(engine: Engine, topic: Topic) -> int | None:
    """Return when the oldest message was published, in ms since 1970; None if there is no message.

    Reads as `oldest_of`. Raises StorageError.
    """
    topic_id, cursors, pulse = topic.id, topic.cursors, topic.pulse  # the topic may be deleted while this waits
    if topic_id is None:
        return None
    # It changes with each settle and return, and if a group is created, moved, or deleted.
    settles = topic_id, *map(_id, topic.existing_groups), *(total(count, cursors) for count in _COUNTS_OF_SETTLES)
    if pulse is not None and pulse.oldest is not None and pulse.oldest[0] == settles:
        return pulse.oldest[1]
    at_ms = await oldest_of(engine, topic_id, cursors)
    if pulse is not None and at_ms is not None:
        pulse.oldest = settles, at_ms
    return at_ms


async def oldest_of(engine: Engine, topic_id: int, cursors: Sequence[GroupCursor]) -> int | None:
    """Return when the oldest message of some cursors of a topic was published, in ms; None if there is no message.

    Reads many partitions in turns, each as it is then: of messages that are settled meanwhile, some may count. Raises
    StorageError.
    """
    dones = map(add, map(_acked_count, cursors), map(_dropped_count, cursors))
    unsettled = sorted(compress(cursors, map(ne, map(_tail_seq, cursors), dones)), key=_partition)
    at_ms: int | None = None
    by_partition = [[*readers] for _, readers in groupby(unsettled, _partition)]
    async with aclosing(_each(engine, by_partition, max(map(len, by_partition), default=1))) as partitions:
        async for readers in partitions:
            times = await _of_partition(engine.journal.store, topic_id, readers)
            at_ms = min(times if at_ms is None else [at_ms, *times], default=None)
    return at_ms


async def _each(engine: Engine, partitions: Sequence[T], reader_count: int) -> AsyncGenerator[T, None]:
    """Yield partitions with `reader_count` cursors each: a few at once, since most topics have few, then in turns."""
    count = max(1, CURSORS_IN_TURN // max(1, reader_count))
    for partition in partitions[:count]:
        yield partition
    async with aclosing(engine.share.in_turns(partitions[count:], count)) as others:
        async for partition in others:
            yield partition


async def _of_partition(store: Store, topic_id: int, cursors: Sequence[GroupCursor]) -> list[int]:
    """Return the times of the oldest messages in the log of a partition, and among those that were returned."""
    first = min(cursors, key=_head_seq)  # the chunks that others need first are not older
    times = [await _of_log(store, topic_id, first)]
    for cursor in cursors:
        for range_ in RETURN_RANGES:
            if not view.is_empty(cursor, range_):
                times += await _of_returned(store, topic_id, cursor, range_)
    return [time for time in times if time is not None]


async def _of_log(store: Store, topic_id: int, cursor: GroupCursor) -> int | None:
    chunk = view.oldest_open_chunk(cursor)
    if chunk is not None:
        return chunk.committed_at_ms
    start, stop = (keys.chunk(topic_id, cursor.partition, seq) for seq in (cursor.head_seq, cursor.tail_seq))
    pairs = await store.scan(start, stop, max_items=1, max_bytes=1) if start < stop else []
    return values.decode_chunk(0, pairs[0][1]).committed_at_ms if pairs else None


async def _of_returned(store: Store, topic_id: int, cursor: GroupCursor, range_: Range) -> list[int]:
    start, stop = keys.records(topic_id, cursor.partition, cursor.group, range_, 0)
    pairs = [*await store.scan(start, stop, max_items=1, max_bytes=1), *await store.last_of([(start, stop)])]
    return [values.decode_record(pair[1]).published_at_ms for pair in pairs if pair is not None]


class RetainedStatistics(NamedTuple):
    """Statistics of the retained log of a topic; all zero if the topic retains nothing.

    Attributes:
      message_count: number of messages from the earliest on, unsettled messages included.
      size_bytes: total size of their payloads and attributes.
      earliest_at_ms: when the earliest message was committed; None if there is no message.
    """

    message_count: int = 0
    size_bytes: int = 0
    earliest_at_ms: int | None = None

    def plus(self, first: ChunkExtent, end_seq: int, log_bytes: int) -> "RetainedStatistics":
        """Add a log that begins with the chunk `first` and ends at `end_seq`, where its length is `log_bytes`."""
        at_ms = min(first.committed_at_ms, self.earliest_at_ms or first.committed_at_ms)
        size_bytes = max(0, log_bytes - first.log_bytes + first.content_bytes)
        return RetainedStatistics(self.message_count + end_seq - first.first_seq, self.size_bytes + size_bytes, at_ms)


async def kept_of(engine: Engine, topic: Topic) -> RetainedStatistics:
    """Return the statistics of the retained log of a topic, of each of many partitions in turn; raises StorageError.

    If the topic is deleted meanwhile, the rest counts as empty.
    """
    kept, topic_id = RetainedStatistics(), topic.id
    retaining = [partition for partition in topic.partitions.values() if partition.retained is not None]
    async with aclosing(_each(engine, retaining, len(topic.existing_groups))) as partitions:
        async for partition in partitions:
            if topic_id is None or topic.id != topic_id:
                break
            first = await PartitionLog(engine.journal.store, topic, topic_id, partition).first()
            if first is not None:
                end_seq, log_bytes = max(map(_tail, partition.cursors.values()))
                kept = kept.plus(first, end_seq, log_bytes)
    return kept
