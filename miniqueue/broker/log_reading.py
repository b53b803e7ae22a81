"""Reads the log of a partition from any place on, without a group: nothing is leased, settled or remembered.

    offset ─▶ the chunk that holds it: the last key that is not behind it ─▶ the chunks that follow, by pages
    time   ─▶ the first chunk of that time: halving the numbers, one seek for each half ─▶ its first message

What can be read is what lies in chunks that are in the store: all that some group has not settled, what retention
keeps, and settled messages beside others of their chunk that are not. What came back and waits elsewhere has left the
log unless its chunk is still there. Where something is missing in front of what was found, its number is told.

Nothing here goes through what is in memory for consumers. Only the chunks in which pages have ended are kept, a few of
them, since whoever reads on begins there.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NamedTuple

from miniqueue.broker.journal import Journal
from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.topic import Topic
from miniqueue.core.log_extent import LogBounds, bounds_of
from miniqueue.core.look_errors import InvalidOptionError, UnknownPartitionError
from miniqueue.core.message import Chunk
from miniqueue.core.names import check_topic
from miniqueue.core.partition import Partition
from miniqueue.core.read_options import ReadOptions
from miniqueue.core.topic_errors import UnknownTopicError
from miniqueue.storage import keys, records

#: A page of the store: so much is decoded in one turn of the loop.
PAGE_CHUNKS = 256
PAGE_BYTES = 1 << 20
#: Chunks in which pages have ended, of 1 MiB each at most: one that is larger has a single message, and is never cut.
MAX_KEPT = 8


class LogPage(NamedTuple):
    """Messages of a log that follow each other.

    Attributes:
      bounds: of the partition, as the page was read.
      missed_count: messages from where the page was to begin that are no longer there.
      next_seq: where the next page begins.
      runs: the messages, as chunks or parts of them.
    """

    bounds: LogBounds
    missed_count: int
    next_seq: int
    runs: list[Chunk]


class LogReader:
    """Reads logs.

    Args:
      topics: by name.
      journal: has the store.
    """

    def __init__(self, topics: Mapping[bytes, Topic], journal: Journal) -> None:
        self._topics = topics
        self._journal = journal
        self._kept: OrderedDict[tuple[int, int, int], Chunk] = OrderedDict()

    def bounds(self, name: bytes) -> list[LogBounds]:
        """Return what can be read of each partition of a topic, by their numbers.

        Raises InvalidTopicError, UnknownTopicError or UnavailableError.
        """
        partitions = self._topic(name).partitions
        return [bounds_of(partitions[number]) for number in sorted(partitions)]

    async def partitions(self, name: bytes) -> list[tuple[LogBounds, int | None]]:
        """Return the same, each with when the earliest message was committed; None where there is none.

        Raises as `bounds`, or StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._partitions, name))

    async def _partitions(self, name: bytes) -> list[tuple[LogBounds, int | None]]:
        logs = [self._log(name, bounds.partition) for bounds in self.bounds(name)]
        extents = [(bounds_of(log.partition), await log.first()) for log in logs]
        return [(bounds, None if first is None else first.committed_at_ms) for bounds, first in extents]

    async def read(self, name: bytes, number: int, options: ReadOptions) -> LogPage:
        """Return a page of messages of one partition, by number.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownPartitionError.
          InvalidOptionError: the offset is behind the end.
          UnavailableError: the store is being reopened, and nobody knows what it holds.
          StorageError: the messages cannot be read.
        """
        return await self._journal.epoch.repeat(partial(self._read, name, number, options))

    async def _read(self, name: bytes, number: int, options: ReadOptions) -> LogPage:
        log = self._log(name, number)
        start_seq = bounds_of(log.partition).earliest_seq if options.offset is None else options.offset
        if options.time_ms is not None:
            start_seq = await self._seq_at(log, options.time_ms)
        bounds = bounds_of(log.partition)
        if start_seq > bounds.end_seq:
            raise InvalidOptionError(f"offset {start_seq} is behind the end of the partition, {bounds.end_seq}")
        page = await self._page(log, bounds, start_seq, options)
        if self._topics.get(name) is not log.topic or log.topic.id != log.topic_id:
            raise UnknownTopicError  # it was deleted meanwhile
        return page

    async def seq_at(self, name: bytes, number: int, time_ms: int) -> int:
        """Return the number of the first message that was committed at `time_ms` or later; the end if none was.

        Commit times are taken to go up only: where the clock was set back, it may be another one of about that time.
        It is for acts that run within an epoch. Raises as `read`.
        """
        return await self._seq_at(self._log(name, number), time_ms)

    # --- finding ----------------------------------------------------------------------------------------------

    def _topic(self, name: bytes) -> Topic:
        self._journal.admission.check_change()
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            raise UnknownTopicError
        return topic

    def _log(self, name: bytes, number: int) -> PartitionLog:
        topic = self._topic(name)
        partition = topic.partitions.get(number)
        if partition is None:
            raise UnknownPartitionError
        assert topic.id is not None
        return PartitionLog(self._journal.store, topic, topic.id, partition)

    async def _seq_at(self, log: PartitionLog, time_ms: int) -> int:
        _, low, high = bounds_of(log.partition)
        while low < high:
            middle = (low + high) // 2
            found = await log.before(middle)
            extent = None if found is None else records.decode_extent(*found)
            if extent is not None and extent.end_seq > low and extent.committed_at_ms >= time_ms:
                high = max(low, extent.first_seq)
            else:
                low = max(middle + 1, 0 if extent is None else extent.end_seq)
        return high

    # --- reading ----------------------------------------------------------------------------------------------

    async def _page(self, log: PartitionLog, bounds: LogBounds, start_seq: int, options: ReadOptions) -> LogPage:
        if not options.max_count:
            missed_count = max(0, bounds.earliest_seq - start_seq)
            return LogPage(bounds, missed_count, start_seq + missed_count, [])
        runs: list[Chunk] = []
        next_seq, left_count, left_bytes = start_seq, options.max_count, options.max_bytes
        async with aclosing(self._chunks(log, bounds, start_seq, options.max_count)) as chunks:
            async for chunk in chunks:
                if runs and chunk.first_seq != next_seq:
                    break  # what is missing there is told where the next page begins
                run = _part(chunk, max(start_seq, chunk.first_seq), left_count, left_bytes)
                runs.append(run)
                next_seq, left_count = run.end_seq, left_count - len(run.payloads)
                left_bytes -= run.content_bytes
                if next_seq < chunk.end_seq:
                    self._keep(log, chunk)
                if left_count <= 0 or left_bytes <= 0:
                    break
        first_seq = runs[0].first_seq if runs else bounds.end_seq
        return LogPage(bounds, first_seq - start_seq, max(next_seq, first_seq), runs)

    async def _chunks(
        self, log: PartitionLog, bounds: LogBounds, start_seq: int, max_count: int
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks with messages from `start_seq` on that were committed when this began."""
        start_seq = max(start_seq, bounds.earliest_seq)
        if start_seq >= bounds.end_seq:
            return
        first = await self._chunk_with(log, start_seq)
        if first is not None:
            yield first
        next_seq = start_seq if first is None else first.end_seq
        key, stop, store = log.key(next_seq), log.key(bounds.end_seq), log.store
        max_items = min(PAGE_CHUNKS, max_count)
        while key < stop and (pairs := await store.scan(key, stop, max_items=max_items, max_bytes=PAGE_BYTES)):
            for key, value in pairs:
                yield records.decode_chunk(keys.chunk_first_seq(key), value)
            key += b"\x00"

    async def _chunk_with(self, log: PartitionLog, seq: int) -> Chunk | None:
        """Return the chunk that holds a message."""
        for place, chunk in self._kept.items():
            if place[:2] == log.place and chunk.first_seq <= seq < chunk.end_seq:
                if not _is_needed(log.partition, chunk.first_seq):
                    break  # the store knows whether it is there still
                self._kept.move_to_end(place)
                return chunk
        found = await log.before(seq)
        chunk_before = None if found is None else records.decode_chunk(*found)
        return None if chunk_before is None or chunk_before.end_seq <= seq else chunk_before

    def _keep(self, log: PartitionLog, chunk: Chunk) -> None:
        place = (*log.place, chunk.first_seq)
        self._kept[place] = chunk
        self._kept.move_to_end(place)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def _is_needed(partition: Partition, first_seq: int) -> bool:
    """Whether some group is not done with the chunk that begins there, or it is retained."""
    if partition.retained is not None and partition.retained.keeps(first_seq):
        return True
    return not all(cursor.has_finished(first_seq) for cursor in partition.cursors.values())


def _part(chunk: Chunk, start_seq: int, max_count: int, max_bytes: int) -> Chunk:
    """Return the messages of a chunk from `start_seq` on, as many as are wanted, at least one."""
    start = start_seq - chunk.first_seq
    stop = min(len(chunk.payloads), start + max_count)
    if chunk.content_bytes > max_bytes:
        stop = _stop_within(chunk, start, stop, max_bytes)
    if start == 0 and stop == len(chunk.payloads):
        return chunk
    attributes = None if chunk.attributes is None else chunk.attributes[start:stop]
    return Chunk(start_seq, chunk.committed_at_ms, chunk.payloads[start:stop], 0, attributes)


def _stop_within(chunk: Chunk, start: int, stop: int, max_bytes: int) -> int:
    """Return behind which message there are `max_bytes` or more from `start` on, `stop` at most."""
    size_bytes = 0
    for index, size in enumerate(islice(chunk.sizes(), start, stop), start + 1):
        size_bytes += size
        if size_bytes >= max_bytes:
            return index
    return stop
