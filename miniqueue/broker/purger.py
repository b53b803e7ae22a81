"""Gives back disk space: of deleted topics, and of messages that have been consumed.

LevelDB keeps deleted data until it happens to compact the tables that hold it, which after a large backlog has been
consumed may be never. So the range in front of the oldest message still needed is compacted now and then.

Deleted topics are purged one behind the other, the lowest id first, and neighbours as one:

    deleted: 4 7 8 9 12    ─▶    4    7─9    12        each range of keys is scanned once for all of a run

For a scan passes over everything deleted up to the next key that is still there, and where a topic has nothing in a
range, that may be all that was purged before.
"""

import heapq
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import structlog

from miniqueue.broker.commit import Commit
from miniqueue.broker.journal import Journal
from miniqueue.broker.opening import PAGE_BYTES, PAGE_ITEMS
from miniqueue.broker.topic import Topic
from miniqueue.core.log_extent import bounds_of
from miniqueue.core.partition import Partition
from miniqueue.errors import MiniqueueError
from miniqueue.storage import keys

log = structlog.get_logger()

#: How much consumed data a topic may hold on disk: some while it is in use, less when it is empty, and hardly any
#: while a full disk keeps publishers waiting for space.
MAX_CONSUMED_BYTES = 64 << 20
MAX_CONSUMED_BYTES_WHEN_EMPTY = 4 << 20
MAX_CONSUMED_BYTES_WHEN_FULL = 1 << 20
#: That are looked at in one tick, for what was consumed: 1 ms.
TOPICS_IN_TICK = 1000
#: That are purged as one.
MAX_RUN_TOPICS = 1024
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
        self._is_reclaiming = self._is_purging = False
        self._deleted: list[tuple[int, int]] = []  # a heap: topic id, and what else the topic holds on disk
        self._said = ""
        self._unseen: list[Topic] = []  # those that have not had their turn to be looked at

    def purge(self, topic_id: int, consumed_bytes: int = 0) -> None:
        """Delete every key of a topic that is no longer registered, and give its disk space back.

        It can be broken off anywhere: the topic's purge entry goes last, and a restart begins again.

        Args:
          topic_id: of the topic.
          consumed_bytes: what else it still holds on disk, as far as that is known.
        """
        heapq.heappush(self._deleted, (topic_id, consumed_bytes))
        self._begin()

    def purge_after(self, commit: Commit, topic_id: int, consumed_bytes: int) -> None:
        """Purge a topic when `commit` is done that deletes it, whoever waits for that; not if it fails."""

        def committed() -> None:
            if commit.error is None:
                self.purge(topic_id, consumed_bytes)

        commit.add_listener(committed)

    def tick(self) -> None:
        """Purge what could not be purged before."""
        if self._deleted and self._journal.admission.may_change:
            self._begin()

    def _begin(self) -> None:
        if not self._is_purging:
            self._is_purging = True
            self._spawn(self._purge_all())

    def reclaim(self, topics: Collection[Topic], *, is_full: bool) -> None:
        """Give disk space back for a topic of which enough has been consumed, if there is one among the next few.

        Args:
          topics: that may have something to give.
          is_full: whether the disk is; then all are looked at.
        """
        if self._is_reclaiming:
            return
        if is_full or not self._unseen:
            self._unseen = list(topics)
        for _ in range(len(self._unseen) if is_full else min(TOPICS_IN_TICK, len(self._unseen))):
            topic = self._unseen.pop()
            if topic.id is not None and _is_worth_reclaiming(topic, is_full=is_full):
                self._is_reclaiming = True
                self._spawn(self._reclaim(topic.id, topic, list(topic.partitions.values())))
                return

    async def _purge_all(self) -> None:
        """Purge what was deleted, until nothing is left; what fails is tried again with the next tick."""
        failed: list[tuple[int, int]] = []
        try:
            while self._deleted:
                topic_ids, consumed_bytes = self._take_run()
                try:
                    await self._purge_run(topic_ids, consumed_bytes)
                except MiniqueueError as exc:
                    failed += [(topic_id, 0) for topic_id in topic_ids]
                    self._say(str(exc))
        finally:
            self._is_purging = False
            for one in failed:
                heapq.heappush(self._deleted, one)

    def _say(self, error: str) -> None:
        """Warn, once: the same goes on with every tick."""
        if error != self._said:
            log.warning("a purge of deleted topics was broken off; it is tried again", error=error)
        self._said = error

    async def _purge_run(self, topic_ids: list[int], consumed_bytes: int) -> None:
        """Purge topics whose ids follow each other."""
        firsts, lasts = keys.of_topic(topic_ids[0]), keys.of_topic(topic_ids[-1])
        ranges = [(first[0], last[1]) for first, last in zip(firsts, lasts, strict=True)]
        deletion = Deletion(self._journal)
        deleted_bytes = consumed_bytes + sum([await deletion.delete(*key_range) for key_range in ranges])
        deletion.batch |= {keys.purge(topic_id): None for topic_id in topic_ids}
        await deletion.commit()
        for key_range in ranges if deleted_bytes >= MIN_PURGED_BYTES else ():
            await self._journal.store.reclaim(*key_range)

    def _take_run(self) -> tuple[list[int], int]:
        """Take topics with ids that follow each other; return these, and what else the topics hold on disk."""
        topic_id, total_bytes = heapq.heappop(self._deleted)
        topic_ids = [topic_id]
        while self._deleted and self._deleted[0][0] <= topic_ids[-1] + 1 and len(topic_ids) < MAX_RUN_TOPICS:
            topic_id, consumed_bytes = heapq.heappop(self._deleted)
            total_bytes += consumed_bytes
            if topic_id > topic_ids[-1]:  # else it is there twice, after a fault
                topic_ids.append(topic_id)
        return topic_ids, total_bytes

    async def _reclaim(self, topic_id: int, topic: Topic, partitions: list[Partition]) -> None:
        """Compact what lies in front of the oldest message that is still needed, of each partition that was consumed.

        `topic` may be deleted meanwhile, even before this begins; compacting what it had does no harm.
        """
        try:
            for partition in partitions:
                if not partition.consumed_bytes:
                    continue
                partition.consumed_bytes = 0
                earliest_seq = bounds_of(partition).earliest_seq
                start, stop = (keys.chunk(topic_id, partition.number, seq) for seq in (0, earliest_seq))
                await self._journal.store.reclaim(start, stop)
        except MiniqueueError as exc:
            log.warning("disk space of consumed messages was not given back", topic=topic.name, error=str(exc))
        finally:
            self._is_reclaiming = False


def _is_worth_reclaiming(topic: Topic, *, is_full: bool) -> bool:
    consumed_bytes = topic.consumed_bytes
    if consumed_bytes <= MAX_CONSUMED_BYTES_WHEN_FULL:  # as a rule
        return False
    return consumed_bytes > _max_consumed_bytes(topic, is_full=is_full)


def _max_consumed_bytes(topic: Topic, *, is_full: bool) -> int:
    if is_full:
        return MAX_CONSUMED_BYTES_WHEN_FULL
    is_empty = not any(cursor.depth for cursor in topic.cursors)
    return MAX_CONSUMED_BYTES_WHEN_EMPTY if is_empty else MAX_CONSUMED_BYTES


class Deletion:
    """Deletes ranges of keys, a page at a time.

    Attributes:
      batch: what the next commit deletes.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.batch: dict[bytes, bytes | None] = {}

    async def delete(self, start: bytes, stop: bytes) -> int:
        """Delete a range, never scanning over what has just been deleted; return the bytes of the values."""
        deleted_bytes = 0
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            self.batch |= dict.fromkeys(key for key, _ in pairs)
            deleted_bytes += sum(len(value) for _, value in pairs)
            start = pairs[-1][0] + b"\x00"
            if len(self.batch) >= PAGE_ITEMS:
                await self.commit()
        return deleted_bytes

    async def commit(self) -> None:
        """Commit what was gathered."""
        batch, self.batch = self.batch, {}
        await self._journal.commit(batch)
