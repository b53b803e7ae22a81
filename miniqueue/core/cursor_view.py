"""What a cursor says to those who only look: which messages are leased, settled or ready, without touching any.

    log      L L s L s s L L | r r s r | r r r r …       L leased   s settled   r ready
                             read_seq

What comes before `read_seq` is never ready, and nothing behind it is leased.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.key_queue import Returned
from miniqueue.core.lease import Lease, Range
from miniqueue.core.message import Chunk, Record


def leases(cursor: GroupCursor) -> list[Lease]:
    """Return every lease, in no order that matters."""
    return list(cursor._leases.values())


def is_leased(cursor: GroupCursor, seq: int) -> bool:
    """Whether somebody holds the message with a sequence number; looks through all leases."""
    return any(lease.first_seq <= seq < lease.first_seq + lease.count for lease in cursor._leases.values())


def head_seq(cursor: GroupCursor) -> int:
    """Return where the first chunk begins that is not finished, and `read_seq` when all are that were handed out."""
    return next(iter(cursor._open), cursor.read_seq)


def position(cursor: GroupCursor) -> int:
    """Return the sequence number of the first message of the log that is not settled, leased or not."""
    if cursor._open:
        first_seq, progress = next(iter(cursor._open.items()))
        settled = progress.settled
    else:
        first_seq, settled = cursor.read_seq, cursor._bitmaps.get(cursor.read_seq, 0)
    return first_seq + (~settled & (settled + 1)).bit_length() - 1


def lease_count(cursor: GroupCursor) -> int:
    """Return how many leases there are; one may be of many messages."""
    return len(cursor._leases)


def ready_seq(cursor: GroupCursor) -> int:
    """Return a sequence number before which nothing of the log waits."""
    return cursor.read_seq if cursor.keyed is None else cursor.keyed.ahead.ready_seq


def ready_in(cursor: GroupCursor, chunk: Chunk, start_seq: int) -> Iterable[int]:
    """Return the indexes of the messages of a chunk from `start_seq` on that nobody was handed and that wait there.

    The chunk may be finished: another group needs it, or the topic retains it.
    """
    if cursor.has_finished(chunk.first_seq):
        return ()
    progress = cursor._open.get(chunk.first_seq)
    settled = cursor._bitmaps.get(chunk.first_seq, 0) if progress is None else progress.settled
    if cursor.keyed is not None and (unready := cursor.keyed.ahead.unready(chunk.first_seq)) is not None:
        settled = unready
    start = max(start_seq, ready_seq(cursor), chunk.first_seq) - chunk.first_seq
    return (index for index in range(start, len(chunk.payloads)) if not settled >> index & 1)


def is_waiting(cursor: GroupCursor, place: Range, order: int) -> bool:
    """Whether a record that the store has still waits there: it may be leased, or be gone with the next commit."""
    is_gone = cursor.changes.records.get((place, order), True) is None
    return not is_gone and order not in cursor.returned[place].taken


def is_empty(cursor: GroupCursor, place: Range) -> bool:
    """Whether nothing came back to `place`, leased or not; False where that must be looked up in the store."""
    window = cursor.returned[place]
    is_known = cursor.keyed is not None and cursor.keyed.returns.is_any(place)
    return window.head is None and not window.taken and not is_known


def oldest_open_chunk(cursor: GroupCursor) -> Chunk | None:
    """Return the first chunk of the log that is not finished, if it is in memory."""
    if cursor._open:
        return next(iter(cursor._open.values())).chunk
    return cursor.log.first


def may_have_next(cursor: GroupCursor, horizon_ms: int) -> bool:
    """Whether the next `take` may hand something out; some of the log may turn out to be settled."""
    if cursor.keyed is not None:
        return cursor.depth > cursor.leased_count
    return cursor._place_of_next(horizon_ms) is not Range.LOG or cursor.read_seq < min(cursor.tail_seq, cursor.log.stop)


def is_log_settled(cursor: GroupCursor, end_seq: int) -> bool:
    """Whether every message of the log before `end_seq`, where a chunk begins, is done with or came back."""
    return next(iter(cursor._open), cursor.read_seq) >= end_seq


def is_known(cursor: GroupCursor, places: Sequence[Range]) -> bool:
    """Whether all that came back to these places is in memory."""
    return all(cursor.returned[place].resume_at is None for place in places)


#: A message that came back: leased again, or waiting.
CameBack = Lease | Returned | Record


def returned_before(cursor: GroupCursor, end_seq: int, places: Sequence[Range]) -> CameBack | None:
    """Return a message with a number before `end_seq` that came back and is not settled, if one is known.

    It waits in one of `places`, or is leased, wherever it waited; its log must be settled up to there.
    """
    for lease in cursor._leases.values():
        if lease.first_seq < end_seq:
            return lease
    for place in places:
        for record in cursor.returned[place]:
            if record.seq < end_seq:
                return record
    returns = () if cursor.keyed is None else cursor.keyed.returns.waiting(places)
    return next((returned for returned in returns if returned.seq < end_seq), None)


def is_there(cursor: GroupCursor, one: CameBack) -> bool:
    """Whether what `returned_before` found is there as it was; False where that is to be looked up."""
    if isinstance(one, Lease):
        return cursor._leases.get(one.receipt) is one
    return isinstance(one, Returned) and not one.is_gone


class Unsettled:
    """Which messages of the log a group has not settled, leased or not; what came back has left the log.

    As of now: it is to be made anew after every turn of the loop.
    """

    def __init__(self, cursor: GroupCursor) -> None:
        self._cursor = cursor
        self._opened, self._stored = sorted(cursor._open), sorted(cursor._bitmaps)
        self._gaps = cursor.gaps.runs()

    def __contains__(self, seq: int) -> bool:
        if (first_seq := _last_until(self._opened, seq)) is not None:
            progress = self._cursor._open[first_seq]
            if seq < progress.chunk.end_seq:
                return not progress.settled >> (seq - first_seq) & 1
        if seq < self._cursor.read_seq:
            return False
        index = bisect_right(self._gaps, (seq, sys.maxsize)) - 1
        if index >= 0 and seq < self._gaps[index][1]:
            return False
        first_seq = _last_until(self._stored, seq)
        return first_seq is None or not self._cursor._bitmaps[first_seq] >> (seq - first_seq) & 1


def _last_until(seqs: list[int], seq: int) -> int | None:
    index = bisect_right(seqs, seq) - 1
    return seqs[index] if index >= 0 else None


def settled_bits(cursor: GroupCursor) -> dict[int, int]:
    """Return the settled bits of chunks that nobody was handed, by first sequence number."""
    return dict(cursor._bitmaps)
