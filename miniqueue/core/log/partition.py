"""One partition: an ordered log, and the cursors of the groups that read it.

    log:    ░░░░░░░░░░ [chunk][chunk] … [chunk][chunk] appended            ░ deleted
                       ▲ earliest_seq                ▲ end_seq ▲ next_seq

Messages are appended in memory, cut into the chunks of a commit, and readable when that commit is durable. `bounds_of`
returns which messages can be read, without reading the store.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from operator import add, attrgetter
from typing import NamedTuple

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkProgress
from miniqueue.core.group.needs import ChunkNeeds
from miniqueue.core.log.delayed import NO_DELAYS, DelaysState, PartitionDelays
from miniqueue.core.log.retention import Retained, floor_of
from miniqueue.core.message.message import Chunk

#: The number of the group of a SUBSCRIBE without a group.
DEFAULT_GROUP = 0

#: Maximum number of messages of a chunk: small enough that its bitmap, 1 KiB, is cheap to write with every commit.
MAX_CHUNK_MESSAGES = 8192
#: Maximum size of a chunk, unless it is a single message: small enough that reading one loads little in excess.
MAX_CHUNK_BYTES = 1 << 20

_tail_seq = attrgetter("tail_seq")


class Pin:
    """Keeps the chunks of a topic while the start positions of a group are determined.

    Attributes:
      kept: the chunks that would have been deleted otherwise, each with its partition.
    """

    def __init__(self) -> None:
        self.kept: list[tuple[Partition, ChunkProgress]] = []


class Partition:
    """A log that grows by chunks, one commit at a time.

    Appended messages wait in memory until `cut`, and are readable from `commit` on.

    Attributes:
      number: the number of the partition, as in the keys of the store.
      next_seq: the sequence number of the next message; a message has its number before it is durable.
      log_bytes: the size of all payloads and attributes up to `next_seq`.
      cursors: the cursors of the groups, by the numbers of the groups.
      delays: the messages that are not due.
      retained: the chunks that stay after all groups have finished them, if any.
      pins: while there are any, no chunk is deleted.
      is_head_due: whether the next commit must write the end of the log, because it deletes chunks.
      consumed_bytes: size of the chunks that were deleted since disk space was last reclaimed.
      appended: the payloads that the next `cut` returns as chunks.

    The methods of the partition write its fields, and the other modules only read them. The exceptions:

    | field            | other modules that write it                                                            |
    |------------------|----------------------------------------------------------------------------------------|
    | `consumed_bytes` | `broker.stored.encode_commit`, `broker.groups.groups`, and                             |
    |                  | `broker.cleanup.retention`, which delete chunks; `broker.cleanup.disk_space` resets it |
    |                  | `broker.model.rest` restores it                                                        |
    | `is_head_due`    | `broker.groups.groups` sets it; `broker.stored.encode_commit` resets it                |
    | `pins`           | `broker.groups.start_positions`                                                        |
    | `retained`       | `broker.cleanup.retention`; `broker.stored.opening` at startup                         |
    |                  | `broker.model.rest` restores it                                                        |
    | `retained.first` | `broker.cleanup.retention`; `broker.model.rest` restores it                            |
    """

    __slots__ = (
        "_appended_bytes",
        "_attributes",
        "_cursors",
        "_needs",
        "_stops",
        "appended",
        "consumed_bytes",
        "cursors",
        "delays",
        "is_head_due",
        "log_bytes",
        "next_seq",
        "number",
        "pins",
        "retained",
    )

    def __init__(
        self,
        next_seq: int,
        cursors: dict[int, GroupCursor],
        log_bytes: int = 0,
        number: int = 0,
        delays: DelaysState = NO_DELAYS,
    ) -> None:
        self.number = number
        self.next_seq = next_seq
        self.log_bytes = log_bytes
        self.cursors: Mapping[int, GroupCursor] = cursors
        self._cursors, self._needs = cursors, ChunkNeeds(cursors)
        self.delays = PartitionDelays(delays)
        self.retained: Retained | None = None
        self.pins: tuple[Pin, ...] = ()
        self.is_head_due = False
        self.consumed_bytes = 0
        self.appended: list[bytes] = []
        self._stops: tuple[int, ...] = ()  # indexes in `appended` at which a chunk must end
        self._appended_bytes = 0
        self._attributes: list[bytes] = []  # may be shorter than `appended`: messages at the end have none

    def append(self, payloads: list[bytes], size_bytes: int) -> int:
        """Add messages to the next commit; return the sequence number of the first one.

        `size_bytes` is the size of payloads and attributes; the caller adds the attributes with `describe`.
        """
        first_seq = self.next_seq
        self.next_seq = first_seq + len(payloads)
        self.log_bytes += size_bytes
        self.appended += payloads
        self._appended_bytes += size_bytes
        return first_seq

    def describe(self, first_seq: int, attributes: Sequence[bytes]) -> None:
        """Add the encoded attributes of the messages from `first_seq` on, which were just appended; b"" for none."""
        if any(attributes):
            plain_count = len(self.appended) - (self.next_seq - first_seq) - len(self._attributes)
            self._attributes += [b""] * plain_count
            self._attributes += attributes

    def end_chunk(self) -> None:
        """End the current chunk: the next appended message begins another one."""
        if self.appended:
            self._stops += (len(self.appended),)

    def cut(self, now_ms: int) -> list[Chunk]:
        """Return the messages that were appended since the last call, as the chunks of one commit."""
        if not self.appended:
            return []
        payloads, self.appended = self.appended, []
        attributes, self._attributes = self._attributes, []
        if attributes:
            attributes += [b""] * (len(payloads) - len(attributes))
        size_bytes, self._appended_bytes = self._appended_bytes, 0
        if self._stops or len(payloads) > MAX_CHUNK_MESSAGES or size_bytes > MAX_CHUNK_BYTES:
            return self._cut_in_chunks(payloads, attributes, now_ms)
        # Fast path: nearly every commit is one chunk.
        first_seq = self.next_seq - len(payloads)
        return [Chunk(first_seq, now_ms, payloads, self.log_bytes, attributes or None)]

    def _cut_in_chunks(self, payloads: list[bytes], attributes: list[bytes], now_ms: int) -> list[Chunk]:
        lengths = map(len, payloads)
        stops = _chunk_stops(list(map(add, lengths, map(len, attributes)) if attributes else lengths))
        first_seq, log_bytes = self.next_seq - len(payloads), self.log_bytes
        chunks = [
            Chunk(first_seq + a, now_ms, payloads[a:b], 0, _some(attributes[a:b]))
            for a, b in pairwise(sorted({0, *stops, *self._stops}))
        ]
        self._stops = ()
        for chunk in reversed(chunks):
            chunk.log_bytes = log_bytes
            log_bytes -= chunk.content_bytes
        return chunks

    def commit(self, chunks: list[Chunk], delays: DelaysState | None = None) -> None:
        """Make durable chunks readable; `delays` is the committed state of delayed messages, if it changed."""
        for chunk in chunks:
            for cursor in self.cursors.values():
                cursor.append(chunk)
        if delays is not None:
            self.delays.commit(delays)

    @property
    def retained_bytes(self) -> int:
        """Size of the log from the first chunk that is retained, delayed messages included; 0 if nothing is retained.

        After a startup, it can be 0 until the first chunk has been read once.
        """
        retained = self.retained
        if retained is None or (retained.first is None and retained.start_seq):
            return 0
        first = retained.first
        before_bytes = 0 if first is None else first.log_bytes - first.content_bytes
        return max(0, self.log_bytes - before_bytes) + self.delays.state.size_bytes

    def is_unneeded(self, progress: ChunkProgress) -> bool:
        """Whether a chunk that a group has just finished can be deleted: every group has, and nothing keeps it."""
        first_seq, retained = progress.chunk.first_seq, self.retained
        if retained is not None and retained.keeps(first_seq):
            return False
        if self._needs.is_any(first_seq):
            return False
        for pin in self.pins:
            pin.kept.append((self, progress))
        return not self.pins

    def replace(self, group: int | None, cursor: GroupCursor | None) -> None:
        """Remove the cursor of a group, if `group` is not None, and add a cursor, if `cursor` is not None."""
        if group is not None:
            del self._cursors[group]
        if cursor is not None:
            self._cursors[cursor.group] = cursor
        self._needs.forget()

    @property
    def tail_seq(self) -> int:
        """The sequence number after the last committed message; there must be a group."""
        return next(iter(self.cursors.values())).tail_seq

    @property
    def tail_bytes(self) -> int:
        """The size of all payloads and attributes up to `tail_seq`."""
        return next(iter(self.cursors.values())).tail_bytes


def _some(attributes: list[bytes]) -> list[bytes] | None:
    return attributes if any(attributes) else None


def _chunk_stops(sizes: Sequence[int]) -> list[int]:
    """Return the indexes at which to cut messages of these sizes; only a chunk of one message is over the limits."""
    stops, start, sums = list[int](), 0, [0, *accumulate(sizes)]
    while start < len(sizes):
        fitting = bisect_right(sums, sums[start] + MAX_CHUNK_BYTES) - 1
        start = max(start + 1, min(fitting, start + MAX_CHUNK_MESSAGES))
        stops.append(start)
    return stops


class LogBounds(NamedTuple):
    """The range of messages of a partition that can be read.

    Attributes:
      partition: the number of the partition.
      earliest_seq: no message before this one is in the store.
      end_seq: the sequence number after the last committed message.
    """

    partition: int
    earliest_seq: int
    end_seq: int


def bounds_of(partition: Partition) -> LogBounds:
    """Return the readable range of a partition, which may have holes: chunks that all groups have finished."""
    cursors, retained = partition.cursors.values(), partition.retained
    end_seq = max(map(_tail_seq, cursors))
    floor_seq = floor_of(cursors)
    earliest_seq = floor_seq if retained is None else min(floor_seq, retained.start_seq)
    return LogBounds(partition.number, earliest_seq, end_seq)
