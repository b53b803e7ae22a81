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
from miniqueue.core.tracing import Gathered, Kind
from miniqueue.storage import trace_keys, trace_records
from miniqueue.storage.trace_records import TraceState


class Source(NamedTuple):
    """Where a message comes from that nobody publishes: what brings it, the place, its number there and 1."""

    kind: Kind
    place: bytes
    number: int = 0


class Receiver(NamedTuple):
    """To whom messages are handed out: who it is, of which member, and what the receipts begin with."""

    actor: SupportsBytes
    member: bytes = b""
    prefix: bytes = b""

    def __bytes__(self) -> bytes:
        """Spell it, as it is stored."""
        return b"\n".join((bytes(self.actor), self.member, self.prefix))


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
      state: how much is stored with the next commit.
      front_blocks: of each partition the first block of which there may be something.
    """

    def __init__(self, topic_id: int, state: TraceState, clock: Clock, touch: Callable[[], None]) -> None:
        self.topic_id = topic_id
        self.state = state
        self.front_blocks: dict[int, int] = {}
        self._now_ms = clock.now_ms
        self._touch = touch
        self._gathered: dict[int, Gathered] = {}

    @property
    def is_due(self) -> bool:
        """Whether there is something to write."""
        return bool(self._gathered)

    def published(self, partition: int, first_seq: int, count: int) -> None:
        """Note messages that are published, by whoever acts now."""
        self._of(partition).add(Kind.PUBLISHED, first_seq, count, self._now_ms(), b"", ACTING.get())

    def began(self, partition: int, first_seq: int, sources: Iterable[Source | None]) -> None:
        """Note messages with where each comes from; None where they are published."""
        gathered, now_ms = self._of(partition), self._now_ms()
        for seq, source in enumerate(sources, first_seq):
            if source is None:
                gathered.add(Kind.PUBLISHED, seq, 1, now_ms, b"", ACTING.get())
            else:
                gathered.add(source.kind, seq, 1, now_ms, b"", source.place, number=source.number)

    def moved(
        self, kind: Kind, partition: int, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes, group: bytes
    ) -> None:
        """Note where messages go: to `topic`, each to a partition and a number there."""
        gathered, now_ms = self._of(partition), self._now_ms()
        for seq, (number, there) in zip(seqs, to, strict=True):
            gathered.add(kind, seq, 1, now_ms, group, place_of(topic, number), number=there + 1)

    def note(self, kind: Kind, partition: int, run: tuple[int, int], group: bytes, reason: bytes = b"") -> None:
        """Note what happens to messages: the sequence number of the first, and how many there are."""
        self._of(partition).add(kind, *run, self._now_ms(), group, reason)

    def delivered(self, partition: int, lease: Lease, group: bytes, receiver: SupportsBytes) -> None:
        """Note to whom messages are handed out."""
        now_ms = self._now_ms()
        gathered = self._of(partition)
        gathered.add(Kind.DELIVERED, lease.first_seq, lease.count, now_ms, group, receiver, number=lease.receipt)

    def cut(self, batch: dict[bytes, bytes | None], now_ms: int) -> None:
        """Add to `batch` what happened since the last commit, at `now_ms`."""
        gathered, self._gathered = self._gathered, {}
        size_bytes, serial = self.state
        for partition, found in gathered.items():
            for block, value in trace_records.encode_gathered(found, now_ms):
                key = trace_keys.trace(self.topic_id, partition, block, serial)
                batch[key] = value
                size_bytes += len(key) + len(value)
                serial += 1
        self.keep(batch, TraceState(size_bytes, serial))

    def keep(self, batch: dict[bytes, bytes | None], state: TraceState) -> None:
        """Add how much is stored to what a commit writes."""
        self.state = state
        batch[trace_keys.traces(self.topic_id)] = trace_records.encode_traces(state)

    def _of(self, partition: int) -> Gathered:
        gathered = self._gathered.get(partition)
        if gathered is None:
            gathered = self._gathered[partition] = Gathered()
            self._touch()
        return gathered


class GroupTrace:
    """Notes what a group does with the messages of a partition; a `Recorder`."""

    __slots__ = ("_group", "_partition", "_trace")

    def __init__(self, trace: TopicTrace, partition: int, group: bytes) -> None:
        self._trace = trace
        self._partition = partition
        self._group = group

    def note(self, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Note what happened to the messages of a lease."""
        self._trace.note(kind, self._partition, (lease.first_seq, lease.count), self._group, reason)

    def note_each(self, kind: Kind, seqs: Iterable[int]) -> None:
        """Note the same of messages by their sequence numbers."""
        for seq in seqs:
            self._trace.note(kind, self._partition, (seq, 1), self._group)

    def delivered(self, lease: Lease, receiver: SupportsBytes) -> None:
        """Note to whom they were handed out."""
        self._trace.delivered(self._partition, lease, self._group, receiver)

    def moved(self, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes) -> None:
        """Note where messages went."""
        self._trace.moved(kind, self._partition, seqs, to, topic, self._group)
