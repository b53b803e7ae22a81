"""Sums and choices over all partitions of a topic: there may be a thousand, and no line of Python runs for each."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import attrgetter

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.partition import Partition

_of_partition = attrgetter("_appended", "delays.changes", "is_head_due")
_of_cursor = attrgetter("changes.records", "changes.touched", "changes.finished")
_windows, _keyed, _number = attrgetter("_windows"), attrgetter("keyed"), attrgetter("partition")


def total(name: str, things: Iterable[object]) -> int:
    """Return the sum of one attribute of many."""
    found: int = sum(map(attrgetter(name), things))
    return found


def size_bytes(cursors: Sequence[GroupCursor]) -> int:
    """Return roughly what the loaded messages of many cursors cost in memory, as `GroupCursor.size_bytes` of one."""
    windows = chain.from_iterable(map(_windows, cursors))
    keyed_bytes: int = sum(keyed.size_bytes for keyed in filter(None, map(_keyed, cursors)))
    return total("log.size_bytes", cursors) + total("size_bytes", windows) + keyed_bytes


def changed(partitions: Mapping[int, Partition], cursors: Sequence[GroupCursor]) -> dict[int, Partition]:
    """Return those partitions of a topic of which the next commit has something to write, by number.

    Args:
      partitions: all of them.
      cursors: of all groups.
    """
    found = dict(compress(partitions.items(), map(any, map(_of_partition, partitions.values()))))
    settled = set(map(_number, compress(cursors, map(any, map(_of_cursor, cursors)))))
    return found | {number: partitions[number] for number in settled}
