"""The cursor of one group in one partition: which messages are leased, returned, settled, and next.

A message waits in one of four ranges (`lease.Range`). `take` inspects them in this order:

    FRONT      order counts down from FRONT_START, so that the newest return comes first
    DELAYED    due_at_ms · 2⁶⁴ + serial, eligible up to the horizon, the time of the last tick
    BACK       tail_seq · 2⁶⁴ + serial, eligible when reading has passed tail_seq
    LOG        first_seq of a chunk

    LOG ──take──▶ leased ──ack──▶ settled
     FRONT ─┐     │ nack ─────────────▶ FRONT         a returned message leaves its range: one commit
     DELAYED├take▶│ dack ─────────────▶ DELAYED       settles the old entry and writes a record of
     BACK ──┘     │ back ─────────────▶ BACK          its own to the new range
                  └ restart ──▶ the range it was in

Module `returning` returns messages. Nothing here waits: if the next message is not in memory, `take` returns None
and `blocked_on` names the range to load. `changes` collects what the next commit must write.
"""

from miniqueue.core.cursor.due_count import DueCount
from miniqueue.core.cursor.lease import (
    BACK,
    DELAYED,
    FRONT,
    LOG,
    RETURN_RANGES,
    ChunkLease,
    ChunkProgress,
    Gaps,
    Lease,
    Range,
    RecordLease,
)
from miniqueue.core.cursor.recording import ACKNOWLEDGED, Kind, Recorder
from miniqueue.core.cursor.state import Changes, CursorState, KeyedTaking, KeyRelease, ReturnPolicy
from miniqueue.core.cursor.window import Window
from miniqueue.core.message.message import Chunk, Record
from miniqueue.errors import NothingOutstandingError

#: Orders of FRONT count down from here: the middle of the 16 bytes that a key has for an order, so they never run out.
FRONT_START = 1 << 127
#: Maximum number of messages with attributes in one lease: each of them is encoded on its own.
MAX_DESCRIBED = 100
#: Maximum size of the loaded part of the log: eight chunks of the maximum size.
LOG_WINDOW_BYTES = 8 << 20
#: Maximum size of the loaded part of each other range; a cursor has three of them.
RECORD_WINDOW_BYTES = 1 << 20


class GroupCursor:
    """The position of one group in one partition.

    Args:
      state: the state as it was last committed.
      tail_seq: the sequence number after the last committed message.
      bitmaps: the settled bits of partly settled chunks, by their first sequence number.
      gaps: finished runs after an unfinished chunk: stop by start.
      is_new: whether nothing is stored for the partition yet, so that nothing has to be loaded.
      partition, group: the numbers of both, as in the keys of the store.

    The methods of the cursor write its fields, and the other modules of `core` and `broker` only read them. The
    exceptions:

    | field           | other modules that write it                                                |
    |-----------------|----------------------------------------------------------------------------|
    | `blocked_on`    | `core.keyed.reader`, `core.keyed.returns_index`, `core.group.expired`,     |
    |                 | `core.group.removing`, which take, too; `broker.stored.load` resets it     |
    | `changes`       | `broker.stored.encode_commit`, which takes them for a commit               |
    | `is_changed`    | `broker.stored.encode_commit`, which looks whether there may be any        |
    | `keyed`         | `core.keyed.reader`: `arrange_all`, the first take, a drained reader;      |
    |                 | `core.cursor.many`, for a cursor that ends                                 |
    | `log.max_bytes` | `broker.model.topic`, which divides memory among its cursors               |
    | `log.stop`      | `core.group.growth`; `core.group.removing` lifts it while it takes         |
    | `missed_count`  | `broker.cleanup.purge`                                                     |
    | `next_receipt`  | `broker.model.topic`: a cursor continues the receipts of its predecessor   |
    | `policy`        | `broker.dead_letters.dead_letters`; `broker.consume.consumer` lifts it for |
    |                 | a return to the back that must not dead-letter or delay the message;       |
    |                 | `core.cursor.many`, for a cursor that ends                                 |
    | `reading`       | `core.keyed.reader`, which takes over the open chunks                      |
    | `tail_bytes`    | `broker.stored.opening`, for stores that do not contain it                 |
    | `trace`         | `broker.traces.tracer`; `broker.model.recording`, with the first event     |
    | `unique_keys`   | `broker.model.topic`                                                       |
    """

    __slots__ = (
        "__weakref__",
        "acked_count",
        "blocked_on",
        "changes",
        "delayed_count",
        "dropped_count",
        "due",
        "gaps",
        "gone_bytes",
        "group",
        "is_changed",
        "keyed",
        "leased_bytes",
        "leased_count",
        "leases",
        "log",
        "missed_count",
        "moved_count",
        "next_receipt",
        "open_chunks",
        "partition",
        "policy",
        "read_seq",
        "reading",
        "returned",
        "serial",
        "settled_bits",
        "skipped_count",
        "tail_bytes",
        "tail_seq",
        "trace",
        "unique_keys",
    )

    def __init__(
        self,
        state: CursorState,
        tail_seq: int,
        bitmaps: dict[int, int],
        gaps: dict[int, int] | None = None,
        *,
        is_new: bool = False,
        partition: int = 0,
        group: int = 0,
    ) -> None:
        self.partition, self.group = partition, group
        log_start = None if state.head_seq >= tail_seq else state.head_seq
        self.log: Window[Chunk] = Window(max_bytes=LOG_WINDOW_BYTES, resume_at=log_start)
        self.returned: tuple[Window[Record], ...] = tuple(  # indexed by `Range`
            Window(max_bytes=RECORD_WINDOW_BYTES, resume_at=None if is_new else 0) for _ in RETURN_RANGES
        )
        self.gaps = Gaps(gaps or {})
        self.tail_seq, self.read_seq = tail_seq, state.head_seq
        self.tail_bytes, self.gone_bytes = state.log_bytes or 0, state.gone_bytes or 0
        self.acked_count, self.dropped_count = state.acked_count, state.dropped_count
        self.moved_count, self.missed_count = state.moved_count, state.missed_count
        self.skipped_count, self.delayed_count = state.skipped_count, state.delayed_count
        self.due = DueCount()  # counts no stored message until it is extended
        self.leased_count = self.leased_bytes = 0
        self.blocked_on: Range | None = None
        self.changes = Changes()
        self.is_changed = False
        self.policy: ReturnPolicy[GroupCursor] | None = None
        self.trace: Recorder[GroupCursor] | None = None  # set while the topic is traced
        self.keyed: KeyedTaking[GroupCursor] | None = None  # set if messages are delivered by their keys
        self.unique_keys: KeyRelease | None = None  # set in the group whose settling removes messages from the topic
        self.next_receipt = 1  # 0 is no receipt
        self.serial = state.serial
        self.settled_bits = bitmaps
        self.open_chunks: dict[int, ChunkProgress] = {}  # chunks that were opened and are not finished, oldest first
        self.reading: ChunkProgress | None = None
        self.leases: dict[int, Lease] = {}

    @property
    def head_seq(self) -> int:
        """The sequence number of the first chunk that has messages left, or the end of the log."""
        return next(iter(self.open_chunks), self.read_seq)

    @property
    def state(self) -> CursorState:
        """The state that the next commit writes."""
        position = self.acked_count, self.head_seq, self.serial, self.delayed_count
        counts = self.moved_count, self.missed_count, self.skipped_count
        return CursorState(*position, self.dropped_count, self.gone_bytes, self.tail_bytes, *counts)

    @property
    def depth(self) -> int:
        """The number of messages that are not settled: ready, leased, and delayed."""
        return self.tail_seq - self.acked_count - self.dropped_count

    @property
    def waiting_delayed_count(self) -> int:
        """The number of delayed messages that are neither leased nor, as far as `due` has counted, due."""
        due, taken = self.due, self.returned[DELAYED].taken
        taken_count = sum(order >= due.limit for order in taken) if due.limit else len(taken)
        return self.delayed_count - due.count - taken_count

    @property
    def size_bytes(self) -> int:
        """The approximate memory use of the loaded messages."""
        keyed_bytes = 0 if self.keyed is None else self.keyed.size_bytes
        return self.log.size_bytes + sum(window.size_bytes for window in self.returned) + keyed_bytes

    def has_finished(self, first_seq: int) -> bool:
        """Whether the chunk that begins at `first_seq` needs no more work in this group."""
        return first_seq not in self.open_chunks if first_seq < self.read_seq else self.gaps.covers(first_seq)

    def evict(self) -> None:
        """Free most of the memory of loaded messages; they are loaded again when needed."""
        self.log.evict()
        for source in (*self.returned, self.keyed):
            if source is not None:
                source.evict()

    # --- taking -----------------------------------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """Add a chunk that has just been committed."""
        self.tail_seq = chunk.end_seq
        self.tail_bytes = chunk.log_bytes
        self.log.add(chunk.first_seq, chunk)

    def catch_up(self, tail_seq: int, tail_bytes: int) -> None:
        """Continue with a log that has grown since this cursor was made, before anything else was done with it."""
        if self.log.resume_at is None:
            self.log.resume_at = self.tail_seq
        self.tail_seq, self.tail_bytes = tail_seq, tail_bytes

    def take(self, max_count: int, horizon_ms: int) -> Lease | None:
        """Lease the next run of at most `max_count` messages.

        Returns None if no message is ready, or if the next one must be loaded first; then `blocked_on` is set.
        """
        if self.keyed is not None:
            return self.keyed.take(self, max_count, horizon_ms)
        self.blocked_on = None
        if (range_ := self.next_range(horizon_ms)) is not LOG:
            return self.take_record(range_)
        progress = self.next_in_log()
        if progress is None:
            return None
        return self.take_from(
            progress, max_count if progress.chunk.attributes is None else min(max_count, MAX_DESCRIBED)
        )

    def next_range(self, horizon_ms: int) -> Range:
        """Return the first range that may have a message to deliver."""
        front, delayed, back = self.returned
        if (order := front.head) is not None and order < FRONT_START:
            return FRONT
        if self.delayed_count and (order := delayed.head) is not None and order < (horizon_ms + 1) << 64:
            return DELAYED
        if (order := back.head) is not None and order < (self.read_seq + 1) << 64:
            return BACK
        return LOG

    def take_record(self, range_: Range) -> Lease | None:
        """Lease the next returned message of a range; return None if it must be loaded first."""
        try:
            order, record = self.returned[range_].take()
        except IndexError:  # the next message is in the store, or may be
            self.blocked_on = range_
            return None
        return self.grant(RecordLease(self.next_receipt, record, range_, order))

    def next_in_log(self) -> ChunkProgress | None:
        """Open the chunk with the next message of the log, and return it; None if it is not loaded or is held back."""
        while self.reading is None or not self.reading.runs:
            self.reading = self.open_next_chunk()
            if self.reading is None:
                return None
        # The chunk may have been opened before the stop was set.
        return self.reading if self.reading.chunk.first_seq < self.log.stop else None

    def take_from(self, progress: ChunkProgress, max_count: int) -> Lease:
        """Lease the next run of an open chunk, of at most `max_count` messages."""
        start, stop = progress.take(max_count)
        chunk = progress.chunk
        self.read_seq = chunk.first_seq + stop if progress.runs else self.gaps.end_of(chunk.end_seq)
        return self.grant(ChunkLease(self.next_receipt, progress, start, stop - start))

    def open_next_chunk(self) -> ChunkProgress | None:
        """Open the next chunk of the log, and return it; None if it is not loaded or is held back."""
        if not self.log.has_next:
            self.blocked_on = LOG if self.log.is_lacking else None
            return None
        first_seq, chunk = self.log.take()
        progress = ChunkProgress(chunk, self.settled_bits.pop(first_seq, 0))
        self.open_chunks[first_seq] = progress
        return progress

    def mark_read(self, progress: ChunkProgress) -> None:
        """Count an open chunk as read to its end: the caller delivers its messages by key."""
        progress.runs = []
        self.read_seq = self.gaps.end_of(progress.chunk.end_seq)

    def close_chunks(self, first_seqs: list[int]) -> None:
        """Return the last open chunks, the last one first, to the log; no message of them may be leased."""
        first_seq = first_seqs[-1]
        for seq in first_seqs:
            if settled := self.open_chunks.pop(seq).settled:
                self.settled_bits[seq] = settled
        self.reading, self.read_seq = None, first_seq
        self.log.give_back(first_seqs, first_seq)

    def grant(self, lease: Lease) -> Lease:
        """Add a new lease, and return it."""
        self.leases[lease.receipt] = lease
        self.next_receipt += lease.count
        self.leased_count += lease.count
        self.leased_bytes += lease.size_bytes
        return lease

    # --- out of turn: the caller settles each lease before anything else happens ------------------------------------

    def take_out(self, progress: ChunkProgress, start: int, stop: int) -> Lease:
        """Lease waiting messages, from index `start` to before `stop`, of the chunk that is being read."""
        progress.remove(start, stop)
        if not progress.runs:
            self.read_seq = self.gaps.end_of(progress.chunk.end_seq)
        return self.grant(ChunkLease(self.next_receipt, progress, start, stop - start))

    def open_ahead(self, chunk: Chunk, count: int) -> ChunkProgress:
        """Open a chunk that reading has not reached, to settle `count` of its messages; `close_ahead` must follow."""
        progress = ChunkProgress(chunk, self.settled_bits.pop(chunk.first_seq, 0))
        if self.read_seq == chunk.first_seq and progress.unsettled_count == count:
            self.read_seq = self.gaps.end_of(chunk.end_seq)
        self.open_chunks[chunk.first_seq] = progress
        return progress

    def close_ahead(self, progress: ChunkProgress, next_seq: int) -> None:
        """Close a chunk of `open_ahead`; the log continues at `next_seq` if all its messages are settled."""
        first_seq = progress.chunk.first_seq
        if self.open_chunks.pop(first_seq, None) is not None:
            self.settled_bits[first_seq] = progress.settled
        else:
            self.log.remove(first_seq, next_seq if next_seq < self.tail_seq else None)

    def reserve_front(self, count: int) -> int:
        """Reserve `count` consecutive orders of FRONT before all others there; return the first one."""
        self.serial += count
        return FRONT_START - self.serial

    def take_waiting(self, range_: Range, order: int, record: Record) -> Lease:
        """Lease a returned message that waits, in memory or not."""
        self.returned[range_].take_again(order)
        return self.grant(RecordLease(self.next_receipt, record, range_, order))

    # --- settling ---------------------------------------------------------------------------------------------

    def ack(self, lease: Lease) -> None:
        """Acknowledge the messages of a lease; raises NothingOutstandingError if it has ended."""
        self.end_lease(lease, ACKNOWLEDGED)
        self.acked_count += lease.count
        self.gone_bytes += lease.size_bytes
        if lease.attributes is not None:
            self.free_unique_keys(lease.first_seq, lease.attributes)

    def drop(self, lease: Lease, kind: Kind | None = Kind.DROPPED, *, moved_count: int = 0) -> None:
        """Drop the messages of a lease; raises NothingOutstandingError if it has ended.

        Args:
          lease: the lease.
          kind: the trace event to record; None: the caller records another one.
          moved_count: the number of messages among them that were moved to another topic.
        """
        self.end_lease(lease, kind)
        self.dropped_count += lease.count
        self.moved_count += moved_count
        self.gone_bytes += lease.size_bytes
        if lease.attributes is not None:
            self.free_unique_keys(lease.first_seq, lease.attributes)

    def skip(self, lease: Lease) -> None:
        """Drop the messages of a lease as if the log had never contained them: they are for another group."""
        self.skipped_count += lease.count
        self.drop(lease, None)

    def drop_waiting(self, range_: Range, sizes: dict[int, int]) -> None:
        """Drop returned messages that wait; `sizes` are the sizes of their contents by their orders in the range."""
        self.returned[range_].forget(sizes.keys())
        self.is_changed = True
        self.changes.records |= dict.fromkeys(((range_, order) for order in sizes), None)
        self.dropped_count += len(sizes)
        self.gone_bytes += sum(sizes.values())
        self.next_receipt += len(sizes)  # the receipts that leasing and dropping them would use
        if range_ is DELAYED:
            self.delayed_count -= len(sizes)
            for order in sizes:
                self.due.remove(order)

    def count_dead_lettered(self, record: Record) -> None:
        """Count a message that became a dead letter when it was returned; `end_lease` has ended its lease."""
        self.serial += 1  # so that it counts as a return
        self.dropped_count += 1
        self.moved_count += 1
        self.gone_bytes += record.content_bytes
        self.free_unique_keys(record.seq, [record.attributes])

    def revoke_all(self) -> None:
        """End every lease and leave the messages as they are: the topic was deleted, or is read again."""
        self.leases.clear()
        self.leased_count = self.leased_bytes = 0
        self.keyed = self.policy = None  # they refer to the cursor, and to its topic

    def put(self, range_: Range, start: int, record: Record) -> None:
        """Add a returned message to a range, after those with the same `start`; in FRONT before them."""
        self.serial = serial = self.serial + 1
        if range_ is FRONT:
            order = start - serial
        else:
            order = start | serial
            if range_ is DELAYED:
                self.delayed_count += 1
                self.due.add(order)
        self.is_changed = True
        self.changes.records[range_, order] = record
        self.returned[range_].add(order, record)

    def free_unique_keys(self, first_seq: int, attributes: list[bytes]) -> None:
        """Free the unique keys of the messages from `first_seq` on, with these encoded attributes."""
        if self.unique_keys is not None:
            self.unique_keys.free(self.partition, first_seq, attributes)

    def end_lease(self, lease: Lease, kind: Kind | None, reason: bytes = b"") -> None:
        """End a lease whose messages leave their range; raises NothingOutstandingError if it has ended.

        `kind` is the trace event to record, with its `reason`; None: the caller records one, for example with the topic
        of a move.
        """
        self.revoke(lease)
        if self.trace is not None and kind is not None:
            self.trace.note(self, kind, lease, reason)
        self.leased_count -= lease.count
        self.leased_bytes -= lease.size_bytes
        if isinstance(lease, ChunkLease):
            self._settle_in_chunk(lease.progress, lease.start, lease.count)
        elif isinstance(lease, RecordLease):
            self._settle_in_range(lease.range_, lease.order)
        if self.keyed is not None:
            self.keyed.release(lease)

    def revoke(self, lease: Lease) -> None:
        """Remove a lease and leave its messages in their range; raises NothingOutstandingError if it has ended."""
        if self.leases.get(lease.receipt) is not lease:
            raise NothingOutstandingError
        del self.leases[lease.receipt]

    def replace_lease(self, lease: Lease, parts: list[Lease]) -> None:
        """Replace a lease by the parts it was cut into; raises NothingOutstandingError if it has ended."""
        self.revoke(lease)
        self.leases |= {part.receipt: part for part in parts}

    def _settle_in_chunk(self, progress: ChunkProgress, start: int, count: int) -> None:
        progress.settle(start, count)
        self.is_changed = True
        first_seq = progress.chunk.first_seq
        if progress.unsettled_count:
            self.changes.touched[first_seq] = progress
            return
        del self.open_chunks[first_seq]
        self.log.settle(first_seq)
        self.changes.touched.pop(first_seq, None)
        self.changes.finished.append(progress)
        self.changes.gaps |= self.gaps.add(first_seq, progress.chunk.end_seq, self.head_seq)

    def _settle_in_range(self, range_: Range, order: int) -> None:
        self.returned[range_].settle(order)
        self.is_changed = True
        # A record that was added after the last commit is not in the store: the commit neither writes nor deletes it.
        if self.changes.records.pop((range_, order), None) is None:
            self.changes.records[range_, order] = None
        if range_ is DELAYED:
            self.delayed_count -= 1
            self.due.remove(order)
