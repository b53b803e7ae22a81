"""Notes what happens to the messages of one topic, for the next commit to write.

    publish ──────────────────▶ TopicTrace ─ cut ─▶ one value for each block of messages that a commit touched
    GroupCursor ─▶ GroupTrace ────▲                 and how much is stored
    dead letters, redrive ────────┘

A topic without traces has none of these. What is noted of a delivery does not ask for a commit of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, SupportsBytes

from miniqueue.broker.acting import ACTING
from miniqueue.broker.clock import Clock
from miniqueue.core.lease import Lease
from miniqueue.core.tracing import Kind, Row
from miniqueue.storage import trace_keys, trace_records
from miniqueue.storage.trace_records import TraceState

#: That are taken at once; so many values, at most, are not counted after a crash.
SERIALS = 1024


class Source(NamedTuple):
    """Where a message comes from that nobody publishes: what brings it, the place, its number there and 1."""

    kind: Kind
    place: bytes
    number: int = 0


class Receiver:
    """To whom messages are handed out: who it is, of which member, and what the receipts begin with."""

    __slots__ = ("_actor", "_member", "_prefix", "_spelled")

    def __init__(self, actor: SupportsBytes, member: bytes = b"", prefix: bytes = b"") -> None:
        self._actor = actor
        self._member = member
        self._prefix = prefix
        self._spelled = b""

    def __bytes__(self) -> bytes:
        """Spell it, as it is stored."""
        if not self._spelled:
            self._spelled = b"\n".join((bytes(self._actor), self._member, self._prefix))
        return self._spelled


def place_of(topic: bytes, partition: int) -> bytes:
    """Spell a place, as it is stored."""
    return b"%d %b" % (partition, topic)


class TopicTrace:
    """Notes what happens in a topic.

    Args:
      topic_id: of the topic.
      state: how much is stored.
      clock: tells when it happens.
      touch: called when there is something for the next commit to write.

    Attributes:
      size_bytes: of what is stored; somewhat less after a crash.
      front_blocks: of each partition the first block of which there may be something.
    """

    def __init__(self, topic_id: int, state: TraceState, clock: Clock, touch: Callable[[], None]) -> None:
        self.topic_id = topic_id
        self.size_bytes, self._free_serial = state
        self._next_serial = self._free_serial
        self.front_blocks: dict[int, int] = {}
        self.now_ms = clock.now_ms
        self._touch = touch
        self._rows: dict[int, list[Row]] = {}  # by partition, since the last commit

    @property
    def is_due(self) -> bool:
        """Whether there is something to write."""
        return bool(self._rows)

    def rows(self, partition: int) -> list[Row]:
        """Return what the next commit writes of a partition, for something to be added."""
        rows = self._rows.get(partition)
        if rows is None:
            rows = self._rows[partition] = []
            self._touch()
        return rows

    def published(self, partition: int, first_seq: int, count: int) -> None:
        """Note messages that are published, by whoever acts now."""
        self.rows(partition).append((Kind.PUBLISHED, first_seq, count, self.now_ms(), b"", ACTING.get(), 0))

    def began(self, partition: int, first_seq: int, sources: Iterable[Source | None]) -> None:
        """Note messages with where each comes from; None where they are published."""
        for seq, source in enumerate(sources, first_seq):
            if source is None:
                self.published(partition, seq, 1)
            else:
                row = source.kind, seq, 1, self.now_ms(), b"", source.place, source.number
                self.rows(partition).append(row)

    def moved(
        self, kind: Kind, partition: int, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes, group: bytes
    ) -> None:
        """Note where messages go: to `topic`, each to a partition and a number there."""
        for seq, (number, there) in zip(seqs, to, strict=True):
            self.rows(partition).append((kind, seq, 1, self.now_ms(), group, place_of(topic, number), there + 1))

    def cut(self, batch: dict[bytes, bytes | None], now_ms: int) -> None:
        """Add to `batch` what happened since the last commit, at `now_ms`."""
        noted, self._rows = self._rows, {}
        serial = self._next_serial
        for partition, rows in noted.items():
            for block, value in trace_records.encode_rows(rows, now_ms):
                key = trace_keys.trace(self.topic_id, partition, block, serial)
                batch[key] = value
                self.size_bytes += len(key) + len(value)
                serial += 1
        self._next_serial = serial
        if serial > self._free_serial:
            self.keep(batch)

    def keep(self, batch: dict[bytes, bytes | None]) -> None:
        """Add how much is stored to what a commit writes, and take serial numbers for the next ones."""
        self._free_serial = self._next_serial + SERIALS
        state = TraceState(self.size_bytes, self._free_serial)
        batch[trace_keys.traces(self.topic_id)] = trace_records.encode_traces(state)


class GroupTrace:
    """Notes what a group does with the messages of a partition; a `Recorder`."""

    __slots__ = ("_group", "_partition", "_trace")

    def __init__(self, trace: TopicTrace, partition: int, group: bytes) -> None:
        self._trace = trace
        self._partition = partition
        self._group = group

    def note(self, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Note what happened to the messages of a lease."""
        trace = self._trace
        row = kind, lease.first_seq, lease.count, trace.now_ms(), self._group, reason, 0
        trace.rows(self._partition).append(row)

    def note_each(self, kind: Kind, seqs: Iterable[int]) -> None:
        """Note the same of messages by their sequence numbers."""
        trace = self._trace
        trace.rows(self._partition).extend((kind, seq, 1, trace.now_ms(), self._group, b"", 0) for seq in seqs)

    def delivered(self, lease: Lease, receiver: SupportsBytes) -> None:
        """Note to whom they were handed out."""
        trace = self._trace
        row = Kind.DELIVERED, lease.first_seq, lease.count, trace.now_ms(), self._group, receiver, lease.receipt
        trace.rows(self._partition).append(row)

    def moved(self, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes) -> None:
        """Note where messages went."""
        self._trace.moved(kind, self._partition, seqs, to, topic, self._group)
