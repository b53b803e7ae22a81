"""Where one group stands in one partition: what it has been handed, what came back, what comes next.

A message waits in one of four ranges (`lease.Range`). Taking looks at them in this order:

    FRONT      order counts down from FRONT_START, so that the newest return comes first
    DELAYED    due_at_ms · 2⁶⁴ + serial, eligible up to the horizon, the time of the last tick
    BACK       tail_seq · 2⁶⁴ + serial, eligible when reading has passed tail_seq
    LOG        first_seq of a chunk

    LOG ──take──▶ leased ──ack──▶ settled
     FRONT ─┐     │ nack ─────────────▶ FRONT         what comes back leaves its place: a record
     DELAYED├take▶│ dack ─────────────▶ DELAYED       of its own in the new one, the old one
     BACK ──┘     │ back ─────────────▶ BACK          settled, in one commit
                  └ restart ──▶ where it was

What comes back does so by `returning`. Nothing here waits: when the next message is not in memory, `take` returns
None and `blocked_on` names the range to load. What the next commit must write is collected in `changes`.
"""

from typing import TYPE_CHECKING

from miniqueue.core.changes import Changes
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.due_count import DueCount
from miniqueue.core.gaps import Gaps
from miniqueue.core.lease import BACK, DELAYED, FRONT, LOG, ChunkLease, ChunkProgress, Lease, Range, RecordLease
from miniqueue.core.message import Chunk, Record
from miniqueue.core.return_policy import ReturnPolicy
from miniqueue.core.tracing import ACKNOWLEDGED, Kind, Recorder
from miniqueue.core.window import Window
from miniqueue.errors import NothingOutstandingError

if TYPE_CHECKING:
    from miniqueue.core.keyed import KeyedReader
    from miniqueue.core.unique_keys import UniqueKeys

FRONT_START = 1 << 127
LOG_WINDOW_BYTES = 8 << 20
RECORD_WINDOW_BYTES = 1 << 20


class GroupCursor:
    """One group in one partition.

    Args:
      state: as it was last committed.
      tail_seq: the sequence number after the last committed message.
      bitmaps: first_seq to settled bits of the chunks that were partly settled.
      gaps: start to stop of what was finished behind a chunk that was not.
      is_new: nothing is stored for the partition yet, so nothing need be loaded.
      partition, group: the numbers of both, as the store has them.
    """

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
        self.returned: dict[Range, Window[Record]] = {
            place: Window(max_bytes=RECORD_WINDOW_BYTES, resume_at=None if is_new else 0)
            for place in (Range.FRONT, Range.DELAYED, Range.BACK)
        }
        self._windows = tuple(self.returned.values())
        self.gaps = Gaps(gaps or {})
        self.tail_seq, self.read_seq = tail_seq, state.head_seq
        self.tail_bytes, self.gone_bytes = state.log_bytes or 0, state.gone_bytes or 0
        self.acked_count, self.dropped_count = state.acked_count, state.dropped_count
        self.moved_count, self.missed_count = state.moved_count, state.missed_count
        self.skipped_count, self.delayed_count = state.skipped_count, state.delayed_count
        self.due = DueCount()  # of the delayed ones; it begins with none, whatever is stored
        self.leased_count = self.leased_bytes = 0
        self.blocked_on: Range | None = None
        self.changes = Changes()
        self.policy: ReturnPolicy | None = None
        self.trace: Recorder | None = None  # where what happens is noted
        self.keyed: KeyedReader | None = None  # where messages are handed out by their keys
        self.unique_keys: UniqueKeys | None = None  # in the group with which messages leave their topic
        self.next_receipt = 1
        self._serial = state.serial
        self._bitmaps = bitmaps
        self._open: dict[int, ChunkProgress] = {}  # chunks handed out in part and not yet finished, oldest first
        self._reading: ChunkProgress | None = None
        self._leases: dict[int, Lease] = {}

    @property
    def state(self) -> CursorState:
        """What to persist with the next commit."""
        head_seq = next(iter(self._open), self.read_seq)
        places = self.acked_count, head_seq, self._serial, self.delayed_count
        counts = self.moved_count, self.missed_count, self.skipped_count
        return CursorState(*places, self.dropped_count, self.gone_bytes, self.tail_bytes, *counts)

    @property
    def depth(self) -> int:
        """How many messages are not acknowledged: ready, leased and delayed."""
        return self.tail_seq - self.acked_count - self.dropped_count

    @property
    def waiting_delayed_count(self) -> int:
        """How many messages wait for their time; those that are due wait no more, as far as they are counted."""
        due, taken = self.due, self.returned[DELAYED].taken
        taken_count = sum(order >= due.limit for order in taken) if due.limit else len(taken)
        return self.delayed_count - due.count - taken_count

    @property
    def size_bytes(self) -> int:
        """Roughly what the loaded messages cost in memory."""
        keyed_bytes = 0 if self.keyed is None else self.keyed.size_bytes
        return self.log.size_bytes + sum(window.size_bytes for window in self._windows) + keyed_bytes

    def has_finished(self, first_seq: int) -> bool:
        """Whether the chunk that begins at `first_seq` needs no more work in this group."""
        return first_seq not in self._open if first_seq < self.read_seq else self.gaps.covers(first_seq)

    def evict(self) -> None:
        """Drop most of what is loaded; it is loaded again when needed."""
        self.log.evict()
        for source in (*self._windows, self.keyed):
            if source is not None:
                source.evict()

    # --- handing out ------------------------------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """Take in a chunk that has just been committed."""
        self.tail_seq = chunk.end_seq
        self.tail_bytes = chunk.log_bytes
        self.log.add(chunk.first_seq, chunk)

    def take(self, max_count: int, horizon_ms: int) -> Lease | None:
        """Lease the next run of at most `max_count` messages.

        Returns None when there is none now, or when it must be loaded first: then `blocked_on` is set.
        """
        if self.keyed is not None:
            return self.keyed.take(max_count, horizon_ms)
        self.blocked_on = None
        if (place := self._place_of_next(horizon_ms)) is not LOG:
            return self._take_record(place)
        progress = self._next_in_log()
        return None if progress is None else self._take_from(progress, max_count)

    def _place_of_next(self, horizon_ms: int) -> Range:
        """Return the first range that may have a message to hand out."""
        front, delayed, back = self._windows
        if (order := front.head) is not None and order < FRONT_START:
            return FRONT
        if self.delayed_count and (order := delayed.head) is not None and order < (horizon_ms + 1) << 64:
            return DELAYED
        if (order := back.head) is not None and order < (self.read_seq + 1) << 64:
            return BACK
        return LOG

    def _take_record(self, place: Range) -> Lease | None:
        try:
            order, record = self.returned[place].take()
        except IndexError:  # the store has, or may have, what comes next
            self.blocked_on = place
            return None
        return self._grant(RecordLease(self.next_receipt, record, place, order))

    def _next_in_log(self) -> ChunkProgress | None:
        """Return the chunk that has the next message of the log, opened; None when none is loaded, or it waits."""
        while self._reading is None or not self._reading.runs:
            self._reading = self._open_next_chunk()
            if self._reading is None:
                return None
        return self._reading if self._reading.chunk.first_seq < self.log.stop else None  # it may be open since before

    def _take_from(self, progress: ChunkProgress, max_count: int) -> Lease:
        start, stop = progress.take(max_count)
        chunk = progress.chunk
        self.read_seq = chunk.first_seq + stop if progress.runs else self.gaps.end_of(chunk.end_seq)
        return self._grant(ChunkLease(self.next_receipt, progress, start, stop - start))

    def _open_next_chunk(self) -> ChunkProgress | None:
        if not self.log.has_next:
            self.blocked_on = LOG if self.log.is_lacking else None
            return None
        first_seq, chunk = self.log.take()
        progress = ChunkProgress(chunk, self._bitmaps.pop(first_seq, 0))
        self._open[first_seq] = progress
        return progress

    def _grant(self, lease: Lease) -> Lease:
        self._leases[lease.receipt] = lease
        self.next_receipt += lease.count
        self.leased_count += lease.count
        self.leased_bytes += lease.size_bytes
        return lease

    # --- settling ---------------------------------------------------------------------------------------------

    def ack(self, lease: Lease) -> None:
        """Settle the messages: they are done. As `drop`, raises NothingOutstandingError when the lease is over."""
        self._leave(lease, ACKNOWLEDGED)
        self.acked_count += lease.count
        self.gone_bytes += lease.size_bytes
        if lease.attributes is not None:
            self._free(lease.first_seq, lease.attributes)

    def drop(self, lease: Lease, kind: Kind | None = Kind.DROPPED, *, moved_count: int = 0) -> None:
        """Give the messages up, for whatever reason; `moved_count` of them are in another topic now."""
        self._leave(lease, kind)
        self.dropped_count += lease.count
        self.moved_count += moved_count
        self.gone_bytes += lease.size_bytes
        if lease.attributes is not None:
            self._free(lease.first_seq, lease.attributes)

    def revoke_all(self) -> None:
        """End every lease without touching a message, because the topic is gone or is read anew."""
        self._leases.clear()
        self.leased_count = self.leased_bytes = 0

    def _put(self, place: Range, start: int, record: Record) -> None:
        """Have a message wait in a range, behind what has been put there with the same start, or in front of it."""
        self._serial = serial = self._serial + 1
        if place is FRONT:
            order = start - serial
        else:
            order = start | serial
            if place is DELAYED:
                self.delayed_count += 1
                self.due.add(order)
        self.changes.records[place, order] = record
        self.returned[place].add(order, record)

    def _free(self, first_seq: int, gone: list[bytes]) -> None:
        """Free the unique keys of the messages from `first_seq` on, with these attributes."""
        if self.unique_keys is not None:
            self.unique_keys.free(self.partition, first_seq, gone)

    def _leave(self, lease: Lease, kind: Kind | None) -> None:
        self._revoke(lease)
        if self.trace is not None and kind is not None:  # None: who moves it notes where to
            self.trace.note(kind, lease)
        self.leased_count -= lease.count
        self.leased_bytes -= lease.size_bytes
        if isinstance(lease, ChunkLease):
            self._leave_chunk(lease.progress, lease.start, lease.count)
        elif isinstance(lease, RecordLease):
            self._leave_range(lease.place, lease.order)
        if self.keyed is not None:
            self.keyed.release(lease)

    def _revoke(self, lease: Lease) -> None:
        if self._leases.get(lease.receipt) is not lease:
            raise NothingOutstandingError
        del self._leases[lease.receipt]

    def _leave_chunk(self, progress: ChunkProgress, start: int, count: int) -> None:
        progress.settle(start, count)
        first_seq = progress.chunk.first_seq
        if progress.unsettled_count:
            self.changes.touched[first_seq] = progress
            return
        del self._open[first_seq]
        self.log.settle(first_seq)
        self.changes.touched.pop(first_seq, None)
        self.changes.finished.append(progress)
        self.changes.gaps |= self.gaps.add(first_seq, progress.chunk.end_seq, self.state.head_seq)

    def _leave_range(self, place: Range, order: int) -> None:
        self.returned[place].settle(order)
        # A record that came since the last commit is not in the store: there is nothing to delete, nor to put any more.
        if self.changes.records.pop((place, order), None) is None:
            self.changes.records[place, order] = None
        if place is DELAYED:
            self.delayed_count -= 1
            self.due.remove(order)
