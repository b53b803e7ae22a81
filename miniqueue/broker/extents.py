"""How far a topic reached at one moment: what is published after that lies behind it, however long the work takes."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from miniqueue.broker.topic import Topic
from miniqueue.core.partition import Partition


class End(NamedTuple):
    """Behind the last message of a partition: its next sequence number, and the serial of its last delayed one."""

    seq: int
    serial: int


#: Those of all partitions that there were.
Ends: TypeAlias = Mapping[Partition | None, End]


def ends_of(topic: Topic | None) -> Ends:
    """Return how far a topic reaches now, with what is not committed yet."""
    partitions = [] if topic is None else topic.partitions.values()
    return {partition: End(partition.next_seq, partition.delays.state.serial) for partition in partitions}
