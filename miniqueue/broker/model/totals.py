"""Sums and selections over all partitions of a topic, without a line of Python for each: there can be a thousand."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import attrgetter

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.log.partition import Partition

_of_partition = attrgetter("appended", "delays.changes", "is_head_due")
_of_cursor = attrgetter("changes.records", "changes.touched", "changes.finished")
_windows, _keyed, _number = attrgetter("windows"), attrgetter("keyed"), attrgetter("partition")


def total(name: str, things: Iterable[object]) -> int:
    """Return the sum of an attribute over many objects."""
    result: int = sum(map(attrgetter(name), things))
    return result


def size_bytes(cursors: Sequence[GroupCursor]) -> int:
    """Return the approximate memory use of many cursors' loaded messages, like `GroupCursor.size_bytes` of one."""
    windows = chain.from_iterable(map(_windows, cursors))
    keyed_bytes: int = sum(keyed.size_bytes for keyed in filter(None, map(_keyed, cursors)))
    return total("log.size_bytes", cursors) + total("size_bytes", windows) + keyed_bytes


def changed(partitions: Mapping[int, Partition], cursors: Sequence[GroupCursor]) -> dict[int, Partition]:
    """Return the partitions of a topic of which the next commit has something to write, by number.

    Args:
      partitions: all partitions of the topic.
      cursors: the cursors of all groups.
    """
    with_changes = dict(compress(partitions.items(), map(any, map(_of_partition, partitions.values()))))
    settled = set(map(_number, compress(cursors, map(any, map(_of_cursor, cursors)))))
    return with_changes | {number: partitions[number] for number in settled}
