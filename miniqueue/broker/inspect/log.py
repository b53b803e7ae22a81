"""Reads the log of a partition from any offset, without a group: nothing is leased, settled, or remembered.

    offset ─▶ its chunk: the last key that is not after the offset ─▶ the chunks that follow, page by page
    time   ─▶ the first chunk of that time: a binary search, one seek per step ─▶ its first message

Messages can be read if their chunk is in the store: messages that some group has not settled, messages that retention
keeps, and settled messages that share a chunk with others. Returned messages have left the log, unless their chunk is
still there. If messages are missing before the first message of a page, the page contains their number.

Reading uses no messages that are in memory for consumers. Only a few chunks in which pages have ended are cached,
because a client that reads on begins there.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NamedTuple

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.stored.log_index import PartitionLog
from miniqueue.core.log.partition import LogBounds, Partition, bounds_of
from miniqueue.core.message.message import Chunk
from miniqueue.core.options.read import ReadOptions
from miniqueue.errors.requests import InvalidOptionError, UnknownPartitionError, UnknownTopicError
from miniqueue.storage.format import keys, values

#: Maximum size of a page of the store, which is decoded in one iteration of the event loop.
PAGE_CHUNKS = 256
PAGE_BYTES = 1 << 20
#: Number of chunks that are read of a page in one iteration of the event loop.
CHUNKS_IN_TURN = 100
#: Number of partitions that are inspected in one iteration of the event loop.
PARTITIONS_IN_TURN = 20
#: Maximum number of cached chunks, which are those in which pages have ended. Each has at most 1 MiB: a larger chunk
#: has a single message, so no page ends within it.
MAX_KEPT = 8


class LogPage(NamedTuple):
    """Consecutive messages of a log.

    Attributes:
      bounds: the bounds of the partition when the page was read.
      missed_count: number of messages from the requested start on that are no longer there.
      next_seq: sequence number at which the next page begins.
      runs: the messages, as chunks or parts of them.
    """

    bounds: LogBounds
    missed_count: int
    next_seq: int
    runs: list[Chunk]

    @property
    def content_bytes(self) -> int:
        """The size of the payloads and attributes."""
        return sum([run.content_bytes for run in self.runs])


class LogReader:
    """Reads the logs of partitions; caches a few chunks in which pages have ended."""

    def __init__(self, engine: Engine) -> None:
        self._topics = engine.topics.by_name
        self._journal = engine.journal
        self._memory = engine.memory
        self._share = engine.share
        self._kept: OrderedDict[tuple[int, int, int], Chunk] = OrderedDict()

    def bounds(self, name: bytes) -> list[LogBounds]:
        """Return the bounds of the readable log of each partition of a topic, in the order of their numbers.

        Raises InvalidTopicError, UnknownTopicError, or UnavailableError.
        """
        partitions = self._journal.existing_topic(name).partitions
        return [bounds_of(partitions[number]) for number in sorted(partitions)]

    async def partitions(self, name: bytes) -> list[tuple[LogBounds, int | None]]:
        """Return the bounds of each partition, and when its earliest message was committed; None if it has no message.

        Those of many partitions are inspected in turns, each as it is then.

        Raises as `bounds`, or StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._partitions, name))

    async def _partitions(self, name: bytes) -> list[tuple[LogBounds, int | None]]:
        topic, store = self._journal.existing_topic(name), self._journal.store
        assert topic.id is not None
        logs = [PartitionLog(store, topic, topic.id, partition) for _, partition in sorted(topic.partitions.items())]
        async with aclosing(self._share.in_turns(logs, PARTITIONS_IN_TURN)) as each:
            extents = [(bounds_of(log.partition), await log.first()) async for log in each]
        self._check_unchanged(name, logs[0])
        return [(bounds, None if first is None else first.committed_at_ms) for bounds, first in extents]

    async def read(self, name: bytes, number: int, options: ReadOptions) -> LogPage:
        """Return a page of messages of the partition `number`, from the offset or time in `options` on.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownPartitionError.
          InvalidOptionError: the offset is after the end.
          UnavailableError: the store is being reopened, so its content is unknown.
          StorageError: the messages cannot be read.
          MemoryLimitError: the client uses all the memory it may.
        """
        with self._memory.reserve(options.max_bytes):
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
        self._check_unchanged(name, log)
        return page

    async def seq_at(self, name: bytes, number: int, time_ms: int) -> int:
        """Return the sequence number of the first message committed at `time_ms` or later; the end if there is none.

        Assumes that commit times never decrease: if the clock was set back, the result can be another message of about
        that time. Only acts that run within an epoch may call it. Raises as `read`.
        """
        return await self._seq_at(self._log(name, number), time_ms)

    # --- finding ----------------------------------------------------------------------------------------------

    def _check_unchanged(self, name: bytes, log: PartitionLog) -> None:
        """Raise UnknownTopicError if the topic of a log was deleted since the log was looked up."""
        if self._topics.get(name) is not log.topic or log.topic.id != log.topic_id:
            raise UnknownTopicError

    def _log(self, name: bytes, number: int) -> PartitionLog:
        topic = self._journal.existing_topic(name)
        partition = topic.partitions.get(number)
        if partition is None:
            raise UnknownPartitionError
        assert topic.id is not None
        return PartitionLog(self._journal.store, topic, topic.id, partition)

    async def _seq_at(self, log: PartitionLog, time_ms: int) -> int:
        _, low, high = bounds_of(log.partition)
        while low < high:
            middle = (low + high) // 2
            stored = await log.before(middle)
            extent = None if stored is None else values.decode_extent(*stored)
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
        next_seq, remaining_count, remaining_bytes = start_seq, options.max_count, options.max_bytes
        async with (
            aclosing(self._chunks(log, bounds, start_seq, options.max_count)) as chunks,
            aclosing(self._share.pauses()) as pauses,
        ):
            async for chunk in chunks:
                if runs and chunk.first_seq != next_seq:
                    break  # the next page reports the messages that are missing here
                run = _part(chunk, max(start_seq, chunk.first_seq), remaining_count, remaining_bytes)
                runs.append(run)
                next_seq, remaining_count = run.end_seq, remaining_count - len(run.payloads)
                remaining_bytes -= run.content_bytes
                if next_seq < chunk.end_seq:
                    self._keep(log, chunk)
                if remaining_count <= 0 or remaining_bytes <= 0:
                    break
                if len(runs) % CHUNKS_IN_TURN == 0:
                    await anext(pauses)
        first_seq = runs[0].first_seq if runs else bounds.end_seq
        return LogPage(bounds, first_seq - start_seq, max(next_seq, first_seq), runs)

    async def _chunks(
        self, log: PartitionLog, bounds: LogBounds, start_seq: int, max_count: int
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks with messages from `start_seq` up to the end that `bounds` has."""
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
                yield values.decode_chunk(keys.chunk_first_seq(key), value)
            key += b"\x00"

    async def _chunk_with(self, log: PartitionLog, seq: int) -> Chunk | None:
        """Return the chunk that contains the message `seq`, or None if it is not in the store."""
        for position, chunk in self._kept.items():
            if position[:2] == log.place and chunk.first_seq <= seq < chunk.end_seq:
                if not _is_needed(log.partition, chunk.first_seq):
                    break  # it may have been deleted: only the store knows
                self._kept.move_to_end(position)
                return chunk
        stored = await log.before(seq)
        chunk_before = None if stored is None else values.decode_chunk(*stored)
        return None if chunk_before is None or chunk_before.end_seq <= seq else chunk_before

    def _keep(self, log: PartitionLog, chunk: Chunk) -> None:
        position = (*log.place, chunk.first_seq)
        self._kept[position] = chunk
        self._kept.move_to_end(position)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def _is_needed(partition: Partition, first_seq: int) -> bool:
    """Whether a chunk is retained, or some group has not settled all its messages."""
    if partition.retained is not None and partition.retained.keeps(first_seq):
        return True
    return not all(cursor.has_finished(first_seq) for cursor in partition.cursors.values())


def _part(chunk: Chunk, start_seq: int, max_count: int, max_bytes: int) -> Chunk:
    """Return the messages of a chunk from `start_seq` on, within both limits, but at least one."""
    start = start_seq - chunk.first_seq
    stop = min(len(chunk.payloads), start + max_count)
    if chunk.content_bytes > max_bytes:
        stop = _stop_within(chunk, start, stop, max_bytes)
    if start == 0 and stop == len(chunk.payloads):
        return chunk
    attributes = None if chunk.attributes is None else chunk.attributes[start:stop]
    return Chunk(start_seq, chunk.committed_at_ms, chunk.payloads[start:stop], 0, attributes)


def _stop_within(chunk: Chunk, start: int, stop: int, max_bytes: int) -> int:
    """Return the index, at most `stop`, up to which the messages from `start` on reach `max_bytes`."""
    size_bytes = 0
    for index, size in enumerate(islice(chunk.sizes(), start, stop), start + 1):
        size_bytes += size
        if size_bytes >= max_bytes:
            return index
    return stop
