"""Counts which messages that came back with a delay are ready, for those who look at figures.

    tick: the horizon, up to which messages are handed out ─▶ a look at figures: what became due since the last look
                                                               └ pages of the store, each message once

A tick costs nothing by it, and a look nothing if no message has become due. Messages that were published with a delay
need no count: the broker moves them to the log when they are due.
"""

from collections.abc import Callable
from contextlib import suppress

from miniqueue.broker.journal import Journal
from miniqueue.broker.summing import total
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.errors import MiniqueueError
from miniqueue.storage import keys

PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10


class DueCounter:
    """Counts the messages of topics that are due.

    Args:
      journal: has the store.
      horizon_ms: returns the time up to which messages are handed out now.
    """

    def __init__(self, journal: Journal, horizon_ms: Callable[[], int]) -> None:
        self._journal = journal
        self._horizon_ms = horizon_ms

    async def count(self, topic: Topic) -> None:
        """Have the cursors of a topic know how many messages are due.

        What cannot be read cannot be received either, and stays delayed.
        """
        if topic.id is None or not total("delayed_count", topic.cursors):
            return
        with suppress(MiniqueueError):
            for cursor in [cursor for cursor in topic.cursors if cursor.delayed_count]:
                await self._count(topic.id, cursor)

    async def _count(self, topic_id: int, cursor: GroupCursor) -> None:
        due, window, limit = cursor.due, cursor.returned[Range.DELAYED], (self._horizon_ms() + 1) << 64
        if limit < due.limit:
            due.clear()
        is_none_due = cursor.keyed is None and (window.head is None or window.head >= limit)
        if is_none_due or due.limit == limit:
            return
        with window.watch() as gone:
            await self._journal.committer.flush()  # what had gone before is not in the store then
            while (start := due.limit) < limit:
                pairs = await self._journal.store.scan(
                    keys.record(topic_id, cursor.partition, cursor.group, Range.DELAYED, start),
                    keys.record(topic_id, cursor.partition, cursor.group, Range.DELAYED, limit),
                    max_items=PAGE_ITEMS,
                    max_bytes=PAGE_BYTES,
                )
                if due.limit != start:
                    continue  # somebody else has counted these
                orders = [keys.record_order(key) for key, _ in pairs]
                due.extend(orders[-1] + 1 if orders else limit, sum(order not in gone for order in orders))
