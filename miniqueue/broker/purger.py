"""Gives back disk space: of deleted topics, and of messages that have been consumed.

LevelDB keeps deleted data until it happens to compact the tables that hold it, which after a large backlog has been
consumed may be never. So the range in front of the oldest message still needed is compacted now and then.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import structlog

from miniqueue.broker.commit import Commit
from miniqueue.broker.journal import Journal
from miniqueue.broker.opening import PAGE_BYTES, PAGE_ITEMS
from miniqueue.broker.topic import Topic
from miniqueue.errors import MiniqueueError
from miniqueue.storage import keys

log = structlog.get_logger()

#: How much consumed data a topic may hold on disk: some while it is in use, less when it is empty.
MAX_CONSUMED_BYTES = 64 << 20
MAX_CONSUMED_BYTES_WHEN_EMPTY = 4 << 20
#: What a deleted topic must have held for its space to be given back at once: compacting takes some 50 ms, so those who
#: make and delete small topics all the time would be ahead of it for ever. LevelDB finds the rest by itself.
MIN_PURGED_BYTES = 1 << 20


class Purger:
    """Works in the background, beside everything else.

    Args:
      journal: has the store, and commits deletions.
      spawn: runs something in the background.
    """

    def __init__(self, journal: Journal, *, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._journal = journal
        self._spawn = spawn
        self._is_reclaiming = False

    def purge(self, topic_id: int, consumed_bytes: int = 0) -> None:
        """Delete every key of a topic that is no longer registered, and give its disk space back.

        It can be broken off anywhere: the topic's purge entry goes last, and a restart begins again.

        Args:
          topic_id: of the topic.
          consumed_bytes: what else it still holds on disk, as far as that is known.
        """
        self._spawn(self._purge(topic_id, consumed_bytes))

    async def purge_behind(self, commit: Commit, topic_id: int | None, consumed_bytes: int) -> bool:
        """Purge a topic, None for none, when `commit` is done that deletes it; tell whether there was one.

        Raises the commit's error.
        """
        await commit.wait()
        if topic_id is not None:
            self.purge(topic_id, consumed_bytes)
        return topic_id is not None

    def reclaim(self, topics: Iterable[Topic]) -> None:
        """Give disk space back for the first topic of which enough has been consumed, if any."""
        topic = None if self._is_reclaiming else next(filter(_is_worth_reclaiming, topics), None)
        if topic is not None:
            assert topic.id is not None  # or it would not be worth it
            self._is_reclaiming = True
            self._spawn(self._reclaim(topic.id, topic))

    async def _purge(self, topic_id: int, consumed_bytes: int) -> None:
        try:
            ranges = keys.of_topic(topic_id)
            deleted_bytes = consumed_bytes + sum([await self._delete(start, stop) for start, stop in ranges])
            await self._journal.commit({keys.purge(topic_id): None})
            for start, stop in ranges if deleted_bytes >= MIN_PURGED_BYTES else ():
                await self._journal.store.reclaim(start, stop)
        except MiniqueueError as exc:
            log.warning("purge of a deleted topic was broken off", topic_id=topic_id, error=str(exc))

    async def _delete(self, start: bytes, stop: bytes) -> int:
        """Delete a range a page at a time, never scanning over what has just been deleted; return its bytes."""
        deleted_bytes = 0
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            await self._journal.commit({key: None for key, _ in pairs})
            deleted_bytes += sum(len(value) for _, value in pairs)
            start = pairs[-1][0]
        return deleted_bytes

    async def _reclaim(self, topic_id: int, topic: Topic) -> None:
        """Compact what lies in front of the oldest message of each partition that is still needed.

        `topic` may be deleted meanwhile, even before this begins; compacting what it had does no harm.
        """
        try:
            for partition in list(topic.partitions.values()):
                partition.consumed_bytes = 0
                head_seq = min(cursor.state.head_seq for cursor in partition.cursors.values())
                start, stop = (keys.chunk(topic_id, partition.number, seq) for seq in (0, head_seq))
                await self._journal.store.reclaim(start, stop)
        except MiniqueueError as exc:
            log.warning("disk space of consumed messages was not given back", topic=topic.name, error=str(exc))
        finally:
            self._is_reclaiming = False


def _is_worth_reclaiming(topic: Topic) -> bool:
    is_empty = not any(cursor.depth for cursor in topic.cursors)
    max_bytes = MAX_CONSUMED_BYTES_WHEN_EMPTY if is_empty else MAX_CONSUMED_BYTES
    return topic.id is not None and topic.consumed_bytes > max_bytes
