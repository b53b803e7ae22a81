"""Read-only views of a cursor: which messages are leased, settled, or ready.

    log      L L s L s s L L | r r s r | r r r r …       L leased   s settled   r ready
                             read_seq

No message before `read_seq` is ready, and none after it is leased.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter, itemgetter

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease, Range, trailing_ones
from miniqueue.core.keyed.key_queue import Returned
from miniqueue.core.keyed.reader import keyed_of
from miniqueue.core.message.message import Chunk, Record

_holes = attrgetter("settled_bits", "gaps.starts")
_partition, _read_seq = attrgetter("partition"), attrgetter("read_seq")
_head = attrgetter("open_chunks", "read_seq")
_partly_read = attrgetter("open_chunks", "settled_bits")


def leases(cursor: GroupCursor) -> list[Lease]:
    """Return all leases, in no particular order."""
    return list(cursor.leases.values())


def is_leased(cursor: GroupCursor, seq: int) -> bool:
    """Whether the message with a sequence number is leased; searches all leases."""
    return any(lease.first_seq <= seq < lease.first_seq + lease.count for lease in cursor.leases.values())


def head_seq(cursor: GroupCursor) -> int:
    """Return the start of the first open chunk, or `read_seq` if no chunk is open."""
    return next(iter(cursor.open_chunks), cursor.read_seq)


def head_seqs(cursors: Iterable[GroupCursor]) -> list[int]:
    """Return what `head_seq` returns for each of many cursors, of which there may be thousands."""
    both = [*map(_head, cursors)]
    return [*map(next, map(iter, map(itemgetter(0), both)), map(itemgetter(1), both))]


def position(cursor: GroupCursor) -> int:
    """Return the sequence number of the first message of the log that is not settled, leased or not."""
    if cursor.open_chunks:
        first_seq, progress = next(iter(cursor.open_chunks.items()))
        settled = progress.settled
    else:
        first_seq, settled = cursor.read_seq, cursor.settled_bits.get(cursor.read_seq, 0)
    return first_seq + trailing_ones(settled)


def positions(cursors: Sequence[GroupCursor]) -> dict[int, int]:
    """Return the position of each of many cursors, by partition; runs no line of Python for one that is not at work."""
    read_seqs = dict(zip(map(_partition, cursors), map(_read_seq, cursors), strict=True))
    partly_read = compress(cursors, map(any, map(_partly_read, cursors)))
    return read_seqs | {cursor.partition: position(cursor) for cursor in partly_read}


def ready_seq(cursor: GroupCursor) -> int:
    """Return a sequence number before which no message of the log waits."""
    return cursor.read_seq if (keyed := keyed_of(cursor)) is None else keyed.ahead.ready_seq


def ready_in(cursor: GroupCursor, chunk: Chunk, start_seq: int) -> Iterable[int]:
    """Return the indexes of the messages of a chunk from `start_seq` on that wait and were never leased.

    The chunk may be finished, if another group needs it or the topic retains it.
    """
    if cursor.has_finished(chunk.first_seq):
        return ()
    progress = cursor.open_chunks.get(chunk.first_seq)
    settled = cursor.settled_bits.get(chunk.first_seq, 0) if progress is None else progress.settled
    if (keyed := keyed_of(cursor)) is not None and (unready := keyed.ahead.unready(chunk.first_seq)) is not None:
        settled = unready
    start = max(start_seq, ready_seq(cursor), chunk.first_seq) - chunk.first_seq
    return (index for index in range(start, len(chunk.payloads)) if not settled >> index & 1)


def is_waiting(cursor: GroupCursor, range_: Range, order: int) -> bool:
    """Whether a record of the store waits in its range: it may be leased, or the next commit may delete it."""
    is_gone = cursor.changes.records.get((range_, order), True) is None
    return not is_gone and order not in cursor.returned[range_].taken


def is_empty(cursor: GroupCursor, range_: Range) -> bool:
    """Whether a range has no message, leased or not; False also if only the store can tell."""
    window = cursor.returned[range_]
    if window.head is not None or window.taken:
        return False
    return cursor.keyed is None or (keyed := keyed_of(cursor)) is None or not keyed.returns.is_any(range_)


def is_idle(cursor: GroupCursor) -> bool:
    """Whether a cursor has no message, leased or not, and no change for the next commit: its counts are all it has."""
    changes = cursor.changes
    is_changed = changes.records or changes.touched or changes.finished or changes.gaps
    is_partly_read = cursor.open_chunks or cursor.settled_bits or cursor.gaps or cursor.read_seq < cursor.tail_seq
    return not (cursor.depth or cursor.leases or is_partly_read or is_changed)


def oldest_open_chunk(cursor: GroupCursor) -> Chunk | None:
    """Return the first unfinished chunk of the log; None if it is not in memory."""
    if cursor.open_chunks:
        return next(iter(cursor.open_chunks.values())).chunk
    return cursor.log.first


def may_have_next(cursor: GroupCursor, horizon_ms: int) -> bool:
    """Whether the next `take` may return a lease; it may not, if the rest of the log turns out to be settled."""
    if cursor.keyed is not None:
        return cursor.depth > cursor.leased_count
    return cursor.next_range(horizon_ms) is not Range.LOG or cursor.read_seq < min(cursor.tail_seq, cursor.log.stop)


def is_log_settled(cursor: GroupCursor, end_seq: int) -> bool:
    """Whether every message of the log before `end_seq`, where a chunk begins, was settled or returned."""
    return next(iter(cursor.open_chunks), cursor.read_seq) >= end_seq


def is_known(cursor: GroupCursor, ranges: Sequence[Range]) -> bool:
    """Whether all messages of these ranges are in memory."""
    return all(cursor.returned[range_].resume_at is None for range_ in ranges)


#: A returned message: leased again, or waiting.
ReturnedMessage = Lease | Returned | Record


def returned_before(cursor: GroupCursor, end_seq: int, ranges: Sequence[Range]) -> ReturnedMessage | None:
    """Return a loaded message with a number before `end_seq` that was returned and is not settled; None for none.

    The message waits in one of `ranges`, or is leased, from any range. The log must be settled up to `end_seq`.
    """
    for lease in cursor.leases.values():
        if lease.first_seq < end_seq:
            return lease
    for range_ in ranges:
        for record in cursor.returned[range_]:
            if record.seq < end_seq:
                return record
    returns = () if (keyed := keyed_of(cursor)) is None else keyed.returns.waiting(ranges)
    return next((returned for returned in returns if returned.seq < end_seq), None)


def is_there(cursor: GroupCursor, message: ReturnedMessage) -> bool:
    """Whether a result of `returned_before` is unchanged; False also if the caller must search again to know."""
    if isinstance(message, Lease):
        return cursor.leases.get(message.receipt) is message
    return isinstance(message, Returned) and not message.is_gone


class Unsettled:
    """The messages of the log that a group has not settled, leased or not; returned messages have left the log.

    Valid until the cursor changes: create it again after every turn of the event loop.
    """

    def __init__(self, cursor: GroupCursor) -> None:
        self._cursor = cursor
        self._opened, self._stored = sorted(cursor.open_chunks), sorted(cursor.settled_bits)
        self._gaps = cursor.gaps.runs()

    def __contains__(self, seq: int) -> bool:
        if (first_seq := _last_until(self._opened, seq)) is not None:
            progress = self._cursor.open_chunks[first_seq]
            if seq < progress.chunk.end_seq:
                return not progress.settled >> (seq - first_seq) & 1
        if seq < self._cursor.read_seq:
            return False
        index = bisect_right(self._gaps, (seq, sys.maxsize)) - 1
        if index >= 0 and seq < self._gaps[index][1]:
            return False
        first_seq = _last_until(self._stored, seq)
        return first_seq is None or not self._cursor.settled_bits[first_seq] >> (seq - first_seq) & 1


def _last_until(seqs: list[int], seq: int) -> int | None:
    index = bisect_right(seqs, seq) - 1
    return seqs[index] if index >= 0 else None


def settled_bits(cursor: GroupCursor) -> dict[int, int]:
    """Return the settled bits of chunks that are not open, by first sequence number."""
    return dict(cursor.settled_bits)


def with_holes(cursors: Sequence[GroupCursor]) -> list[GroupCursor]:
    """Return those of many cursors that have holes: chunks that are settled, partly or as a whole, ahead of reading."""
    return list(compress(cursors, map(any, map(_holes, cursors))))


def hole_count(cursor: GroupCursor) -> int:
    """Return the number of chunks that are partly settled and not open, and of gaps."""
    return len(cursor.settled_bits) + len(cursor.gaps)


def bitmap_bytes(cursor: GroupCursor) -> int:
    """Return the size of the settled bits of chunks that are not open."""
    return sum(map(int.bit_length, cursor.settled_bits.values())) // 8
