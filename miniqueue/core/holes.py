"""What all groups of a partition have finished: there the log has holes, as its chunks are deleted.

    group a   ░░░░░░░░░░[open]░░░░[open]          ░ finished: in front of its head, and its gaps
    group b   ░░░░[open]░░░░░░░░░░░░░░░░[open]
    holes     ░░░░              ░░

Holes are runs from start to before stop, which do not touch, the first one first.
"""

from collections.abc import Iterable
from functools import reduce

from miniqueue.core.cursor import GroupCursor

Runs = list[tuple[int, int]]


def holes_of(cursors: Iterable[GroupCursor]) -> Runs:
    """Return what all of them have finished; there must be one."""
    return reduce(_both, map(_finished, cursors))


def without(runs: Runs, others: Runs) -> Runs:
    """Return what is in `runs`, but not in `others`."""
    left = []
    for start, stop in runs:
        seq = start
        for other_start, other_stop in others:
            if max(seq, other_start) < min(stop, other_stop):
                if seq < other_start:
                    left.append((seq, other_start))
                seq = other_stop
        if seq < stop:
            left.append((seq, stop))
    return left


def _finished(cursor: GroupCursor) -> Runs:
    head_seq = cursor.state.head_seq
    runs = [(0, head_seq)] if head_seq else []
    for start, stop in cursor.gaps.runs():
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(stop, runs[-1][1])
        else:
            runs.append((start, stop))
    return runs


def _both(runs: Runs, others: Runs) -> Runs:
    """Return what is in both."""
    common, index = [], 0
    for start, stop in runs:
        while index < len(others) and others[index][1] <= start:
            index += 1
        following = index
        while following < len(others) and others[following][0] < stop:
            common.append((max(start, others[following][0]), min(stop, others[following][1])))
            following += 1
    return common
