"""Holes: the runs of a log that all groups have finished, whose chunks are therefore deleted.

    group a   ░░░░░░░░░░[open]░░░░[open]          ░ finished: before its head, and its gaps
    group b   ░░░░[open]░░░░░░░░░░░░░░░░[open]
    holes     ░░░░              ░░

Holes are runs from start to before stop, sorted; they are not adjacent.
"""

from collections.abc import Iterable

from miniqueue.core.cursor.cursor import GroupCursor

Runs = list[tuple[int, int]]


def holes_of(cursors: Iterable[GroupCursor]) -> Runs:
    """Return the runs that all cursors have finished; there must be at least one cursor."""
    all_finished = map(_finished, cursors)
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


def _finished(cursor: GroupCursor) -> Runs:
    head_seq = cursor.head_seq
    runs = [(0, head_seq)] if head_seq else []
    for start, stop in cursor.gaps.runs():
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
