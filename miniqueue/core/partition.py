"""One partition: an ordered log, and the groups that read it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import add

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.delayed import NO_DELAYS, Delays, DelaysState
from miniqueue.core.lease import ChunkProgress
from miniqueue.core.message import Chunk
from miniqueue.core.needs import Needs
from miniqueue.core.retention import Retained

#: The group that plain SUBSCRIBE reads with.
DEFAULT_GROUP = 0

# Small enough that a bitmap is cheap to rewrite with every commit, and one read is not much more than wanted.
MAX_CHUNK_MESSAGES = 8192
MAX_CHUNK_BYTES = 1 << 20


class Pin:
    """Keeps the chunks of a partition while somebody looks where a group is to begin.

    Attributes:
      kept: those that would have been deleted.
    """

    def __init__(self) -> None:
        self.kept: list[ChunkProgress] = []


class Partition:
    """A log that grows by chunks, one commit at a time.

    Appended messages wait in memory until `cut`, and are readable from `commit` on. `next_seq` counts them from
    the moment of `append`, so every message knows its sequence number before it is durable, and `log_bytes` their
    payloads and attributes. `delays` has those that are not due yet, `retained` what stays when all groups are done
    with it, if anything. `number` is what the store's keys know it by.
    """

    __slots__ = (
        "_appended",
        "_appended_bytes",
        "_attributes",
        "_cursors",
        "_needs",
        "_stops",
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
        self._cursors, self._needs = cursors, Needs(cursors)
        self.delays = Delays(delays)
        self.retained: Retained | None = None
        self.pins: list[Pin] = []
        self.is_head_due = False  # whether the next commit must say where the log ends, as chunks are to be deleted
        self.consumed_bytes = 0  # of chunks deleted since disk space was last given back
        self._appended: list[bytes] = []
        self._stops: set[int] = set()  # where a chunk is to end, among what was appended
        self._appended_bytes = 0
        self._attributes: list[bytes] = []  # of what was appended, up to the last message that was given some

    def append(self, payloads: list[bytes], size_bytes: int) -> int:
        """Add messages, `size_bytes` together, to the next commit; return the sequence number of the first.

        Attributes count in `size_bytes`; `describe` adds them.
        """
        first_seq = self.next_seq
        self.next_seq = first_seq + len(payloads)
        self.log_bytes += size_bytes
        self._appended += payloads
        self._appended_bytes += size_bytes
        return first_seq

    def describe(self, first_seq: int, attributes: Sequence[bytes]) -> None:
        """Give messages just appended their attributes, encoded: one for each, from `first_seq` on; b"" for none.

        `append` has been told their size too.
        """
        if any(attributes):
            plain_count = len(self._appended) - (self.next_seq - first_seq) - len(self._attributes)
            self._attributes += [b""] * plain_count
            self._attributes += attributes

    def end_chunk(self) -> None:
        """Have what is appended next begin a chunk."""
        if self._appended:
            self._stops.add(len(self._appended))

    def cut(self, now_ms: int) -> list[Chunk]:
        """Return what has been appended since the last call, as the chunks of one commit."""
        if not self._appended:
            return []
        payloads, self._appended = self._appended, []
        attributes, self._attributes = self._attributes, []
        if attributes:
            attributes += [b""] * (len(payloads) - len(attributes))
        size_bytes, self._appended_bytes = self._appended_bytes, 0
        if self._stops or len(payloads) > MAX_CHUNK_MESSAGES or size_bytes > MAX_CHUNK_BYTES:
            return self._cut_in_chunks(payloads, attributes, now_ms)
        first_seq = self.next_seq - len(payloads)
        return [Chunk(first_seq, now_ms, payloads, self.log_bytes, attributes or None)]  # as a rule

    def _cut_in_chunks(self, payloads: list[bytes], attributes: list[bytes], now_ms: int) -> list[Chunk]:
        lengths = map(len, payloads)
        stops = _chunk_stops(list(map(add, lengths, map(len, attributes)) if attributes else lengths))
        first_seq, log_bytes = self.next_seq - len(payloads), self.log_bytes
        chunks = [
            Chunk(first_seq + a, now_ms, payloads[a:b], 0, _some(attributes[a:b]))
            for a, b in pairwise(sorted({0, *stops, *self._stops}))
        ]
        self._stops.clear()
        for chunk in reversed(chunks):
            chunk.log_bytes = log_bytes
            log_bytes -= chunk.content_bytes
        return chunks

    def commit(self, chunks: list[Chunk], delays: DelaysState | None = None) -> None:
        """Make chunks readable, which are durable now, as are the delayed messages where a commit changes them."""
        for chunk in chunks:
            for cursor in self.cursors.values():
                cursor.append(chunk)
        if delays is not None:
            self.delays.committed = delays

    def is_unneeded(self, progress: ChunkProgress) -> bool:
        """Whether every group is done with a chunk that one of them has just finished, and it need not be kept."""
        first_seq, retained = progress.chunk.first_seq, self.retained
        if retained is not None and retained.keeps(first_seq):
            return False
        if self._needs.is_any(first_seq):
            return False
        for pin in self.pins:
            pin.kept.append(progress)
        return not self.pins

    def replace(self, group: int | None, cursor: GroupCursor | None) -> None:
        """Have a group read no more, None for none, and another, None likewise."""
        if group is not None:
            del self._cursors[group]
        if cursor is not None:
            self._cursors[cursor.group] = cursor
        self._needs.forget()

    @property
    def tail_seq(self) -> int:
        """The sequence number after the last message that is committed; there must be a group."""
        return next(iter(self.cursors.values())).tail_seq

    @property
    def tail_bytes(self) -> int:
        """Of all payloads and attributes up to there."""
        return next(iter(self.cursors.values())).tail_bytes


def _some(attributes: list[bytes]) -> list[bytes] | None:
    return attributes if any(attributes) else None


def _chunk_stops(sizes: list[int]) -> list[int]:
    """Return where to cut messages of so many bytes that no chunk is over its limits, unless it is a single message."""
    stops, start, size_bytes = [], 0, 0
    for i, size in enumerate(sizes):
        size_bytes += size
        if i > start and (size_bytes > MAX_CHUNK_BYTES or i - start >= MAX_CHUNK_MESSAGES):
            stops.append(i)
            start, size_bytes = i, size
    return [*stops, len(sizes)]
