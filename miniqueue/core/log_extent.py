"""Which messages of a partition can be read.

    log:    ░░░░░░░░░░ [chunk][chunk] … [chunk][chunk]            ░ given back
                       ▲ earliest_seq                ▲ end_seq

Nothing of it is read from the store.
"""

from typing import NamedTuple

from miniqueue.core.partition import Partition
from miniqueue.core.retention import floor_of


class LogBounds(NamedTuple):
    """Which messages of a partition can be read.

    Attributes:
      partition: its number.
      earliest_seq: no message before this one is in the store.
      end_seq: behind the last message that is committed.
    """

    partition: int
    earliest_seq: int
    end_seq: int


def bounds_of(partition: Partition) -> LogBounds:
    """Return what can be read of a partition; what some group has settled behind `earliest_seq` may be gone, too."""
    cursors, retained = partition.cursors.values(), partition.retained
    end_seq = max(cursor.tail_seq for cursor in cursors)
    floor_seq = floor_of(cursors)
    earliest_seq = floor_seq if retained is None else min(floor_seq, retained.start_seq)
    return LogBounds(partition.number, earliest_seq, end_seq)
