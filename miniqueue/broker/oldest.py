"""How old the oldest message of a topic is that is not settled.

    log                    the first chunk that is not finished ── in memory, as a rule, or one value of the store
    what came back         the first and the last record of each range: the last of FRONT came first, of what is
                           DELAYED or in the BACK the first did, unless it came back before

So it is exact for topics in which nothing came back, and otherwise as near as a few values can tell. The answer is
remembered until something is settled, because what is published meanwhile is not older.
"""

from miniqueue.broker.topic import Topic
from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.storage import keys, records
from miniqueue.storage.port import Store


async def oldest_at_ms(store: Store, topic: Topic) -> int | None:
    """Return when the oldest message was published, in ms since 1970; None when there is none.

    Raises StorageError.
    """
    topic_id, cursors, pulse = topic.id, topic.cursors, topic.pulse  # it may be deleted while this waits
    cursors = [cursor for cursor in cursors if cursor.depth]
    if topic_id is None or not cursors:
        return None
    settles = topic_id, *[_settles(cursor) for cursor in cursors]
    if pulse is not None and pulse.oldest is not None and pulse.oldest[0] == settles:
        return pulse.oldest[1]
    times = [await _of_log(store, topic_id, cursor) for cursor in cursors]
    for cursor in cursors:
        times += [time for place in cursor.returned for time in await _of_returned(store, topic_id, cursor, place)]
    at_ms = min((time for time in times if time is not None), default=None)
    if pulse is not None:
        pulse.oldest = settles, at_ms
    return at_ms


def _settles(cursor: GroupCursor) -> tuple[object, ...]:
    """Return what changes when something is settled: all but the length of the log."""
    return cursor.partition, cursor.group, cursor.state._replace(log_bytes=None)


async def _of_log(store: Store, topic_id: int, cursor: GroupCursor) -> int | None:
    chunk = cursor_view.oldest_open_chunk(cursor)
    if chunk is not None:
        return chunk.committed_at_ms
    start, stop = (keys.chunk(topic_id, cursor.partition, seq) for seq in (cursor.state.head_seq, cursor.tail_seq))
    pairs = await store.scan(start, stop, max_items=1, max_bytes=1) if start < stop else []
    return records.decode_chunk(0, pairs[0][1]).committed_at_ms if pairs else None


async def _of_returned(store: Store, topic_id: int, cursor: GroupCursor, place: Range) -> list[int]:
    if cursor_view.is_empty(cursor, place):
        return []
    start, stop = keys.records(topic_id, cursor.partition, cursor.group, place, 0)
    pairs = [*await store.scan(start, stop, max_items=1, max_bytes=1), *await store.last_of([(start, stop)])]
    return [records.decode_record(pair[1]).published_at_ms for pair in pairs if pair is not None]
