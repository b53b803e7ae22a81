"""Removes messages that wait, wherever they do; what is leased stays.

    LOG                      taken in order, and dropped, run by run
    FRONT, DELAYED, BACK     found in the store by somebody else, and dropped where they are, loaded or not

    LOG, else BACK, FRONT, DELAYED ──take_oldest──▶ leased ──drop──▶ gone, for want of room

It is the cursor's other hand: the cursor itself gives messages only from the head of a range.
"""

from collections.abc import Iterable
from math import inf

from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lanes import rank_of
from miniqueue.core.lease import ChunkProgress, Lease, Range


def take_log(cursor: GroupCursor, stop_seq: int, latest_ms: float) -> Lease | None:
    """Lease the next run of the log that begins before `stop_seq`, in a chunk that was committed by `latest_ms`.

    Returns None when there is none, or when it must be loaded first: then `blocked_on` is set.
    """
    cursor.blocked_on = None
    progress = next_in_log(cursor)
    if progress is None or progress.chunk.committed_at_ms > latest_ms:
        return None
    max_count = stop_seq - progress.chunk.first_seq - progress.runs[-1][0]
    return take_from(cursor, progress, max_count) if max_count > 0 else None


def take_oldest(cursor: GroupCursor, count: int, size_bytes: int, max_count: int) -> Lease | None:
    """Lease waiting messages, to drop them: `count` or more with `size_bytes` or more, or the first part of that.

    There are `max_count` of them at most. Those of the log come first; what came back goes only when nothing else
    waits. Returns None as `take` does.
    """
    cursor.blocked_on = None
    progress = next_in_log(cursor)
    if progress is not None:
        return take_from(cursor, progress, min(max_count, max(count, progress.count_of(size_bytes))))
    if cursor.keyed is not None:
        return None if cursor.blocked_on is not None else cursor.keyed.oldest_returned()
    for place in (Range.BACK, Range.FRONT, Range.DELAYED) if cursor.blocked_on is None else ():
        if cursor.returned[place].head is not None:
            return cursor._take_record(place)
    return None


def oldest_first(cursors: Iterable[GroupCursor]) -> list[GroupCursor]:
    """Return cursors of a group in the order in which they are to give messages up.

    What has the lowest priority goes first, then what was committed first, by whole chunks. What must be loaded to know
    that is taken for old; where nothing waits in the log comes last.
    """
    return sorted(cursors, key=lambda cursor: (-rank_of(cursor.partition)[0], _first_at_ms(cursor)))


def _first_at_ms(cursor: GroupCursor) -> float:
    if cursor.log.is_lacking:
        return 0
    chunk = cursor_view.oldest_open_chunk(cursor)
    return inf if chunk is None else chunk.committed_at_ms


def next_in_log(cursor: GroupCursor) -> ChunkProgress | None:
    """Return the chunk with the oldest message of the log that waits, opened; its last run begins there.

    None when there is none, or none in memory: then `blocked_on` is set. What is held back is found, too: before
    anybody else takes messages, `hold_back` must be called.
    """
    stop, cursor.log.stop = cursor.log.stop, inf
    try:
        return cursor._next_in_log() if cursor.keyed is None else cursor.keyed.oldest()
    finally:
        cursor.log.stop = stop


def take_from(cursor: GroupCursor, progress: ChunkProgress, max_count: int) -> Lease:
    """Lease the first messages, at most `max_count`, of the run that `next_in_log` has found."""
    keyed = cursor.keyed
    return cursor._take_from(progress, max_count) if keyed is None else keyed.withdraw(progress, max_count)


def hold_back(cursor: GroupCursor) -> None:
    """Give back what `next_in_log` has opened of what is held back, as far as nothing of it was taken."""
    stop, progress = cursor.log.stop, cursor._reading
    if stop == inf:
        return
    if cursor.keyed is not None:
        cursor.keyed.ahead.close(stop)
    elif progress is not None and progress.runs and progress.chunk.first_seq >= stop:
        first_seq = progress.chunk.first_seq
        is_used = progress.unsettled_count != sum(end - start for start, end in progress.runs)
        if not is_used and first_seq not in cursor.changes.touched:
            del cursor._open[first_seq]
            cursor._bitmaps |= {first_seq: progress.settled} if progress.settled else {}
            cursor._reading, cursor.read_seq = None, first_seq
            cursor.log.give_back((first_seq,), first_seq)


def drop_records(cursor: GroupCursor, place: Range, stored: Iterable[tuple[int, int, bytes, bytes]]) -> int:
    """Drop those records of a range that still wait; return how many did.

    Args:
      cursor: of the group.
      place: the range.
      stored: records that the store has: their order, sequence number, payload and attributes.
    """
    found = [one for one in stored if cursor_view.is_waiting(cursor, place, one[0])]
    waiting = {order: len(payload) + len(attributes) for order, _, payload, attributes in found}
    cursor.returned[place].forget(waiting.keys())
    if cursor.keyed is not None:
        cursor.keyed.drop(place, waiting.keys())
    cursor.changes.records |= dict.fromkeys(((place, order) for order in waiting), None)
    cursor.dropped_count += len(waiting)
    cursor.gone_bytes += sum(waiting.values())
    for _, seq, _, attributes in found:
        cursor._free(seq, [attributes])
    cursor.next_receipt += len(waiting)  # as if they had been taken for it
    if place is Range.DELAYED:
        cursor.delayed_count -= len(waiting)
        for order in waiting:
            cursor.due.remove(order)
    return len(waiting)
