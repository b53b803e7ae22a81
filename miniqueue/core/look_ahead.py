"""What is known of the log, by key: the part behind what is settled that is in memory.

    log     s s L r L r r L │ r r r r r r … │ . . . . . .     s settled   L leased   r waiting   . in the store
            chunks that are open              is_full: looked at when some of the others are finished
                                              ready_seq: the first chunk with anything that waits

Chunks are looked at in the order of the log, as many as MAX_AHEAD_BYTES and MAX_INDEX_BYTES allow, and stay open
until all their messages are settled, so that the cursor's state covers them as it does those of plain reading.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from miniqueue.core.attributes import key_of
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.key_queue import SEQ_BYTES
from miniqueue.core.lease import ChunkLease, ChunkProgress, unset_runs
from miniqueue.core.turns import Turns

#: So much of the log is looked at ahead of what is settled; it is in memory.
MAX_AHEAD_BYTES: Final = 32 << 20
#: So much memory what is known of messages may take, beside them.
MAX_INDEX_BYTES: Final = 64 << 20
#: So many messages are looked at in one turn of the loop.
MAX_LOOKED_AT: Final = 8192


class LookAhead:
    """The open chunks of one cursor.

    Args:
      cursor: whose log this is.
      turns: where the messages wait, by key.

    Attributes:
      size_bytes: of chunks with messages that wait; who holds the messages of others has them in memory anyway.
      waiting_count: messages that are known and wait.
    """

    __slots__ = ("_cursor", "_firsts", "_turns", "_waiting", "size_bytes", "waiting_count")

    def __init__(self, cursor: GroupCursor, turns: Turns) -> None:
        self.size_bytes = self.waiting_count = 0
        self._cursor = cursor
        self._turns = turns
        self._waiting: dict[int, int] = {}  # by chunk: bit i is set while message i waits
        self._firsts: list[int] = []  # of chunks, also of some that are finished

    @property
    def is_full(self) -> bool:
        """Whether no more is looked at for now."""
        return self.size_bytes >= MAX_AHEAD_BYTES or self._turns.index_bytes >= MAX_INDEX_BYTES

    @property
    def ready_seq(self) -> int:
        """Before this one nothing of the log waits."""
        first = next((first for first, bits in self._waiting.items() if bits), None)
        return self._cursor.read_seq if first is None else first

    def unready(self, first_seq: int) -> int | None:
        """Return bits of those messages of a chunk that do not wait; None when it is not known."""
        bits = self._waiting.get(first_seq)
        return None if bits is None else ~bits

    def look(self) -> bool:
        """Know some more of what is loaded; return whether there was any."""
        cursor, looked_at = self._cursor, 0
        while cursor.log.has_next and looked_at < MAX_LOOKED_AT and not self.is_full:
            progress = cursor._open_next_chunk()
            assert progress is not None  # it is loaded
            self.know(progress, progress.settled)
            looked_at += len(progress.chunk.payloads)
        return looked_at > 0

    def know(self, progress: ChunkProgress, unready: int) -> None:
        """Have the messages of a chunk wait with their keys, but for those whose bits are set in `unready`."""
        chunk, count = progress.chunk, len(progress.chunk.payloads)
        waiting = ~unready & bits_of(0, count)
        self._waiting[chunk.first_seq] = waiting
        self._firsts.append(chunk.first_seq)
        self._count(waiting.bit_count())
        self.size_bytes += chunk.size_bytes if waiting else 0
        progress.runs = []
        self._cursor.read_seq = self._cursor.gaps.end_of(chunk.end_seq)
        for start, stop in reversed(unset_runs(unready & bits_of(0, count), count)):
            extras = None if chunk.attributes is None else chunk.attributes[start:stop]
            self._line_up(range(chunk.first_seq + start, chunk.first_seq + stop), extras)

    def _line_up(self, seqs: range, extras: list[bytes] | None) -> None:
        turns = self._turns
        if extras is None:
            queue = turns.queue(b"")
            queue.extend(seqs)
            turns.enlist(queue)
            return
        for seq, extra in zip(seqs, extras, strict=True):
            queue = turns.queue(key_of(extra))
            queue.append(seq)
            if not queue.is_listed:
                turns.enlist(queue)

    def chunk_of(self, seq: int) -> ChunkProgress:
        """Return the chunk of a message that waits."""
        return self._cursor._open[self._firsts[bisect_right(self._firsts, seq) - 1]]

    def lease(self, progress: ChunkProgress, start: int, count: int) -> ChunkLease:
        """Lease messages of a chunk, which wait with their keys no more."""
        first_seq = progress.chunk.first_seq
        left = self._waiting[first_seq] & ~bits_of(start, count)
        self._waiting[first_seq] = left
        self._count(-count)
        if not left:
            self.size_bytes -= progress.chunk.size_bytes
        lease = ChunkLease(self._cursor.next_receipt, progress, start, count)
        self._cursor._grant(lease)
        return lease

    def forget(self, first_seq: int) -> None:
        """Know nothing more of a chunk that is finished."""
        self._waiting.pop(first_seq, None)
        if len(self._firsts) > 2 * len(self._waiting) + MAX_LOOKED_AT:
            self._firsts = list(self._waiting)

    def oldest(self) -> ChunkProgress | None:
        """Return the chunk with the oldest message that waits, whose only run begins there."""
        for first_seq, bits in self._waiting.items():
            if bits:
                progress = self._cursor._open[first_seq]
                start = (bits & -bits).bit_length() - 1
                rest = bits >> start
                progress.runs = [(start, start + (~rest & (rest + 1)).bit_length() - 1)]
                return progress
        return None

    def close(self, from_seq: float = 0) -> None:
        """Give back chunks from the end of the log, down to `from_seq`, as far as none of their messages is leased."""
        cursor = self._cursor
        closed: list[int] = []
        for first_seq, progress in reversed(cursor._open.items()):
            is_used = progress.unsettled_count != self._waiting[first_seq].bit_count()
            if first_seq < from_seq or is_used or first_seq in cursor.changes.touched:
                break
            closed.append(first_seq)
        if closed:
            self._close(closed)

    def _close(self, closed: list[int]) -> None:
        cursor, stop_seq = self._cursor, closed[-1]
        for first_seq in closed:
            progress = cursor._open.pop(first_seq)
            if progress.settled:
                cursor._bitmaps[first_seq] = progress.settled
            self.size_bytes -= progress.chunk.size_bytes if self._waiting.pop(first_seq) else 0
        del self._firsts[bisect_left(self._firsts, stop_seq) :]
        self._count(-self._turns.cut(stop_seq))
        cursor.read_seq = stop_seq
        cursor.log.give_back(closed, stop_seq)

    def _count(self, more: int) -> None:
        self.waiting_count += more
        self._turns.index_bytes += more * SEQ_BYTES


def bits_of(start: int, count: int) -> int:
    """Return a number with `count` bits set from bit `start` on."""
    return ((1 << count) - 1) << start
