"""Gives back what topics need not keep any longer, in the background, a few chunks a commit.

    tick ─▶ for each topic that retains: is its first chunk over the limits? ─ no, as a rule ─▶ that was all
                └ yes ─▶ a page of chunks from the front, as far as all groups are done ─▶ one commit ─▶ the next page
                              └ and unread ones, if the topic says so: dropped and counted for each group, then the same

Where the log begins is in the store with what was deleted: a start reads no message for it.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from itertools import takewhile
from typing import Any

import structlog

from miniqueue.broker.clock import Clock
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.broker.turns import in_turns
from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holes import holes_of
from miniqueue.core.partition import Partition
from miniqueue.core.retention import Retained, RetentionLimit, floor_of, limit_of
from miniqueue.errors import MiniqueueError
from miniqueue.storage import keys, records, retention_keys, retention_records

log = structlog.get_logger()

#: So much of a log is looked at, and deleted at most, in one commit.
PAGE_CHUNKS = 256
PAGE_BYTES = 1 << 20
TOPICS_IN_TURN = 100

#: Drops what a group has not read up to a sequence number; returns how many messages that were.
DropUnread = Callable[[Topic, GroupCursor, int], Awaitable[int]]


class Retainer:
    """Keeps the logs of topics within what their settings say.

    Args:
      journal: has the store, and commits what was deleted.
      clock: tells how old messages are.
      spawn: runs something in the background.
      drop_unread: see `DropUnread`.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        drop_unread: DropUnread,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._spawn = spawn
        self._drop_unread = drop_unread
        self._retaining: dict[Topic, None] = {}
        self._is_trimming = False
        self._said = ""

    def see(self, topics: Iterable[Topic]) -> None:
        """Take over topics as they are in the store; one that was imported has settings and nothing else."""
        for topic in topics:
            if topic.settings.retains:
                self.apply_settings(topic)
            self._note(topic)

    def apply_settings(self, topic: Topic) -> None:
        """Keep what `topic` says from now on, or no more; what is finished already and deleted stays so."""
        for partition in topic.partitions.values():
            if topic.settings.retains:
                self._keep(topic, partition)
            elif partition.retained is not None:
                self._keep_no_more(topic, partition, partition.retained)
        self._note(topic)

    def tick(self) -> None:
        """Look for what is over the limits, unless somebody still does."""
        if self._retaining and not self._is_trimming:
            self._is_trimming = True
            self._spawn(self._trim_all())

    def _note(self, topic: Topic) -> None:
        if any(partition.retained is not None for partition in topic.partitions.values()):
            self._retaining[topic] = None

    # --- settings ---------------------------------------------------------------------------------------------

    def _keep(self, topic: Topic, partition: Partition) -> None:
        """Keep what is finished from now on; where something is being given back, as a rule when that is done."""
        retained, hole_stops = partition.retained, [stop for _, stop in holes_of(partition.cursors.values())]
        if retained is None:
            partition.retained = Retained(max(hole_stops, default=0))
        elif retained.stop_seq is None or max(hole_stops, default=0) > retained.stop_seq:
            return
        else:
            retained.stop_seq = None
        self._note_start(topic, partition, partition.retained)

    def _keep_no_more(self, topic: Topic, partition: Partition, retained: Retained) -> None:
        if retained.stop_seq is None:
            retained.stop_seq = partition.next_seq
            self._note_start(topic, partition, retained)

    def _note_start(self, topic: Topic, partition: Partition, retained: Retained | None) -> None:
        assert topic.id is not None  # it has settings
        value = None if retained is None else retention_records.encode_start(retained.start_seq, retained.stop_seq)
        self._journal.change({retention_keys.start(topic.id, partition.number): value})

    # --- trimming ---------------------------------------------------------------------------------------------

    async def _trim_all(self) -> None:
        try:
            async with aclosing(in_turns(list(self._retaining), TOPICS_IN_TURN)) as topics:
                async for topic in topics:
                    await self._trim(topic)
        except MiniqueueError as exc:
            self._say(str(exc))
        finally:
            self._is_trimming = False

    def _say(self, error: str) -> None:
        """Warn, once: the same goes on with every tick."""
        if error != self._said:
            log.warning("old messages were not given back; it is tried again", error=error)
        self._said = error

    async def _trim(self, topic: Topic) -> None:
        kept = [partition for partition in topic.partitions.values() if partition.retained is not None]
        if topic.id is None or not kept:
            del self._retaining[topic]
            return
        for partition in kept:
            while await self._trim_page(topic, partition) or await self._drop_page(topic, partition):
                pass
            self._finish(topic, partition)

    def _finish(self, topic: Topic, partition: Partition) -> None:
        if partition.retained is not None and partition.retained.is_over and _has(topic, partition):
            partition.retained = None
            self._note_start(topic, partition, None)
            if topic.settings.retains:
                self._keep(topic, partition)
            self._journal.committer.request_soon()

    def _limit(self, topic: Topic, partition: Partition) -> RetentionLimit:
        log_bytes = max(cursor.tail_bytes for cursor in partition.cursors.values())
        if partition.retained is not None and partition.retained.stop_seq is not None:
            return RetentionLimit(None, log_bytes)
        return limit_of(topic.settings, log_bytes, self._clock.now_ms())

    async def _trim_page(self, topic: Topic, partition: Partition) -> bool:
        """Delete chunks from the front that are over the limits; return whether there may be more."""
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
            return False  # somebody looks where a group is to begin
        stop_seq = min(stop_seq, _stop_of(partition, retained))  # a group may have gone back
        over = list(takewhile(lambda chunk: chunk.first_seq < stop_seq and limit.is_over(chunk), extents))
        rest = extents[len(over) :]
        behind_seq = over[-1].end_seq if over and is_cut else stop_seq
        retained.cut(rest[0].first_seq if rest else behind_seq, rest[0] if rest else None)
        if over:
            await self._delete(topic, partition, retained, over)
        return bool(over)

    async def _extents(
        self, topic: Topic, partition: Partition, start_seq: int, stop_seq: int
    ) -> tuple[list[ChunkExtent], bool]:
        """Return the next chunks, and whether there may be more of them."""
        assert topic.id is not None
        start, stop = (keys.chunk(topic.id, partition.number, seq) for seq in (start_seq, stop_seq))
        pairs = await self._journal.store.scan(start, stop, max_items=PAGE_CHUNKS, max_bytes=PAGE_BYTES)
        is_cut = len(pairs) >= PAGE_CHUNKS or sum(len(value) for _, value in pairs) >= PAGE_BYTES
        return [records.decode_extent(keys.chunk_first_seq(key), value) for key, value in pairs], is_cut

    async def _delete(
        self, topic: Topic, partition: Partition, retained: Retained, chunks: Iterable[ChunkExtent]
    ) -> None:
        assert topic.id is not None
        for chunk in chunks:
            self._journal.change({keys.chunk(topic.id, partition.number, chunk.first_seq): None})
            partition.consumed_bytes += chunk.content_bytes
        self._note_start(topic, partition, retained)
        self._journal.admission.check_change()
        await self._journal.committer.flush()

    # --- what was not read ------------------------------------------------------------------------------------

    async def _drop_page(self, topic: Topic, partition: Partition) -> bool:
        """Drop unread messages at the floor that are over the limits; return whether there were some."""
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
        return any([await self._drop_unread(topic, cursor, over[-1].end_seq) for cursor in cursors])


def _has(topic: Topic, partition: Partition) -> bool:
    """Whether the topic has it still: it may have been deleted meanwhile, made again, or read anew."""
    return topic.partitions.get(partition.number) is partition


def _stop_of(partition: Partition, retained: Retained) -> int:
    """Return up to where chunks may be deleted, if they are over the limits."""
    floor_seq = floor_of(partition.cursors.values())
    return floor_seq if retained.stop_seq is None else min(floor_seq, retained.stop_seq)
