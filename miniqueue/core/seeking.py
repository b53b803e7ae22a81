"""Puts a group at another place of a log: what its cursor begins with there.

    log:    ░░░░░ [chunk] ░░hole░░ [chunk │ chunk] [chunk] …           ░ given back
            before ─────────────────▶     ▲ seq         ─▶ delivered, once more if need be

All in front of `seq` counts as settled, nothing from there on; holes behind it are gaps of the new cursor. A hole is
where chunks were deleted because every group was done with them: so the groups know them all, and no store is asked.
What a group was handed before, and what came back to it, it does not have any more.
"""

from typing import NamedTuple

from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.holes import holes_of
from miniqueue.core.message import Chunk
from miniqueue.core.partition import Partition
from miniqueue.core.retention import floor_of

#: Numbers from the first to before the second.
Run = tuple[int, int]


class Reach(NamedTuple):
    """Where groups may be put.

    Attributes:
      start_seq: the first message that there may be.
      end_seq: behind the last one that is committed.
      holes: where there are none in between, in their order.
    """

    start_seq: int
    end_seq: int
    holes: tuple[Run, ...]

    def nearest(self, seq: int) -> int:
        """Return `seq`, or the first place behind it where a group can be put; the end when it is behind that."""
        inside = min(max(seq, self.start_seq), self.end_seq)
        return next((stop for start, stop in self.holes if start <= inside < stop), inside)


class Place(NamedTuple):
    """What a cursor begins with."""

    state: CursorState
    bitmaps: dict[int, int]
    gaps: dict[int, int]


def reach_of(partition: Partition) -> Reach:
    """Return where groups may be put in a partition.

    Finished chunks that are kept make no holes. Where they are being given back, nobody is put among them.
    """
    cursors, retained = list(partition.cursors.values()), partition.retained
    floor_seq, end_seq = floor_of(cursors), max(cursor.tail_seq for cursor in cursors)
    holes = [(max(start, floor_seq), stop) for start, stop in holes_of(cursors) if stop > floor_seq]
    if retained is None:
        return Reach(floor_seq, end_seq, tuple(holes))
    if retained.stop_seq is not None:
        start_seq = min(max(floor_seq, retained.stop_seq), end_seq)
        behind = ((max(start, start_seq), stop) for start, stop in holes if stop > start_seq)
        return Reach(start_seq, end_seq, tuple(behind))
    start_seq = min(floor_seq, retained.start_seq)
    unkept = ((start, min(stop, retained.start_seq)) for start, stop in holes if start < retained.start_seq)
    return Reach(start_seq, end_seq, tuple(unkept))


def place_at(reach: Reach, seq: int, chunk: Chunk | None, hole_bytes: int, was: CursorState) -> Place:
    """Return what a cursor begins with that is put at `seq`.

    Args:
      reach: of the partition.
      seq: where `nearest` is itself.
      chunk: that holds the message; None at the end.
      hole_bytes: of the messages in the holes behind.
      was: the state of the group's cursor until now; of a new group, that of nobody.
    """
    head_seq = seq if chunk is None else chunk.first_seq
    holes = [run for run in reach.holes if run[0] >= seq]
    settled_count = seq + sum(stop - start for start, stop in holes)
    bytes_before = (was.log_bytes or 0) if chunk is None else _bytes_before(chunk, seq)
    acked_count = min(was.acked_count, settled_count)
    state = was._replace(
        acked_count=acked_count,
        head_seq=head_seq,
        delayed_count=0,
        dropped_count=settled_count - acked_count,
        gone_bytes=bytes_before + hole_bytes,
        moved_count=min(was.moved_count, settled_count - acked_count),
    )
    return Place(state, {head_seq: (1 << (seq - head_seq)) - 1} if seq > head_seq else {}, dict(holes))


def bytes_of_hole(in_front: ChunkExtent, behind: ChunkExtent | None, log_bytes: int) -> int:
    """Return how many bytes the messages had between two chunks, or between one and the end of a log of so many."""
    end_bytes = log_bytes if behind is None else behind.log_bytes - behind.content_bytes
    return end_bytes - in_front.log_bytes


def _bytes_before(chunk: Chunk, seq: int) -> int:
    """Return the bytes of all messages of the log in front of `seq`."""
    sizes = list(chunk.sizes())
    return chunk.log_bytes - sum(sizes[seq - chunk.first_seq :])
