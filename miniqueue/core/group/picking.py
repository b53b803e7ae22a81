"""Leases chosen messages out of turn, wherever they wait, for callers that settle them before anything else happens.

    LOG, in an open chunk   cut out of its runs, or out of the queues of its keys
    LOG, ahead of reading   the chunk is opened, and closed again afterwards: reading comes to it later, or never
    FRONT, DELAYED, BACK    read from the store by the caller, in memory or not

The leases obey no limits of keys and groups: no consumer gets them.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import groupby

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, Lease, Range
from miniqueue.core.group import view
from miniqueue.core.keyed.reader import keyed_of
from miniqueue.core.message.message import Chunk, Record

#: Settles a lease.
Settle = Callable[[Lease], None]


def waiting_in_log(cursor: GroupCursor, chunk: Chunk, seqs: Collection[int]) -> set[int]:
    """Return those of some ascending sequence numbers whose messages wait in a chunk of the log."""
    waiting, last_seq = set[int](), max(seqs)
    for index in view.ready_in(cursor, chunk, min(seqs)):
        seq = chunk.first_seq + index
        if seq in seqs:
            waiting.add(seq)
        if seq >= last_seq:
            break
    return waiting


def settle_in_log(cursor: GroupCursor, chunk: Chunk, seqs: Iterable[int], settle: Settle) -> None:
    """Settle messages that wait in a chunk of the log, with ascending sequence numbers, run by run."""
    indexes = [seq - chunk.first_seq for seq in seqs]
    progress = cursor.open_chunks.get(chunk.first_seq)
    if progress is None:
        _settle_ahead(cursor, chunk, indexes, settle)
        return
    keyed = keyed_of(cursor)
    for start, stop in _runs(indexes):
        settle(cursor.take_out(progress, start, stop) if keyed is None else keyed.take_out(progress, start, stop))


def _settle_ahead(cursor: GroupCursor, chunk: Chunk, indexes: list[int], settle: Settle) -> None:
    """Settle messages of a chunk that reading has not reached."""
    next_seq = cursor.gaps.end_of(chunk.end_seq)
    progress = cursor.open_ahead(chunk, len(indexes))
    for start, stop in _runs(indexes):
        settle(cursor.grant(ChunkLease(cursor.next_receipt, progress, start, stop - start)))
    cursor.close_ahead(progress, next_seq)


def take_returned(cursor: GroupCursor, range_: Range, order: int, record: Record) -> Lease:
    """Lease a returned message that waits, and that was read from the store."""
    if (keyed := keyed_of(cursor)) is not None:
        keyed.drop(range_, (order,))
    return cursor.take_waiting(range_, order, record)


def _runs(indexes: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of ascending numbers, as (start, stop)."""
    numbered = groupby(enumerate(indexes), lambda pair: pair[1] - pair[0])
    runs = [[index for _, index in run] for _, run in numbered]
    return [(run[0], run[-1] + 1) for run in runs]
