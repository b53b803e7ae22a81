"""Reclaims disk space: the space of deleted topics, and of messages that have been consumed.

LevelDB keeps deleted data until it happens to compact the tables that contain it. After a large backlog has been
consumed, that may never happen. So the reclaimer compacts the range before the oldest message that is still needed:
once a second for one of the topics, and, while a topic's messages are loaded from the store, as soon as it is worth it.
The tables that a consumer has read stay mapped, and so in RAM, until then.

Deleted topics are purged one after another, the lowest id first. Topics with consecutive ids are purged as one run:

    deleted: 4 7 8 9 12    ─▶    4    7─9    12        each range of keys is scanned once for all topics of a run

The runs exist because a scan passes over all deleted keys before the next existing key. If a topic has no key in a
range, the scan may pass over everything that was purged before.
"""

import heapq
from collections.abc import Collection

import structlog

from miniqueue.broker.commit.journal import Commit, Journal
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.broker.stored.opening import PAGE_BYTES, PAGE_ITEMS, StoreContent
from miniqueue.core.log.partition import Partition, bounds_of
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import keys

log = structlog.get_logger()

#: Maximum size of the consumed data that a topic keeps on disk: the most while the topic is in use, less when it is
#: empty, and the least while the disk is full and publishers wait for space.
MAX_CONSUMED_BYTES = 64 << 20
MAX_CONSUMED_BYTES_WHEN_EMPTY = 4 << 20
MAX_CONSUMED_BYTES_WHEN_FULL = 1 << 20
#: Maximum number of topics that one tick inspects for consumed data; this takes about 1 ms.
TOPICS_IN_TICK = 1000
#: Maximum number of deleted topics that are purged as one run.
MAX_RUN_TOPICS = 1024
#: Minimum size of a purged run whose space is reclaimed immediately. Compacting takes about 50 ms, so clients that
#: constantly create and delete small topics would always be ahead of it. LevelDB compacts smaller runs in time.
MIN_PURGED_BYTES = 1 << 20


class DiskReclaimer:
    """Purges deleted topics and compacts consumed data, in background tasks."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._reclaiming, self._purging = SingleTask(engine.spawn), SingleTask(engine.spawn)
        self._deleted: list[tuple[int, int]] = []  # a heap of topic ids, with the topics' consumed bytes
        self._last_warning = ""
        self._unseen: list[Topic] = []  # topics that this round has not inspected yet

    def restored(self, content: StoreContent) -> None:
        """Continue to purge the deleted topics that still have keys in the store, at startup and after a fault."""
        for topic_id in content.unpurged_topic_ids:
            self.purge(topic_id)

    def purge(self, topic_id: int, consumed_bytes: int = 0) -> None:
        """Delete every key of a topic that is no longer registered, and reclaim its disk space.

        A purge can be interrupted at any point: the topic's purge entry is deleted last, and a restart repeats it.

        Args:
          topic_id: the id of the topic.
          consumed_bytes: the size of its consumed data that is still on disk, as far as it is known.
        """
        heapq.heappush(self._deleted, (topic_id, consumed_bytes))
        self._begin()

    def purge_after(self, commit: Commit, topic_id: int, consumed_bytes: int) -> None:
        """Purge a topic after `commit`, which deletes it; if the commit fails, do nothing.

        The purge does not depend on a caller that waits for the commit.
        """

        def committed() -> None:
            if commit.error is None:
                self.purge(topic_id, consumed_bytes)

        commit.add_listener(committed)

    def tick(self) -> None:
        """Retry the purges that failed."""
        if self._deleted and self._journal.admission.may_change:
            self._begin()

    def _begin(self) -> None:
        if not self._purging.is_running:
            self._purging.start(self._purge_all())

    def reclaim(self, topics: Collection[Topic], *, is_full: bool) -> None:
        """Reclaim the disk space of one topic, if one of the next few topics has enough consumed data.

        Args:
          topics: the topics that may have consumed data.
          is_full: whether the disk is full; if so, all topics are inspected.
        """
        if self._reclaiming.is_running:
            return
        if is_full or not self._unseen:
            self._unseen = list(topics)
        for _ in range(len(self._unseen) if is_full else min(TOPICS_IN_TICK, len(self._unseen))):
            topic = self._unseen.pop()
            if topic.id is not None and _is_worth_reclaiming(topic, is_full=is_full):
                self._begin_reclaiming(topic)
                return

    def loaded(self, topic: Topic) -> None:
        """Reclaim the disk space of a topic that is being read, if it has enough consumed data."""
        if not self._reclaiming.is_running and _is_worth_reclaiming(topic, is_full=False):
            self._begin_reclaiming(topic)

    def _begin_reclaiming(self, topic: Topic) -> None:
        if topic.id is not None:
            self._reclaiming.start(self._reclaim(topic.id, topic, list(topic.partitions.values())))

    async def _purge_all(self) -> None:
        """Purge deleted topics until none is left; the next tick retries those that fail."""
        failed: list[tuple[int, int]] = []
        try:
            while self._deleted:
                topic_ids, consumed_bytes = self._take_run()
                try:
                    await self._purge_run(topic_ids, consumed_bytes)
                except MiniqueueError as exc:
                    failed += [(topic_id, 0) for topic_id in topic_ids]
                    self._warn(str(exc))
        finally:
            for deleted_topic in failed:
                heapq.heappush(self._deleted, deleted_topic)

    def _warn(self, error: str) -> None:
        """Warn about an error once: every tick retries, and fails with the same error."""
        if error != self._last_warning:
            log.warning("a purge of deleted topics was broken off; it is tried again", error=error)
        self._last_warning = error

    async def _purge_run(self, topic_ids: list[int], consumed_bytes: int) -> None:
        """Purge topics that have consecutive ids."""
        firsts, lasts = keys.of_topic(topic_ids[0]), keys.of_topic(topic_ids[-1])
        ranges = [(first[0], last[1]) for first, last in zip(firsts, lasts, strict=True)]
        deletion = RangeDeletion(self._journal)
        deleted_bytes = consumed_bytes + sum([await deletion.delete(*key_range) for key_range in ranges])
        deletion.batch |= {keys.purge(topic_id): None for topic_id in topic_ids}
        await deletion.commit()
        for key_range in ranges if deleted_bytes >= MIN_PURGED_BYTES else ():
            await self._journal.store.reclaim(*key_range)

    def _take_run(self) -> tuple[list[int], int]:
        """Take deleted topics that have consecutive ids; return the ids and the size of the topics' consumed data."""
        topic_id, total_bytes = heapq.heappop(self._deleted)
        topic_ids = [topic_id]
        while self._deleted and self._deleted[0][0] <= topic_ids[-1] + 1 and len(topic_ids) < MAX_RUN_TOPICS:
            topic_id, consumed_bytes = heapq.heappop(self._deleted)
            total_bytes += consumed_bytes
            if topic_id > topic_ids[-1]:  # after a fault, the heap may contain a topic twice
                topic_ids.append(topic_id)
        return topic_ids, total_bytes

    async def _reclaim(self, topic_id: int, topic: Topic, partitions: list[Partition]) -> None:
        """Compact the range before the oldest message that is still needed, in each partition with consumed data.

        `topic` may be deleted meanwhile, even before this begins; compacting the range of its keys is harmless.
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


def _is_worth_reclaiming(topic: Topic, *, is_full: bool) -> bool:
    consumed_bytes = topic.consumed_bytes
    if consumed_bytes <= MAX_CONSUMED_BYTES_WHEN_FULL:  # the usual case, decided without counting messages
        return False
    return consumed_bytes > _max_consumed_bytes(topic, is_full=is_full)


def _max_consumed_bytes(topic: Topic, *, is_full: bool) -> int:
    if is_full:
        return MAX_CONSUMED_BYTES_WHEN_FULL
    is_empty = topic.at_rest is not None or not any(cursor.depth for cursor in topic.cursors)
    return MAX_CONSUMED_BYTES_WHEN_EMPTY if is_empty else MAX_CONSUMED_BYTES


class RangeDeletion:
    """Deletes ranges of keys, one page at a time.

    Attributes:
      batch: the keys that the next commit deletes, each with the value None.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.batch: dict[bytes, bytes | None] = {}

    async def delete(self, start: bytes, stop: bytes) -> int:
        """Delete a range of keys; return the total size of the values.

        Each scan begins after the last key of the page before, so it does not pass over keys just deleted.
        """
        deleted_bytes = 0
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            self.batch |= dict.fromkeys(key for key, _ in pairs)
            deleted_bytes += sum(len(value) for _, value in pairs)
            start = pairs[-1][0] + b"\x00"
            if len(self.batch) >= PAGE_ITEMS:
                await self.commit()
        return deleted_bytes

    async def commit(self) -> None:
        """Commit the deletions that `batch` contains, and empty it."""
        batch, self.batch = self.batch, {}
        await self._journal.commit(batch)
