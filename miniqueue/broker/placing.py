"""Finds what the cursor of a group begins with at another place of a log: the few values of the store that it takes.

    seq ─▶ the chunk that holds it, and those at both ends of each hole behind ─▶ `core.seeking.place_at`

Whoever asks applies the answer in the same turn of the loop: it holds until then, and no longer.
"""

from miniqueue.broker.partition_log import PartitionLog
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.message import Chunk
from miniqueue.core.seeking import Place, Reach, bytes_of_hole, place_at, reach_of
from miniqueue.errors import CorruptionError, UnavailableError
from miniqueue.storage import records

#: How often to look anew when holes were made meanwhile.
MAX_ATTEMPTS = 20


async def place(log: PartitionLog, seq: int, cursor: GroupCursor | None) -> tuple[Place, int]:
    """Return what a cursor begins with that is put at `seq`, or at the nearest place behind it; and where that is.

    Args:
      log: of a topic that exists.
      seq: the number of the first message that is to be delivered; behind the end, the end is meant.
      cursor: of the group, as it is now; None for a new group.

    Raises:
      UnavailableError: messages were acknowledged in between all the time; try again.
      StorageError: the log cannot be read.
    """
    for _ in range(MAX_ATTEMPTS):
        reach = reach_of(log.partition)
        at_seq = reach.nearest(seq)
        if at_seq >= reach.end_seq:
            return place_at(reach, at_seq, None, 0, _state(log, cursor)), at_seq
        chunk = await _chunk_with(log, at_seq)
        hole_bytes = sum([await _bytes_of_hole(log, reach, hole) for hole in reach.holes if hole[0] >= at_seq])
        now = reach_of(log.partition)
        if now._replace(end_seq=reach.end_seq) == reach:
            return place_at(now, at_seq, chunk, hole_bytes, _state(log, cursor)), at_seq
    raise UnavailableError


def _state(log: PartitionLog, cursor: GroupCursor | None) -> CursorState:
    if cursor is not None:
        return cursor.state
    return CursorState(log_bytes=max(other.tail_bytes for other in log.partition.cursors.values()))


async def _chunk_with(log: PartitionLog, seq: int) -> Chunk:
    found = await log.before(seq)
    chunk = None if found is None else records.decode_chunk(*found)
    if chunk is None or chunk.end_seq <= seq:
        raise CorruptionError(f"topic {log.topic_id}, partition {log.partition.number}: message {seq} is missing")
    return chunk


async def _bytes_of_hole(log: PartitionLog, reach: Reach, hole: tuple[int, int]) -> int:
    in_front, behind = await log.before(hole[0] - 1), await log.before(hole[1])
    assert in_front is not None  # holes are behind something
    assert behind is not None
    log_bytes = max(cursor.tail_bytes for cursor in log.partition.cursors.values())
    last = None if hole[1] >= reach.end_seq else records.decode_extent(*behind)
    return bytes_of_hole(records.decode_extent(*in_front), last, log_bytes)
