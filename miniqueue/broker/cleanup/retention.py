"""Trims the logs of topics that retain messages: deletes chunks over the limits, a few per commit, in the background.

    tick ─▶ for each topic that retains: is its first chunk over the limits? ─ no (usually) ─▶ done
                └ yes ─▶ a page of chunks from the start that all groups have finished ─▶ one commit ─▶ the next page
                              └ if the settings drop unread messages: dropped and counted per group, then deleted too

The commit that deletes chunks also stores the new start of the log, so a startup reads no message to find it.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from itertools import takewhile
from operator import attrgetter

import structlog

from miniqueue.broker.cleanup.purge import drop_unread
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.core.log.partition import Partition
from miniqueue.core.log.retention import Retained, RetentionLimit, end_of_holes, floor_of, limit_of
from miniqueue.core.message.message import ChunkExtent
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import keys, log_ends, values

log = structlog.get_logger()

#: Maximum number of chunks, and of bytes, that one page reads; one commit deletes at most one page.
PAGE_CHUNKS = 256
PAGE_BYTES = 1 << 20
#: Topics that one event-loop iteration checks, so that it stays short.
TOPICS_IN_TURN = 100

_retained, _stop_seq = attrgetter("retained"), attrgetter("stop_seq")


class RetentionKeeper:
    """Keeps the logs of topics within the limits of their settings."""

    def __init__(self, engine: Engine, put_to_rest: Callable[[Topic], Awaitable[None]]) -> None:
        """Create the keeper; `put_to_rest` puts a topic to rest if nothing is in it but what it retains."""
        self._engine = engine
        self._put_to_rest = put_to_rest
        self._journal = engine.journal
        self._clock = engine.clock
        self._retaining: dict[Topic, None] = {}
        self._trimming = SingleTask(engine.spawn)
        self._last_warning = ""

    def changed(self, topic: Topic) -> None:
        """Start or stop retaining messages, as the settings of `topic` say; deleted messages stay deleted.

        An imported topic has settings and nothing else at this time.
        """
        retains = topic.settings.retains
        if not retains and not _retaining(topic):  # the usual case: there may be thousands of partitions
            return
        partitions = () if retains and _retains_all(topic) else topic.partitions.values()
        changed = [partition for partition in partitions if (_keep if retains else _keep_no_more)(partition)]
        self._note_starts(topic, changed)
        self._note(topic)

    def restored(self, topic: Topic) -> None:
        """Keep the log of a topic that is at rest after a startup within its limits."""
        if topic.settings.retains:
            self._retaining[topic] = None

    def tick(self) -> None:
        """Start to trim the logs that are over their limits, unless the last trim is still in progress."""
        if self._retaining and not self._trimming.is_running:
            self._trimming.start(self._trim_all())

    def _note(self, topic: Topic) -> None:
        if _retaining(topic):
            self._retaining[topic] = None

    def _note_starts(self, topic: Topic, partitions: Iterable[Partition]) -> None:
        """Store what partitions retain, with the next commit."""
        topic_id = topic.id
        assert topic_id is not None  # a topic with settings exists
        self._journal.change(
            {
                log_ends.start(topic_id, partition.number): None
                if (retained := partition.retained) is None
                else log_ends.encode_start(retained.start_seq, retained.stop_seq)
                for partition in partitions
            }
        )

    # --- trimming ---------------------------------------------------------------------------------------------

    async def _trim_all(self) -> None:
        try:
            async with aclosing(self._engine.share.in_turns(list(self._retaining), TOPICS_IN_TURN)) as topics:
                async for topic in topics:
                    await self._trim(topic)
        except MiniqueueError as exc:
            self._warn(str(exc))

    def _warn(self, error: str) -> None:
        """Warn about an error once: every tick retries, and fails with the same error."""
        if error != self._last_warning:
            log.warning("old messages were not given back; it is tried again", error=error)
        self._last_warning = error

    async def _trim(self, topic: Topic) -> None:
        was_at_rest = topic.at_rest is not None
        if topic.at_rest is not None and self._clock.now_ms() < topic.at_rest.trim_at_ms:
            return
        await self._engine.waking.wake_named([topic.name])
        kept = [number for number, partition in topic.partitions.items() if partition.retained is not None]
        if topic.id is None or not kept:
            del self._retaining[topic]
            return
        for number in kept:
            while await self._has_more(topic, number):
                pass
        if was_at_rest and topic.at_rest is None:
            await self._put_to_rest(topic)

    async def _has_more(self, topic: Topic, number: int) -> bool:
        """Trim a partition by one page; return whether there may be more. The topic can rest between two pages."""
        partition = topic.partitions.get(number)
        if partition is None:
            return False
        if await self._trim_page(topic, partition) or await self._drop_page(topic, partition):
            return True
        self._finish(topic, partition)
        return False

    def _finish(self, topic: Topic, partition: Partition) -> None:
        if partition.retained is not None and partition.retained.is_over and _has(topic, partition):
            partition.retained = None
            if topic.settings.retains:
                _keep(partition)
            self._note_starts(topic, [partition])
            self._journal.committer.request_soon()

    def _limit(self, topic: Topic, partition: Partition) -> RetentionLimit:
        log_bytes = max(cursor.tail_bytes for cursor in partition.cursors.values())
        if partition.retained is not None and partition.retained.stop_seq is not None:
            return RetentionLimit(None, log_bytes, None)
        end_seq = max(cursor.tail_seq for cursor in partition.cursors.values())
        return limit_of(topic.settings, log_bytes, end_seq, self._clock.now_ms())

    async def _trim_page(self, topic: Topic, partition: Partition) -> bool:
        """Delete chunks over the limits from the start of the log; return whether there may be more."""
        retained, limit = partition.retained, self._limit(topic, partition)
        if retained is None or (retained.first is not None and not limit.is_over(retained.first)):
            return False
        if not _has(topic, partition):
            return False
        stop_seq = _stop_of(partition, retained)
        if retained.start_seq >= stop_seq:
            return False
        extents, is_cut = await self._extents(topic, partition, retained.start_seq, stop_seq)
        if not _has(topic, partition) or partition.retained is not retained:
            return False
        if partition.pins:
            return False  # the start position of a group is being determined
        stop_seq = min(stop_seq, _stop_of(partition, retained))  # a seek may have moved a group back
        over = list(takewhile(lambda chunk: chunk.first_seq < stop_seq and limit.is_over(chunk), extents))
        rest = extents[len(over) :]
        next_seq = over[-1].end_seq if over and is_cut else stop_seq
        retained.cut(rest[0].first_seq if rest else next_seq, rest[0] if rest else None)
        if over:
            await self._delete(topic, partition, retained, over)
        return bool(over)

    async def _extents(
        self, topic: Topic, partition: Partition, start_seq: int, stop_seq: int
    ) -> tuple[list[ChunkExtent], bool]:
        """Return the extents of the next chunks, and whether the page was cut off, so that there may be more."""
        assert topic.id is not None
        start, stop = (keys.chunk(topic.id, partition.number, seq) for seq in (start_seq, stop_seq))
        pairs = await self._journal.store.scan(start, stop, max_items=PAGE_CHUNKS, max_bytes=PAGE_BYTES)
        is_cut = len(pairs) >= PAGE_CHUNKS or sum(len(value) for _, value in pairs) >= PAGE_BYTES
        return [values.decode_extent(keys.chunk_first_seq(key), value) for key, value in pairs], is_cut

    async def _delete(
        self, topic: Topic, partition: Partition, retained: Retained, chunks: Iterable[ChunkExtent]
    ) -> None:
        assert topic.id is not None
        for chunk in chunks:
            self._journal.change({keys.chunk(topic.id, partition.number, chunk.first_seq): None})
            partition.consumed_bytes += chunk.content_bytes
        self._note_starts(topic, [partition])
        self._journal.admission.check_change()
        await self._journal.committer.flush()

    # --- unread messages --------------------------------------------------------------------------------------

    async def _drop_page(self, topic: Topic, partition: Partition) -> bool:
        """Drop unread messages over the limits at the floor, the first that a group needs; return whether any were."""
        if not topic.settings.retention_drops_unread or partition.retained is None or not _has(topic, partition):
            return False
        limit, floor_seq = self._limit(topic, partition), floor_of(partition.cursors.values())
        tail_seq = max(cursor.tail_seq for cursor in partition.cursors.values())
        if partition.retained.start_seq < floor_seq or floor_seq >= tail_seq:
            return False
        first = partition.retained.first
        if first is not None and first.first_seq == floor_seq and not limit.is_over(first):
            return False
        extents, _ = await self._extents(topic, partition, floor_seq, tail_seq)
        over = list(takewhile(limit.is_over, extents))
        if not over:
            if extents and partition.retained is not None:
                partition.retained.first = extents[0] if extents[0].first_seq == partition.retained.start_seq else None
            return False
        cursors = list(partition.cursors.values())
        return any([await drop_unread(self._engine, topic, cursor, over[-1].end_seq) for cursor in cursors])


def _keep(partition: Partition) -> bool:
    """Retain the messages that groups finish from now on; return whether that changes what is stored.

    If older messages are still being deleted after retention ended, this usually begins when that is done.
    """
    retained = partition.retained
    if retained is None:
        partition.retained = Retained(end_of_holes([*partition.cursors.values()]))
        return True
    if retained.stop_seq is None or end_of_holes([*partition.cursors.values()]) > retained.stop_seq:
        return False
    retained.stop_seq = None
    return True


def _keep_no_more(partition: Partition) -> bool:
    """End the retention of the messages that groups finish from now on; return as `_keep` does."""
    retained = partition.retained
    if retained is None or retained.stop_seq is not None:
        return False
    retained.stop_seq = partition.next_seq
    return True


def _retaining(topic: Topic) -> bool:
    """Whether a partition of the topic retains messages, or has not deleted yet what it did retain."""
    return any(map(_retained, topic.partitions.values()))


def _retains_all(topic: Topic) -> bool:
    """Whether each partition of the topic retains messages, without an end."""
    retained = list(map(_retained, topic.partitions.values()))
    return all(retained) and set(map(_stop_seq, retained)) == {None}


def _has(topic: Topic, partition: Partition) -> bool:
    """Whether a topic still has this partition: it may have been deleted, created again, or reloaded meanwhile."""
    return topic.partitions.get(partition.number) is partition


def _stop_of(partition: Partition, retained: Retained) -> int:
    """Return the sequence number before which chunks over the limits may be deleted."""
    floor_seq = floor_of(partition.cursors.values())
    return floor_seq if retained.stop_seq is None else min(floor_seq, retained.stop_seq)
