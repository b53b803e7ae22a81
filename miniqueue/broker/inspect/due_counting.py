"""Counts the ready messages among those that were returned with a delay, for statistics.

    tick: the horizon, up to which messages are delivered ─▶ inspection: messages due since the last inspection
                                                               └ pages of the store, each message once

A tick costs nothing extra, and an inspection nothing unless messages have become due; if so, it costs one flush per
topic. Messages that were published with a delay are not counted here: the broker moves them to the log when due.
"""

from collections.abc import Set
from contextlib import ExitStack, suppress

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic, total
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.keyed.reader import keyed_of
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import keys

#: Maximum size of a page that is read from the store, which bounds the work in one iteration of the event loop.
PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10


async def count_due(engine: Engine, topic: Topic) -> None:
    """Update the number of due messages in the cursors of a topic.

    Messages that cannot be read cannot be delivered either; they are still counted as delayed.
    """
    topic_id, limit = topic.id, (engine.horizon.at_ms + 1) << 64
    if topic_id is None or topic.at_rest is not None or not total("delayed_count", topic.cursors):
        return
    due = [cursor for cursor in topic.cursors if cursor.delayed_count and _may_be_due(cursor, limit)]
    if not due:
        return
    with ExitStack() as watches, suppress(MiniqueueError):
        removed = [watches.enter_context(cursor.returned[Range.DELAYED].watch()) for cursor in due]
        await engine.journal.committer.flush()  # after it, the store has no messages that were removed before
        for cursor, removed_orders in zip(due, removed, strict=True):
            await _count(engine, topic_id, cursor, limit, removed_orders)


async def _count(engine: Engine, topic_id: int, cursor: GroupCursor, limit: int, removed_orders: Set[int]) -> None:
    """Count the due messages of a cursor; `removed_orders` are those removed since just before the last flush."""
    due = cursor.due
    while (start := due.limit) < limit:
        pairs = await engine.journal.store.scan(
            keys.record(topic_id, cursor.partition, cursor.group, Range.DELAYED, start),
            keys.record(topic_id, cursor.partition, cursor.group, Range.DELAYED, limit),
            max_items=PAGE_ITEMS,
            max_bytes=PAGE_BYTES,
        )
        if due.limit != start:
            continue  # another inspection has counted these messages
        orders = [keys.record_order(key) for key, _ in pairs]
        due.extend(orders[-1] + 1 if orders else limit, sum(order not in removed_orders for order in orders))


def _may_be_due(cursor: GroupCursor, limit: int) -> bool:
    """Whether, as far as is known in memory, there may be uncounted messages before `limit`."""
    due, window = cursor.due, cursor.returned[Range.DELAYED]
    if limit < due.limit:
        due.clear()
    if due.limit == limit:
        return False
    first = window.first_from(due.limit)
    if (keyed := keyed_of(cursor)) is not None and (first is None or first >= limit):
        first = keyed.returns.first_from(Range.DELAYED, due.limit)
    return first is not None and first < limit
