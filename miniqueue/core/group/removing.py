"""Removes waiting messages from any range of a cursor; leased messages stay.

    LOG                      leased in order, and dropped, run by run
    FRONT, DELAYED, BACK     read from the store by the caller, and dropped in their range, loaded or not

    LOG, else BACK, FRONT, DELAYED ──take_oldest──▶ leased ──drop──▶ deleted, because the topic is full

The cursor itself takes messages only from the head of a range, and only if they may be delivered.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from math import inf
from operator import attrgetter, is_not, or_

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkProgress, Lease, Range
from miniqueue.core.group import view
from miniqueue.core.keyed.reader import KeyedReader, keyed_of
from miniqueue.core.message.lanes import rank_of

_keyed, _reading = attrgetter("keyed"), attrgetter("reading")


def take_log(cursor: GroupCursor, stop_seq: int, latest_ms: float) -> Lease | None:
    """Lease the next run of the log that begins before `stop_seq`, in a chunk that was committed by `latest_ms`.

    Returns None if there is none, or if it must be loaded first; then `blocked_on` is set.
    """
    cursor.blocked_on = None
    progress = next_in_log(cursor)
    if progress is None or progress.chunk.committed_at_ms > latest_ms:
        return None
    max_count = stop_seq - progress.chunk.first_seq - progress.runs[-1][0]
    return take_from(cursor, progress, max_count) if max_count > 0 else None


def take_oldest(cursor: GroupCursor, count: int, size_bytes: int, max_count: int) -> Lease | None:
    """Lease waiting messages in order to drop them: at least `count` and `size_bytes`, or the first part of that.

    Leases at most `max_count` messages. Messages of the log come first; returned messages follow only if no other
    message waits. Returns None as `take` does.
    """
    cursor.blocked_on = None
    progress = next_in_log(cursor)
    if progress is not None:
        return take_from(cursor, progress, min(max_count, max(count, progress.count_of(size_bytes))))
    if (keyed := keyed_of(cursor)) is not None:
        return None if cursor.blocked_on is not None else keyed.oldest_returned()
    for range_ in (Range.BACK, Range.FRONT, Range.DELAYED) if cursor.blocked_on is None else ():
        if cursor.returned[range_].head is not None:
            return cursor.take_record(range_)
    return None


def oldest_first(cursors: Iterable[GroupCursor]) -> list[GroupCursor]:
    """Return the cursors of a group in the order in which messages are dropped from them.

    The lowest priority comes first, then the oldest first chunk. A chunk that is not loaded counts as old; a cursor
    without waiting messages in the log comes last.
    """
    return sorted(cursors, key=lambda cursor: (-rank_of(cursor.partition)[0], _first_at_ms(cursor)))


def _first_at_ms(cursor: GroupCursor) -> float:
    if cursor.log.is_lacking:
        return 0
    chunk = view.oldest_open_chunk(cursor)
    return inf if chunk is None else chunk.committed_at_ms


def next_in_log(cursor: GroupCursor) -> ChunkProgress | None:
    """Open the chunk with the oldest waiting message of the log, and return it; its last run begins there.

    Returns None if there is none, or if it must be loaded first; then `blocked_on` is set. Includes messages that are
    held back: the caller must call `hold_back` before a consumer takes messages.
    """
    stop, cursor.log.stop = cursor.log.stop, inf
    try:
        return cursor.next_in_log() if (keyed := keyed_of(cursor)) is None else keyed.oldest()
    finally:
        cursor.log.stop = stop


def take_from(cursor: GroupCursor, progress: ChunkProgress, max_count: int) -> Lease:
    """Lease the first messages, at most `max_count`, of the run that `next_in_log` has returned."""
    keyed = keyed_of(cursor)
    return cursor.take_from(progress, max_count) if keyed is None else keyed.withdraw(progress, max_count)


def hold_back(cursor: GroupCursor) -> None:
    """Close the chunks that `next_in_log` has opened after the stop, if none of their messages was taken."""
    stop, progress = cursor.log.stop, cursor.reading
    if stop == inf:
        return
    if (keyed := keyed_of(cursor)) is not None:
        keyed.ahead.close(stop)
    elif progress is not None and progress.runs and progress.chunk.first_seq >= stop:
        first_seq = progress.chunk.first_seq
        is_used = progress.unsettled_count != sum(end - start for start, end in progress.runs)
        if not is_used and first_seq not in cursor.changes.touched:
            cursor.close_chunks([first_seq])


def hold_back_all(cursors: Sequence[GroupCursor]) -> None:
    """Do what `hold_back` does with many cursors, of which few have opened anything."""
    have_reader = map(isinstance, map(_keyed, cursors), repeat(KeyedReader))
    for cursor in compress(cursors, map(or_, have_reader, map(is_not, map(_reading, cursors), repeat(None)))):
        hold_back(cursor)


def drop_records(cursor: GroupCursor, range_: Range, stored: Iterable[tuple[int, int, bytes, bytes]]) -> int:
    """Drop the records of a range that still wait; return their number.

    Args:
      cursor: the cursor.
      range_: the range.
      stored: records that were read from the store: their order, sequence number, payload, and attributes.
    """
    waiting = [record for record in stored if view.is_waiting(cursor, range_, record[0])]
    sizes = {order: len(payload) + len(attributes) for order, _, payload, attributes in waiting}
    cursor.drop_waiting(range_, sizes)
    if (keyed := keyed_of(cursor)) is not None:
        keyed.drop(range_, sizes.keys())
    for _, seq, _, attributes in waiting:
        cursor.free_unique_keys(seq, [attributes])
    return len(waiting)
