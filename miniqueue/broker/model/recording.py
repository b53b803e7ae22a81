"""Records what happens to the messages of one topic, for the next commit to write.

    publish ──────────────────▶ TopicTrace ─ cut ─▶ one value per block of messages with events
    GroupCursor ─▶ GroupTrace ────▲                 and the total size
    dead letters, redrive ────────┘

Not every commit writes events: publishes, commits, and deliveries wait for the next commit that settles a message, for
`MAX_ROWS`, or for the next tick. So if a message is settled, its whole trace is in the store. If the process dies,
unwritten events are lost, except the commit time of a message: its chunk contains it, and it is recorded again when the
message is delivered. A topic without traces has none of these objects.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, SupportsBytes

from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, Lease
from miniqueue.core.cursor.recording import (
    ACKNOWLEDGED,
    COMMITTED,
    DELIVERED,
    PUBLISHED,
    SCHEDULED,
    Kind,
    Regrouping,
    Row,
)
from miniqueue.core.group import view
from miniqueue.core.log.delayed import Delayed, Place
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.message import Chunk
from miniqueue.storage.format import trace_keys, traces
from miniqueue.storage.format.trace_keys import GROUPS, SHELF
from miniqueue.storage.format.traces import TraceState

_partition, _tail_seq = attrgetter("partition"), attrgetter("tail_seq")

#: Serial numbers that are reserved at once; at most this many values are not counted after a crash.
SERIALS = 1024
#: Maximum number of events of a partition that wait for a commit that settles a message; it bounds memory and loss.
MAX_ROWS = 1024


class Source(NamedTuple):
    """The origin of a message that no client published: the kind of move, the position, and its number there plus 1."""

    kind: Kind
    position: bytes
    number: int = 0


class Receiver:
    """The receiver of messages: actor, member, and prefix of receipts; None if its deliveries have no receipts."""

    __slots__ = ("_actor", "_member", "_prefix", "_spelled")

    def __init__(self, actor: SupportsBytes, member: bytes = b"", prefix: bytes | None = b"") -> None:
        self._actor = actor
        self._member = member
        self._prefix = prefix
        self._spelled = b""

    def __bytes__(self) -> bytes:
        """Return the receiver as it is stored; encoded once, when it is first recorded."""
        if not self._spelled:
            receipts = () if self._prefix is None else (self._prefix,)
            self._spelled = b"\n".join((bytes(self._actor), self._member, *receipts))
        return self._spelled


def place_of(topic: bytes, partition: int) -> bytes:
    """Encode a position as it is stored."""
    return b"%d %b" % (partition, topic)


class TopicTrace:
    """Records what happens in a topic.

    Args:
      topic_id: the id of the topic.
      state: the size and the serial numbers of the stored traces.
      clock: returns the time of an event.
      touch: called when the next commit must write the recorded events.

    Attributes:
      size_bytes: size of the stored traces; slightly too low after a crash.
      front_blocks: first block of each partition that can have stored traces.
      oldest_ms: no trace was stored before this time.
      is_urgent: whether the next commit must write the recorded events.
      start_seqs: in each partition, the message from which on everything was recorded.
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
        self._rows: defaultdict[int, list[Row]] = defaultdict(list)  # one list per partition; it is never replaced

    @property
    def is_waiting(self) -> bool:
        """Whether there are recorded events that are not written."""
        return any(self._rows.values())

    def hurry(self) -> bool:
        """Make the next commit write the recorded events; return whether there are any."""
        if not self.is_waiting:
            return False
        self.is_urgent = True
        self._touch()
        return True

    def rows(self, partition: int) -> list[Row]:
        """Return the events of a partition, for the caller to append to; it sets `is_urgent` if they cannot wait."""
        return self._rows[partition]

    def published(self, partition: int, first_seq: int, count: int) -> None:
        """Record messages that the current actor publishes."""
        self._rows[partition].append((PUBLISHED, first_seq, count, self.now_ms(), b"", CURRENT_ACTOR.get(), 0))

    def began(self, partition: int, first_seq: int, sources: Iterable[Source | None]) -> None:
        """Record new messages with the source of each; None: the message is published."""
        known = list(sources)
        if not any(known):
            self.published(partition, first_seq, len(known))
            return
        self.is_urgent = True
        for seq, source in enumerate(known, first_seq):
            if source is None:
                self.published(partition, seq, 1)
            else:
                row = source.kind, seq, 1, self.now_ms(), b"", source.position, source.number
                self.rows(partition).append(row)

    def moved(
        self, kind: Kind, partition: int, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes, group: bytes
    ) -> None:
        """Record messages that move to `topic`, each to a partition and a sequence number there."""
        self.is_urgent = True
        for seq, (number, to_seq) in zip(seqs, to, strict=True):
            self.rows(partition).append((kind, seq, 1, self.now_ms(), group, place_of(topic, number), to_seq + 1))

    def scheduled(self, partition: int, position: Place) -> None:
        """Record a delayed message that the current actor publishes."""
        due_at_ms, serial = position
        self._rows[SHELF | partition].append((SCHEDULED, serial, 1, self.now_ms(), b"", CURRENT_ACTOR.get(), due_at_ms))

    def waits_no_longer(self, kind: Kind, partition: int, removed: Iterable[tuple[Place, Delayed]]) -> None:
        """Record delayed messages that the current actor cancels or purges."""
        self.is_urgent = True
        rows = self._rows[SHELF | partition]
        for (due_at_ms, serial), message in removed:
            self._note_schedule(partition, (due_at_ms, serial), message)
            rows.append((kind, serial, 1, self.now_ms(), b"", CURRENT_ACTOR.get(), due_at_ms))

    def released(
        self, partition: int, due: Sequence[tuple[Place, Delayed]], to: Sequence[tuple[int, int]], topic: bytes
    ) -> None:
        """Record delayed messages that are due, with the position of each in the log."""
        for position, message in due:
            self._note_schedule(partition, position, message)
        self.moved(Kind.RELEASED, SHELF | partition, (serial for (_, serial), _ in due), to, topic, b"")

    def _note_schedule(self, partition: int, position: Place, message: Delayed) -> None:
        """Record the publish time of an older message again, because a crash may have lost it."""
        due_at_ms, serial = position
        if serial <= self.start_seqs.get(SHELF | partition, 0):
            self._rows[SHELF | partition].append((COMMITTED, serial, 1, message.published_at_ms, b"", b"", due_at_ms))

    def regrouped(self, group: bytes, before: Sequence[GroupCursor], after: Mapping[int, GroupCursor]) -> None:
        """Record that a group continues with other cursors, by partition, or was deleted."""
        self.is_urgent = True
        kind, actor = Kind.SOUGHT if after else Kind.GROUP_DELETED, bytes(CURRENT_ACTOR.get())
        # There may be thousands of cursors.
        numbers, end_seqs = [*map(_partition, before)], [*map(_tail_seq, before)]
        next_seqs = view.positions([*after.values()])
        rows, now_ms = self._rows[GROUPS], self.now_ms()
        for number, first_seq, end_seq in zip(numbers, view.head_seqs(before), end_seqs, strict=True):
            next_seq = next_seqs.get(number, end_seq)
            if (lower_seq := min(first_seq, next_seq)) < end_seq:
                rows.append((kind, number, 1, now_ms, group, Regrouping(lower_seq, end_seq, next_seq, actor), 0))

    def commit(
        self,
        batch: dict[bytes, bytes | None],
        appended: Iterable[tuple[object, Partition, list[Chunk], object]],
        now_ms: int,
    ) -> None:
        """Record the messages of the commit that is made at `now_ms`; add urgent events to the commit."""
        for _topic, partition, chunks, _delays in appended:
            rows = self._rows[partition.number]
            for chunk in chunks:
                rows.append((COMMITTED, chunk.first_seq, len(chunk.payloads), now_ms, b"", b"", 0))
            if len(rows) >= MAX_ROWS:
                self.is_urgent = True
        if self.is_urgent:
            self.cut(batch, now_ms)

    def cut(self, batch: dict[bytes, bytes | None], now_ms: int) -> None:
        """Add the unwritten events to `batch`, as of `now_ms`."""
        self.is_urgent = False
        self.oldest_ms = min(self.oldest_ms, now_ms)  # The clock may have been set back.
        serial = self._next_serial
        for partition, rows in self._rows.items():
            if not rows:
                continue
            for block, value in traces.encode_rows(rows, now_ms):
                key = trace_keys.trace(self.topic_id, partition, block, serial)
                batch[key] = value
                self.size_bytes += len(key) + len(value)
                serial += 1
            rows.clear()
        self._next_serial = serial
        if serial > self._free_serial:
            self.keep(batch)

    def keep(self, batch: dict[bytes, bytes | None]) -> None:
        """Add the size of the stored traces to a commit, and reserve the next serial numbers."""
        self._free_serial = self._next_serial + SERIALS
        state = TraceState(self.size_bytes, self._free_serial)
        batch[trace_keys.traces(self.topic_id)] = traces.encode_traces(state)


class GroupTrace:
    """Records what a group does: a `Recorder` for all its cursors, of which there may be thousands.

    With the first event of a cursor, a `CursorTrace` takes over.

    Args:
      trace: the trace of the topic.
      group: the name of the group.
    """

    __slots__ = ("_group", "_trace")

    def __init__(self, trace: TopicTrace, group: bytes) -> None:
        self._trace = trace
        self._group = group

    def note(self, cursor: GroupCursor, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Record what happened to the messages of a lease."""
        self._of(cursor).note(cursor, kind, lease, reason)

    def note_each(self, cursor: GroupCursor, kind: Kind, seqs: Iterable[int]) -> None:
        """Record the same event for messages by their sequence numbers."""
        self._of(cursor).note_each(cursor, kind, seqs)

    def delivered(self, cursor: GroupCursor, lease: Lease, receiver: SupportsBytes) -> None:
        """Record the receiver of the messages of a lease."""
        self._of(cursor).delivered(cursor, lease, receiver)

    def moved(
        self, cursor: GroupCursor, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes
    ) -> None:
        """Record the positions to which messages moved."""
        self._of(cursor).moved(cursor, kind, seqs, to, topic)

    def _of(self, cursor: GroupCursor) -> "CursorTrace":
        recorder = cursor.trace = CursorTrace(self._trace, cursor.partition, self._group)
        return recorder


class CursorTrace:
    """Records what a group does with the messages of a partition; implements `Recorder` for one cursor."""

    __slots__ = ("_group", "_noted_seq", "_now_ms", "_partition", "_rows", "_start_seq", "_trace")

    def __init__(self, trace: TopicTrace, partition: int, group: bytes) -> None:
        self._trace = trace
        self._rows = trace.rows(partition)
        self._now_ms = trace.now_ms
        self._start_seq = trace.start_seqs.get(partition, 0)
        self._noted_seq = -1  # first number of the last older chunk whose commit was recorded
        self._partition = partition
        self._group = group

    def note(self, _cursor: GroupCursor, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Record what happened to the messages of a lease."""
        self._trace.is_urgent = True
        first_seq = lease.first_seq
        # An acknowledged message was delivered, which recorded its commit.
        if first_seq < self._start_seq and kind is not ACKNOWLEDGED:
            self._note_commit(lease)
        self._rows.append((kind, first_seq, lease.count, self._now_ms(), self._group, reason, 0))

    def note_each(self, _cursor: GroupCursor, kind: Kind, seqs: Iterable[int]) -> None:
        """Record the same event for messages by their sequence numbers."""
        self._trace.is_urgent = True
        self._rows.extend((kind, seq, 1, self._now_ms(), self._group, b"", 0) for seq in seqs)

    def delivered(self, _cursor: GroupCursor, lease: Lease, receiver: SupportsBytes) -> None:
        """Record the receiver of the messages of a lease."""
        first_seq = lease.first_seq
        if first_seq < self._start_seq:
            self._note_commit(lease)
        self._rows.append((DELIVERED, first_seq, lease.count, self._now_ms(), self._group, receiver, lease.receipt))

    def _note_commit(self, lease: Lease) -> None:
        """Record the commit time of an older chunk again: a crash may have lost it, except for returned messages."""
        if isinstance(lease, ChunkLease) and (chunk := lease.progress.chunk).first_seq != self._noted_seq:
            self._noted_seq = chunk.first_seq
            self._rows.append((COMMITTED, chunk.first_seq, len(chunk.payloads), chunk.committed_at_ms, b"", b"", 0))

    def moved(
        self, _cursor: GroupCursor, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes
    ) -> None:
        """Record the positions to which messages moved."""
        self._trace.moved(kind, self._partition, seqs, to, topic, self._group)
