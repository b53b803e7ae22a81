"""The index of the log by key: the open chunks of a cursor.

    log     s s L r L r r L │ r r r r r r … │ . . . . . .     s settled   L leased   r waiting   . in the store
            open chunks                       is_full: indexed when some of the open chunks are finished
                                              ready_seq: the first chunk with a waiting message

Chunks are indexed in the order of the log, as many as MAX_AHEAD_BYTES and MAX_INDEX_BYTES allow, and stay open until
all their messages are settled, so that the state of the cursor describes them as it does without keys.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, ChunkProgress, trailing_ones, unset_runs
from miniqueue.core.keyed.key_queue import SEQ_BYTES
from miniqueue.core.keyed.key_turns import KeyTurns
from miniqueue.core.message.attributes import key_of

#: Maximum size of indexed chunks, which are in memory: 32 chunks of the maximum size.
MAX_AHEAD_BYTES: Final = 32 << 20
#: Maximum memory use of the index without the messages; it includes the queues, so it also bounds the number of keys.
MAX_INDEX_BYTES: Final = 64 << 20
#: Number of messages to index in one turn of the event loop, about one chunk of the maximum length.
MAX_INDEXED_AT_ONCE: Final = 8192


class LogIndex:
    """The open chunks of one cursor.

    Args:
      cursor: the cursor.
      turns: the queues of the keys, to which indexed messages are added.

    Attributes:
      size_bytes: size of chunks with waiting messages; the messages of other chunks are leased, and so in memory
        anyway.
      waiting_count: number of indexed messages that wait.
    """

    __slots__ = ("_cursor", "_firsts", "_turns", "_waiting", "size_bytes", "waiting_count")

    def __init__(self, cursor: GroupCursor, turns: KeyTurns) -> None:
        self.size_bytes = self.waiting_count = 0
        self._cursor = cursor
        self._turns = turns
        self._waiting: dict[int, int] = {}  # bits by the first number of a chunk; bit i is set while message i waits
        self._firsts: list[int] = []  # first numbers of chunks, including some that are finished

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that nothing more is indexed now."""
        return self.size_bytes >= MAX_AHEAD_BYTES or self._turns.index_bytes >= MAX_INDEX_BYTES

    @property
    def ready_seq(self) -> int:
        """A sequence number before which no message of the log waits."""
        first = next((first for first, bits in self._waiting.items() if bits), None)
        return self._cursor.read_seq if first is None else first

    def unready(self, first_seq: int) -> int | None:
        """Return the bits of the messages of a chunk that do not wait; None if the chunk is not indexed."""
        bits = self._waiting.get(first_seq)
        return None if bits is None else ~bits

    def extend(self) -> bool:
        """Index more of the loaded chunks; return whether there were any."""
        cursor, indexed_count = self._cursor, 0
        while cursor.log.has_next and indexed_count < MAX_INDEXED_AT_ONCE and not self.is_full:
            progress = cursor.open_next_chunk()
            assert progress is not None  # it is loaded
            self.add(progress, progress.settled)
            indexed_count += len(progress.chunk.payloads)
        return indexed_count > 0

    def add(self, progress: ChunkProgress, unready: int) -> None:
        """Index the messages of a chunk, except those whose bits are set in `unready`."""
        chunk, count = progress.chunk, len(progress.chunk.payloads)
        waiting = ~unready & bits_of(0, count)
        self._waiting[chunk.first_seq] = waiting
        self._firsts.append(chunk.first_seq)
        self._count(waiting.bit_count())
        self.size_bytes += chunk.size_bytes if waiting else 0
        self._cursor.mark_read(progress)
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
        """Return the chunk of a waiting message."""
        return self._cursor.open_chunks[self._firsts[bisect_right(self._firsts, seq) - 1]]

    def lease(self, progress: ChunkProgress, start: int, count: int) -> ChunkLease:
        """Lease messages of a chunk, which have left the queues of their keys."""
        first_seq = progress.chunk.first_seq
        remaining = self._waiting[first_seq] & ~bits_of(start, count)
        self._waiting[first_seq] = remaining
        self._count(-count)
        if not remaining:
            self.size_bytes -= progress.chunk.size_bytes
        lease = ChunkLease(self._cursor.next_receipt, progress, start, count)
        self._cursor.grant(lease)
        return lease

    def forget(self, first_seq: int) -> None:
        """Remove a finished chunk from the index."""
        self._waiting.pop(first_seq, None)
        if len(self._firsts) > 2 * len(self._waiting) + MAX_INDEXED_AT_ONCE:
            self._firsts = list(self._waiting)

    def oldest(self) -> ChunkProgress | None:
        """Return the chunk with the oldest waiting message, whose only run begins there; None if no message waits."""
        for first_seq, bits in self._waiting.items():
            if bits:
                progress = self._cursor.open_chunks[first_seq]
                start = (bits & -bits).bit_length() - 1
                rest = bits >> start
                progress.runs = [(start, start + trailing_ones(rest))]
                return progress
        return None

    def close(self, from_seq: float = 0) -> None:
        """Return chunks to the window, from the last one down to `from_seq`, up to one with leased messages."""
        cursor = self._cursor
        closed: list[int] = []
        for first_seq, progress in reversed(cursor.open_chunks.items()):
            is_used = progress.unsettled_count != self._waiting[first_seq].bit_count()
            if first_seq < from_seq or is_used or first_seq in cursor.changes.touched:
                break
            closed.append(first_seq)
        if closed:
            self._close(closed)

    def _close(self, closed: list[int]) -> None:
        open_chunks, stop_seq = self._cursor.open_chunks, closed[-1]
        for first_seq in closed:
            self.size_bytes -= open_chunks[first_seq].chunk.size_bytes if self._waiting.pop(first_seq) else 0
        del self._firsts[bisect_left(self._firsts, stop_seq) :]
        self._count(-self._turns.cut(stop_seq))
        self._cursor.close_chunks(closed)

    def _count(self, more: int) -> None:
        self.waiting_count += more
        self._turns.index_bytes += more * SEQ_BYTES


def bits_of(start: int, count: int) -> int:
    """Return a number with `count` bits set from bit `start` on."""
    return ((1 << count) - 1) << start
