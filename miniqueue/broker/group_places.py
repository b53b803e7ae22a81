"""Finds where a group begins in a partition, and what it leaves out: the log as it is, with its holes.

    start ─▶ sequence number ─▶ behind the hole it lies in ─▶ the chunk it lies in: head, and bits of what is in front
                                                           └▶ the holes behind: gaps
                                bytes that are left out: of all in front, and of each hole, by what chunks say

The partition is pinned meanwhile, so that no chunk that was there when this began goes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from miniqueue.broker.journal import Journal
from miniqueue.broker.log_reading import LogReader
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.group_start import Edge, FromMessage, FromMessages, FromTime, Start
from miniqueue.core.holes import Runs, holes_of, without
from miniqueue.core.look_errors import InvalidOptionError, UnknownPartitionError
from miniqueue.core.message import Chunk
from miniqueue.core.message_id import format_message_id
from miniqueue.core.partition import Partition, Pin
from miniqueue.core.read_options import ReadOptions
from miniqueue.errors import CorruptionError
from miniqueue.storage import keys, records


class Place(NamedTuple):
    """Where a group begins in one partition.

    Attributes:
      head_seq: of the first chunk that it needs.
      bits: of messages of that chunk that it does not.
      gaps: behind there, start to stop, what is no longer in the log.
      gone_bytes: of all that it leaves out.
      tail_seq: where the log ended when this was found.
    """

    head_seq: int
    bits: int
    gaps: dict[int, int]
    gone_bytes: int
    tail_seq: int

    @property
    def skipped_count(self) -> int:
        """How many messages it leaves out."""
        return self.head_seq + self.bits.bit_count() + sum(stop - start for start, stop in self.gaps.items())

    @property
    def depth(self) -> int:
        """How many messages it is to have, up to `tail_seq`."""
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
    """Check that a group can begin there: at messages that were published, or at the next one of a partition.

    A message that is beyond has an id of another topic, perhaps of one of the same name that was deleted.

    Args:
      start: the place.
      end_seqs: of each partition of the topic, the sequence number of its next message.

    Raises UnknownPartitionError or InvalidOptionError.
    """
    seqs = {start.partition: start.seq} if isinstance(start, FromMessage) else {}
    for number, seq in (start.seqs if isinstance(start, FromMessages) else seqs).items():
        end_seq = end_seqs.get(number)
        if end_seq is None:
            raise UnknownPartitionError
        if seq > end_seq:
            message_id, end_id = (format_message_id(number, one).decode() for one in (seq, end_seq))
            raise InvalidOptionError(f"no message {message_id} was published; the partition ends before {end_id}")


@contextmanager
def pinned(topic: Topic) -> Iterator[list[tuple[Partition, Pin]]]:
    """Have no chunk of the topic deleted in this block; what would have been is in the pins."""
    pins = [(partition, Pin()) for partition in topic.partitions.values()]
    for partition, pin in pins:
        partition.pins.append(pin)
    try:
        yield pins
    finally:
        for partition, pin in pins:
            partition.pins.remove(pin)


def holes_in(partition: Partition) -> Runs:
    """Return what of a log is deleted, or will be: what all groups have finished, and is not retained."""
    holes, retained = holes_of(partition.cursors.values()), partition.retained
    if retained is None:
        return holes
    stop_seq = partition.next_seq if retained.stop_seq is None else retained.stop_seq
    return without(holes, [(retained.start_seq, stop_seq)])


class Places:
    """Finds places in logs.

    Args:
      journal: has the store.
      log_reader: finds messages by their time.
    """

    def __init__(self, journal: Journal, log_reader: LogReader) -> None:
        self._journal = journal
        self._log_reader = log_reader

    async def find(self, topic: Topic, start: Start) -> dict[int, Place]:
        """Return the place in each partition of a topic that is pinned; raises as `LogReader.read`."""
        await self._journal.committer.flush()  # what was finished before the pins is deleted then
        check_start(start, {number: partition.tail_seq for number, partition in topic.partitions.items()})
        if isinstance(start, FromMessage):
            return await self._from_message(topic, start)
        if isinstance(start, FromMessages):
            return await self._from_messages(topic, start)
        partitions = list(topic.partitions.values())
        return {one.number: await self._place(topic, one, await self._seq(topic, one, start)) for one in partitions}

    async def _from_message(self, topic: Topic, start: FromMessage) -> dict[int, Place]:
        time_ms = await self._time_of(topic, start)
        others = Edge.LATEST if time_ms is None else FromTime(time_ms)
        places = {}
        for partition in list(topic.partitions.values()):
            is_named = partition.number == start.partition
            seq = start.seq if is_named else await self._seq(topic, partition, others)
            places[partition.number] = await self._place(topic, partition, seq)
        return places

    async def _from_messages(self, topic: Topic, start: FromMessages) -> dict[int, Place]:
        partitions = list(topic.partitions.values())
        return {one.number: await self._place(topic, one, start.seqs.get(one.number, 0)) for one in partitions}

    async def _time_of(self, topic: Topic, start: FromMessage) -> int | None:
        """Return when a message was committed, or the first behind it that is there; None when there is none."""
        page = await self._log_reader.read(topic.name, start.partition, ReadOptions(offset=start.seq, max_count=1))
        return page.runs[0].committed_at_ms if page.runs else None

    async def _seq(self, topic: Topic, partition: Partition, start: Edge | FromTime) -> int:
        if isinstance(start, FromTime):
            return await self._log_reader.seq_at(topic.name, partition.number, start.time_ms)
        return 0 if start is Edge.EARLIEST else partition.tail_seq

    async def _place(self, topic: Topic, partition: Partition, seq: int) -> Place:
        holes, tail_seq, tail_bytes = holes_in(partition), partition.tail_seq, partition.tail_bytes
        seq = next((stop for first, stop in holes if first <= seq < stop), seq)
        if seq >= tail_seq or topic.id is None:
            return Place(tail_seq, 0, {}, tail_bytes, tail_seq)
        log = topic.id, partition.number
        chunk = await self._chunk_with(log, holes, seq)
        index = seq - chunk.first_seq
        gone_bytes = _bytes_before(chunk) + sum(islice(chunk.sizes(), index))
        gaps = {first: stop for first, stop in holes if first > seq}
        for first, stop in gaps.items():
            end_bytes = tail_bytes if stop >= tail_seq else _bytes_before(await self._chunk_with(log, holes, stop))
            gone_bytes += end_bytes - (await self._chunk_with(log, holes, first - 1)).log_bytes
        return Place(chunk.first_seq, (1 << index) - 1, gaps, max(0, gone_bytes), tail_seq)

    async def _chunk_with(self, log: tuple[int, int], holes: Runs, seq: int) -> Chunk:
        """Return the chunk that holds a message, which is in no hole: the log is whole from the hole in front on."""
        run_start = max((stop for _, stop in holes if stop <= seq), default=0)
        (last,) = await self._journal.store.last_of([(keys.chunk(*log, run_start), keys.chunk(*log, seq + 1))])
        if last is None:
            raise CorruptionError(f"topic {log[0]}: messages from {run_start} on are missing")
        return records.decode_chunk(keys.chunk_first_seq(last[0]), last[1])


def _bytes_before(chunk: Chunk) -> int:
    return chunk.log_bytes - chunk.content_bytes
