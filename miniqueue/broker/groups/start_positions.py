"""Determines where a group begins in each partition, and which messages it skips, from the log and its holes.

    start ─▶ sequence number ─▶ if it lies in a hole: the end of the hole ─▶ the chunk that contains it: the head, and
                                                                           │ bits for the messages before it
                                                                           └▶ the holes after it: gaps
                                skipped bytes: those before the position, and in each gap, from the sizes in chunks

A hole is a range of the log that was deleted. The partitions are pinned meanwhile, so that no chunk is deleted that was
in the log when this began.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.inspect.log import LogReader
from miniqueue.broker.model.topic import Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group.holes import Runs, holes_of, without
from miniqueue.core.log.partition import Partition, Pin
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.message import Chunk
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.options.start import Edge, FromMessage, FromMessages, FromTime, Start
from miniqueue.errors import CorruptionError
from miniqueue.errors.requests import InvalidOptionError, UnknownPartitionError
from miniqueue.storage.format import keys, values

#: Number of partitions whose positions are determined in one event-loop iteration.
PARTITIONS_IN_TURN: Final = 128


class StartPosition(NamedTuple):
    """Where a group begins in one partition.

    Attributes:
      head_seq: the sequence number of the first chunk that the group needs.
      bits: a bitmap of the messages of that chunk that the group skips.
      gaps: the later ranges that are no longer in the log, as start and stop.
      gone_bytes: the size of all messages that the group skips.
      tail_seq: the end of the log when the position was determined.
    """

    head_seq: int
    bits: int
    gaps: dict[int, int]
    gone_bytes: int
    tail_seq: int

    @property
    def skipped_count(self) -> int:
        """Number of messages that the group skips."""
        return self.head_seq + self.bits.bit_count() + sum(stop - start for start, stop in self.gaps.items())

    @property
    def depth(self) -> int:
        """Number of messages before `tail_seq` that the group gets."""
        return self.tail_seq - self.skipped_count

    def cursor(self, partition: Partition, group_id: int) -> GroupCursor:
        """Return the cursor of a group that begins here."""
        tail_bytes = partition.tail_bytes
        skipped_count = self.skipped_count
        state = CursorState(0, self.head_seq, 0, 0, skipped_count, self.gone_bytes, tail_bytes, 0, 0, skipped_count)
        bitmaps = {self.head_seq: self.bits} if self.bits else {}
        number = partition.number
        return GroupCursor(
            state, partition.tail_seq, bitmaps, dict(self.gaps), is_new=True, partition=number, group=group_id
        )


def check_start(start: Start, end_seqs: Mapping[int, int]) -> None:
    """Check that a group can begin at `start`: at a message that was published, or at the next one of a partition.

    A message id beyond the end belongs to another topic, perhaps to a deleted one of the same name.

    Args:
      start: the start position that the client requested.
      end_seqs: the sequence number of the next message, by partition.

    Raises UnknownPartitionError or InvalidOptionError.
    """
    seqs = {start.partition: start.seq} if isinstance(start, FromMessage) else {}
    for number, seq in (start.seqs if isinstance(start, FromMessages) else seqs).items():
        end_seq = end_seqs.get(number)
        if end_seq is None:
            raise UnknownPartitionError
        if seq > end_seq:
            message_id, end_id = (format_message_id(number, n).decode() for n in (seq, end_seq))
            raise InvalidOptionError(f"no message {message_id} was published; the partition ends before {end_id}")


@contextmanager
def pinned(topic: Topic) -> Iterator[Pin]:
    """Keep all chunks of a topic until the block exits; the pin collects those that would have been deleted."""
    pin, partitions = Pin(), list(topic.partitions.values())
    for partition in partitions:
        partition.pins += (pin,)
    try:
        yield pin
    finally:
        for partition in partitions:
            pins = partition.pins
            partition.pins = () if len(pins) == 1 else tuple(other for other in pins if other is not pin)


def holes_in(partition: Partition) -> Runs:
    """Return the ranges of a log that are deleted or will be: all groups have finished them, and none is retained."""
    holes, retained = holes_of(partition.cursors.values()), partition.retained
    if retained is None:
        return holes
    stop_seq = partition.next_seq if retained.stop_seq is None else retained.stop_seq
    return without(holes, [(retained.start_seq, stop_seq)])


async def find(journal: Journal, log_reader: LogReader, topic: Topic, start: Start) -> dict[int, StartPosition]:
    """Return the start position in each partition of a topic that is pinned; raises the errors of `LogReader.read`."""
    await journal.committer.flush()  # so that the chunks that were finished before the pins are deleted
    check_start(start, {number: partition.tail_seq for number, partition in topic.partitions.items()})
    if isinstance(start, FromMessage):
        return await _from_message(journal, log_reader, topic, start)
    if isinstance(start, FromMessages):
        return await _from_messages(journal, topic, start)
    return {
        partition.number: await _position(journal, topic, partition, await _seq(log_reader, topic, partition, start))
        async for partition in _in_turns(topic)
    }


async def _in_turns(topic: Topic) -> AsyncIterator[Partition]:
    """Yield the partitions of a topic, some in each event-loop iteration: there can be a thousand."""
    for index, partition in enumerate(list(topic.partitions.values()), start=1):
        yield partition
        if index % PARTITIONS_IN_TURN == 0:
            await asyncio.sleep(0)


async def _from_message(
    journal: Journal, log_reader: LogReader, topic: Topic, start: FromMessage
) -> dict[int, StartPosition]:
    time_ms = await _time_of(log_reader, topic, start)
    others = Edge.LATEST if time_ms is None else FromTime(time_ms)
    positions = {}
    async for partition in _in_turns(topic):
        is_named = partition.number == start.partition
        seq = start.seq if is_named else await _seq(log_reader, topic, partition, others)
        positions[partition.number] = await _position(journal, topic, partition, seq)
    return positions


async def _from_messages(journal: Journal, topic: Topic, start: FromMessages) -> dict[int, StartPosition]:
    return {
        partition.number: await _position(journal, topic, partition, start.seqs.get(partition.number, 0))
        async for partition in _in_turns(topic)
    }


async def _time_of(log_reader: LogReader, topic: Topic, start: FromMessage) -> int | None:
    """Return the commit time of a message or, if it is no longer in the log, of the next one; None if there is none."""
    page = await log_reader.read(topic.name, start.partition, ReadOptions(offset=start.seq, max_count=1))
    return page.runs[0].committed_at_ms if page.runs else None


async def _seq(log_reader: LogReader, topic: Topic, partition: Partition, start: Edge | FromTime) -> int:
    if isinstance(start, FromTime):
        return await log_reader.seq_at(topic.name, partition.number, start.time_ms)
    return 0 if start is Edge.EARLIEST else partition.tail_seq


async def _position(journal: Journal, topic: Topic, partition: Partition, seq: int) -> StartPosition:
    holes, tail_seq, tail_bytes = holes_in(partition), partition.tail_seq, partition.tail_bytes
    seq = next((stop for first, stop in holes if first <= seq < stop), seq)
    if seq >= tail_seq or topic.id is None:
        return StartPosition(tail_seq, 0, {}, tail_bytes, tail_seq)
    log = topic.id, partition.number
    chunk = await _chunk_with(journal, log, holes, seq)
    index = seq - chunk.first_seq
    gone_bytes = _bytes_before(chunk) + sum(islice(chunk.sizes(), index))
    gaps = {first: stop for first, stop in holes if first > seq}
    for first, stop in gaps.items():
        end_bytes = tail_bytes if stop >= tail_seq else _bytes_before(await _chunk_with(journal, log, holes, stop))
        gone_bytes += end_bytes - (await _chunk_with(journal, log, holes, first - 1)).log_bytes
    return StartPosition(chunk.first_seq, (1 << index) - 1, gaps, max(0, gone_bytes), tail_seq)


async def _chunk_with(journal: Journal, log: tuple[int, int], holes: Runs, seq: int) -> Chunk:
    """Return the chunk that contains the message `seq`.

    The message must not be in a hole; so every chunk from the end of the previous hole to the message is in the log.
    """
    run_start = max((stop for _, stop in holes if stop <= seq), default=0)
    (last,) = await journal.store.last_of([(keys.chunk(*log, run_start), keys.chunk(*log, seq + 1))])
    if last is None:
        raise CorruptionError(f"topic {log[0]}: messages from {run_start} on are missing")
    return values.decode_chunk(keys.chunk_first_seq(last[0]), last[1])


def _bytes_before(chunk: Chunk) -> int:
    return chunk.log_bytes - chunk.content_bytes
