"""Notes what happens to the messages of one topic, for the next commit to write.

    publish ──────────────────▶ TopicTrace ─ cut ─▶ one value for each block of messages that was touched
    GroupCursor ─▶ GroupTrace ────▲                 and how much is stored
    dead letters, redrive ────────┘

Not every commit cuts: that something was published, committed or delivered waits for the next commit that settles
anything, for `MAX_ROWS` or for the next tick. So a message that is settled has its whole trace in the store. What was
not written when the process died is lost, but for when a message was committed: its chunk says so, and that is noted
again when the message is handed out. A topic without traces has none of these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, SupportsBytes

from miniqueue.broker.acting import ACTING
from miniqueue.broker.clock import Clock
from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.delayed import Delayed, Place
from miniqueue.core.lease import ChunkLease, Lease
from miniqueue.core.message import Chunk
from miniqueue.core.partition import Partition
from miniqueue.core.tracing import (
    ACKNOWLEDGED,
    COMMITTED,
    DELIVERED,
    PUBLISHED,
    SCHEDULED,
    Kind,
    Regrouping,
    Row,
)
from miniqueue.storage import trace_keys, trace_records
from miniqueue.storage.trace_keys import GROUPS, SHELF
from miniqueue.storage.trace_records import TraceState

#: That are taken at once; so many values, at most, are not counted after a crash.
SERIALS = 1024
#: That wait for a commit which settles something.
MAX_ROWS = 1024


class Source(NamedTuple):
    """Where a message comes from that nobody publishes: what brings it, the place, its number there and 1."""

    kind: Kind
    place: bytes
    number: int = 0


class Receiver:
    """To whom messages are handed out: who it is, of which member, and what receipts begin with; None without them."""

    __slots__ = ("_actor", "_member", "_prefix", "_spelled")

    def __init__(self, actor: SupportsBytes, member: bytes = b"", prefix: bytes | None = b"") -> None:
        self._actor = actor
        self._member = member
        self._prefix = prefix
        self._spelled = b""

    def __bytes__(self) -> bytes:
        """Spell it, as it is stored."""
        if not self._spelled:
            receipts = () if self._prefix is None else (self._prefix,)
            self._spelled = b"\n".join((bytes(self._actor), self._member, *receipts))
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
      touch: called when the next commit is to write what was noted.

    Attributes:
      size_bytes: of what is stored; somewhat less after a crash.
      front_blocks: of each partition the first block of which there may be something.
      oldest_ms: nothing was stored before this time.
      is_urgent: whether the next commit is to write what was noted.
      start_seqs: of each partition behind which messages all was noted.
    """

    def __init__(self, topic_id: int, state: TraceState, clock: Clock, touch: Callable[[], None]) -> None:
        self.topic_id = topic_id
        self.size_bytes, self._free_serial = state
        self._next_serial = self._free_serial
        self.front_blocks: dict[int, int] = {}
        self.oldest_ms = 0
        self.start_seqs: dict[int, int] = {}
        self.now_ms = clock.now_ms
        self._touch = touch
        self.is_urgent = False
        self._rows: defaultdict[int, list[Row]] = defaultdict(list)  # by partition, each always the same list

    @property
    def is_waiting(self) -> bool:
        """Whether something was noted and not written."""
        return any(self._rows.values())

    def hurry(self) -> bool:
        """Have the next commit write what was noted; return whether there is something."""
        if not self.is_waiting:
            return False
        self.is_urgent = True
        self._touch()
        return True

    def rows(self, partition: int) -> list[Row]:
        """Return what was noted of a partition, for something to be added; with `is_urgent`, if that cannot wait."""
        return self._rows[partition]

    def published(self, partition: int, first_seq: int, count: int) -> None:
        """Note messages that are published, by whoever acts now."""
        self._rows[partition].append((PUBLISHED, first_seq, count, self.now_ms(), b"", ACTING.get(), 0))

    def began(self, partition: int, first_seq: int, sources: Iterable[Source | None]) -> None:
        """Note messages with where each comes from; None where they are published."""
        known = list(sources)
        if not any(known):
            self.published(partition, first_seq, len(known))
            return
        self.is_urgent = True
        for seq, source in enumerate(known, first_seq):
            if source is None:
                self.published(partition, seq, 1)
            else:
                row = source.kind, seq, 1, self.now_ms(), b"", source.place, source.number
                self.rows(partition).append(row)

    def moved(
        self, kind: Kind, partition: int, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes, group: bytes
    ) -> None:
        """Note where messages go: to `topic`, each to a partition and a number there."""
        self.is_urgent = True
        for seq, (number, there) in zip(seqs, to, strict=True):
            self.rows(partition).append((kind, seq, 1, self.now_ms(), group, place_of(topic, number), there + 1))

    def scheduled(self, partition: int, place: Place) -> None:
        """Note a message that is published, by whoever acts now, and waits for its time."""
        due_at_ms, serial = place
        self._rows[SHELF | partition].append((SCHEDULED, serial, 1, self.now_ms(), b"", ACTING.get(), due_at_ms))

    def waits_no_longer(self, kind: Kind, partition: int, gone: Iterable[tuple[Place, Delayed]]) -> None:
        """Note messages that are cancelled or purged, by whoever acts now."""
        self.is_urgent = True
        rows = self._rows[SHELF | partition]
        for (due_at_ms, serial), message in gone:
            self._note_schedule(partition, (due_at_ms, serial), message)
            rows.append((kind, serial, 1, self.now_ms(), b"", ACTING.get(), due_at_ms))

    def released(
        self, partition: int, due: Sequence[tuple[Place, Delayed]], to: Sequence[tuple[int, int]], topic: bytes
    ) -> None:
        """Note messages whose time has come: where each is in the log."""
        for place, message in due:
            self._note_schedule(partition, place, message)
        self.moved(Kind.RELEASED, SHELF | partition, (serial for (_, serial), _ in due), to, topic, b"")

    def _note_schedule(self, partition: int, place: Place, message: Delayed) -> None:
        """Note again what may have been lost: when a message of earlier was published."""
        due_at_ms, serial = place
        if serial <= self.start_seqs.get(SHELF | partition, 0):
            self._rows[SHELF | partition].append((COMMITTED, serial, 1, message.published_at_ms, b"", b"", due_at_ms))

    def regrouped(self, group: bytes, before: Iterable[GroupCursor], after: Mapping[int, GroupCursor]) -> None:
        """Note that a group goes on elsewhere, or nowhere: its cursors, by partition."""
        self.is_urgent = True
        kind, actor = Kind.SOUGHT if after else Kind.GROUP_DELETED, bytes(ACTING.get())
        for cursor in before:
            number, first_seq, end_seq = cursor.partition, cursor.state.head_seq, cursor.tail_seq
            next_seq = _first_of(after[number]) if number in after else end_seq
            change = Regrouping(min(first_seq, next_seq), end_seq, next_seq, actor)
            if change.first_seq < end_seq:
                self._rows[GROUPS].append((kind, number, 1, self.now_ms(), group, change, 0))

    def commit(
        self,
        batch: dict[bytes, bytes | None],
        appended: Iterable[tuple[object, Partition, list[Chunk], object]],
        now_ms: int,
    ) -> None:
        """Note which messages are in the commit that is made at `now_ms`; add to it what cannot wait."""
        for _topic, partition, chunks, _delays in appended:
            rows = self._rows[partition.number]
            for chunk in chunks:
                rows.append((COMMITTED, chunk.first_seq, len(chunk.payloads), now_ms, b"", b"", 0))
            if len(rows) >= MAX_ROWS:
                self.is_urgent = True
        if self.is_urgent:
            self.cut(batch, now_ms)

    def cut(self, batch: dict[bytes, bytes | None], now_ms: int) -> None:
        """Add to `batch` what was noted and not written, at `now_ms`."""
        self.is_urgent = False
        self.oldest_ms = min(self.oldest_ms, now_ms)  # the clock may have been set back
        serial = self._next_serial
        for partition, rows in self._rows.items():
            if not rows:
                continue
            for block, value in trace_records.encode_rows(rows, now_ms):
                key = trace_keys.trace(self.topic_id, partition, block, serial)
                batch[key] = value
                self.size_bytes += len(key) + len(value)
                serial += 1
            rows.clear()
        self._next_serial = serial
        if serial > self._free_serial:
            self.keep(batch)

    def keep(self, batch: dict[bytes, bytes | None]) -> None:
        """Add how much is stored to what a commit writes, and take serial numbers for the next ones."""
        self._free_serial = self._next_serial + SERIALS
        state = TraceState(self.size_bytes, self._free_serial)
        batch[trace_keys.traces(self.topic_id)] = trace_records.encode_traces(state)


def _first_of(cursor: GroupCursor) -> int:
    """Return the first message that a group gets, which nobody has read with."""
    head_seq = cursor.state.head_seq
    bits = cursor_view.settled_bits(cursor).get(head_seq, 0)
    return head_seq + (~bits & (bits + 1)).bit_length() - 1


class GroupTrace:
    """Notes what a group does with the messages of a partition; a `Recorder`."""

    __slots__ = ("_group", "_noted_seq", "_now_ms", "_partition", "_rows", "_start_seq", "_trace")

    def __init__(self, trace: TopicTrace, partition: int, group: bytes) -> None:
        self._trace = trace
        self._rows = trace.rows(partition)
        self._now_ms = trace.now_ms
        self._start_seq = trace.start_seqs.get(partition, 0)
        self._noted_seq = -1  # of the chunk of earlier whose commit was noted last
        self._partition = partition
        self._group = group

    def note(self, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Note what happened to the messages of a lease."""
        self._trace.is_urgent = True
        first_seq = lease.first_seq
        if first_seq < self._start_seq and kind is not ACKNOWLEDGED:  # that was delivered before
            self._note_commit(lease)
        self._rows.append((kind, first_seq, lease.count, self._now_ms(), self._group, reason, 0))

    def note_each(self, kind: Kind, seqs: Iterable[int]) -> None:
        """Note the same of messages by their sequence numbers."""
        self._trace.is_urgent = True
        self._rows.extend((kind, seq, 1, self._now_ms(), self._group, b"", 0) for seq in seqs)

    def delivered(self, lease: Lease, receiver: SupportsBytes) -> None:
        """Note to whom they were handed out."""
        first_seq = lease.first_seq
        if first_seq < self._start_seq:
            self._note_commit(lease)
        self._rows.append((DELIVERED, first_seq, lease.count, self._now_ms(), self._group, receiver, lease.receipt))

    def _note_commit(self, lease: Lease) -> None:
        """Note when a chunk of earlier was committed, which may have been lost; what came back has lost nothing."""
        if isinstance(lease, ChunkLease) and (chunk := lease.progress.chunk).first_seq != self._noted_seq:
            self._noted_seq = chunk.first_seq
            self._rows.append((COMMITTED, chunk.first_seq, len(chunk.payloads), chunk.committed_at_ms, b"", b"", 0))

    def moved(self, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes) -> None:
        """Note where messages went."""
        self._trace.moved(kind, self._partition, seqs, to, topic, self._group)
