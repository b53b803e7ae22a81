"""The age of the oldest unsettled message of a topic, and the statistics of the log that a topic retains.

    log                    the first unfinished chunk ── usually in memory, or one value of the store
    returned messages      the first and the last record of each range: in FRONT the last record was returned first; in
                           DELAYED and BACK the first record was, unless its message was returned before

So the age is exact for topics without returned messages, and otherwise as close as a few values allow. The result is
cached until a message is settled, because messages that are published meanwhile are not older.

The statistics of the retained log say how much of it can be read again, and since when. They read at most one value
of the store for each partition, the first chunk, which is cached.
"""

from collections.abc import Iterable
from typing import NamedTuple

from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored.log_index import PartitionLog
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range
from miniqueue.core.group import view
from miniqueue.core.message.message import ChunkExtent
from miniqueue.storage.format import keys, values
from miniqueue.storage.port import Store


async def oldest_at_ms(store: Store, topic: Topic) -> int | None:
    """Return when the oldest message was published, in ms since 1970; None if there is no message.

    Raises StorageError.
    """
    topic_id, cursors, pulse = topic.id, topic.cursors, topic.pulse  # the topic may be deleted while this waits
    cursors = [cursor for cursor in cursors if cursor.depth]
    if topic_id is None or not cursors:
        return None
    settles = topic_id, *[_settles(cursor) for cursor in cursors]
    if pulse is not None and pulse.oldest is not None and pulse.oldest[0] == settles:
        return pulse.oldest[1]
    at_ms = await oldest_of(store, topic_id, cursors)
    if pulse is not None:
        pulse.oldest = settles, at_ms
    return at_ms


async def oldest_of(store: Store, topic_id: int, cursors: Iterable[GroupCursor]) -> int | None:
    """Return when the oldest message of some cursors of a topic was published, in ms; None if there is no message.

    Raises StorageError.
    """
    cursors = [cursor for cursor in cursors if cursor.depth]
    times = [await _of_log(store, topic_id, cursor) for cursor in cursors]
    for cursor in cursors:
        times += [time for range_ in RETURN_RANGES for time in await _of_returned(store, topic_id, cursor, range_)]
    return min((time for time in times if time is not None), default=None)


def _settles(cursor: GroupCursor) -> tuple[object, ...]:
    """Return the state of a cursor that a settle changes: everything except the length of the log."""
    return cursor.partition, cursor.group, cursor.state._replace(log_bytes=None)


async def _of_log(store: Store, topic_id: int, cursor: GroupCursor) -> int | None:
    chunk = view.oldest_open_chunk(cursor)
    if chunk is not None:
        return chunk.committed_at_ms
    start, stop = (keys.chunk(topic_id, cursor.partition, seq) for seq in (cursor.head_seq, cursor.tail_seq))
    pairs = await store.scan(start, stop, max_items=1, max_bytes=1) if start < stop else []
    return values.decode_chunk(0, pairs[0][1]).committed_at_ms if pairs else None


async def _of_returned(store: Store, topic_id: int, cursor: GroupCursor, range_: Range) -> list[int]:
    if view.is_empty(cursor, range_):
        return []
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


async def kept_of(store: Store, topic: Topic) -> RetainedStatistics:
    """Return the statistics of the retained log of a topic; raises StorageError."""
    kept = RetainedStatistics()
    for partition in list(topic.partitions.values()):
        if partition.retained is not None and topic.id is not None:
            log = PartitionLog(store, topic, topic.id, partition)
            first = await log.first()
            if first is not None:
                cursors = partition.cursors.values()
                end_seq, log_bytes = max((cursor.tail_seq, cursor.tail_bytes) for cursor in cursors)
                kept = kept.plus(first, end_seq, log_bytes)
    return kept
