"""Holes: the runs of a log that all groups have finished, whose chunks are therefore deleted.

    group a   ░░░░░░░░░░[open]░░░░[open]          ░ finished: before its head, and its gaps
    group b   ░░░░[open]░░░░░░░░░░░░░░░░[open]
    holes     ░░░░              ░░

Holes are runs from start to before stop, sorted; they are not adjacent.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkProgress, Gaps

Runs = list[tuple[int, int]]

_partition = attrgetter("partition")


class Finished(NamedTuple):
    """What a group had finished in a partition when it was deleted or moved: all before its head, and its gaps."""

    gaps: Gaps
    open_chunks: Mapping[int, ChunkProgress]
    read_seq: int

    def runs(self) -> Runs:
        """Return the runs."""
        return _finished(next(iter(self.open_chunks), self.read_seq), self.gaps)


#: The same of many cursors, without running Python code for each.
_of_cursor = attrgetter(*Finished._fields)


def finished_in(cursors: Sequence[GroupCursor]) -> dict[int, Finished]:
    """Return what the cursors of a group have finished, by partition."""
    return dict(zip(map(_partition, cursors), map(Finished._make, map(_of_cursor, cursors)), strict=True))


def holes_of(cursors: Iterable[GroupCursor]) -> Runs:
    """Return the runs that all cursors have finished; there must be at least one cursor."""
    all_finished = (_finished(cursor.head_seq, cursor.gaps) for cursor in cursors)
    holes = next(all_finished)
    for finished in all_finished:
        if not holes:
            break
        holes = _both(holes, finished)
    return holes


def without(runs: Runs, others: Runs) -> Runs:
    """Return the parts of `runs` that are not in `others`."""
    remaining = []
    for start, stop in runs:
        seq = start
        for other_start, other_stop in others:
            if max(seq, other_start) < min(stop, other_stop):
                if seq < other_start:
                    remaining.append((seq, other_start))
                seq = other_stop
        if seq < stop:
            remaining.append((seq, stop))
    return remaining


def _finished(head_seq: int, gaps: Gaps) -> Runs:
    runs = [(0, head_seq)] if head_seq else []
    for start, stop in gaps.runs() if len(gaps) else ():
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(stop, runs[-1][1])
        else:
            runs.append((start, stop))
    return runs


def _both(runs: Runs, others: Runs) -> Runs:
    """Return the intersection of two lists of runs."""
    common, index = [], 0
    for start, stop in runs:
        while index < len(others) and others[index][1] <= start:
            index += 1
        following = index
        while following < len(others) and others[following][0] < stop:
            common.append((max(start, others[following][0]), min(stop, others[following][1])))
            following += 1
    return common
