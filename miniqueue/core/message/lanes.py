"""Lanes: each priority of a partition is a partition of its own; its number contains the priority and the partition.

    number    0               normal priority, which messages have by default, of partition 0
              1 << 16 | 0     high priority, of partition 0
              2 << 16 | 0     low priority, of partition 0

The normal priority is 0, so the numbers of stores and topics without priorities are those of the partitions.
"""

from enum import StrEnum
from typing import Final


class Priority(StrEnum):
    """The priorities of messages, in the order of delivery."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


_SHIFT: Final = 16
#: Numbers of lanes below it are those of partitions: their priority is normal.
FIRST_OTHER_LANE: Final = 1 << _SHIFT
_PARTITION: Final = (1 << _SHIFT) - 1
_PRIORITIES: Final = (Priority.NORMAL, Priority.HIGH, Priority.LOW)
_RANKS: Final = tuple(list(Priority).index(priority) for priority in _PRIORITIES)


def lane(partition: int, priority: Priority) -> int:
    """Return the number of the lane of a partition and a priority."""
    return _PRIORITIES.index(priority) << _SHIFT | partition & _PARTITION


#: The numbers of the lanes of each priority, in the order of delivery.
RANGES: Final = tuple(range(lane(0, each), lane(0, each) + FIRST_OTHER_LANE) for each in Priority)


def number_of(priority: Priority) -> int:
    """Return the stored number of a priority."""
    return _PRIORITIES.index(priority)


def with_number(number: int) -> Priority:
    """Return the priority with a stored number; raises IndexError if there is none."""
    return _PRIORITIES[number]


def priority_of(number: int) -> Priority:
    """Return the priority of the messages of a lane."""
    return _PRIORITIES[number >> _SHIFT]


def partition_of(number: int) -> int:
    """Return the partition of a lane."""
    return number & _PARTITION


def is_lane(number: int) -> bool:
    """Whether `number` is a possible number of a lane."""
    return 0 <= number >> _SHIFT < len(_PRIORITIES)


def rank_of(number: int) -> tuple[int, int]:
    """Return the sort key of a lane: higher priorities first, then lower numbers."""
    return _RANKS[number >> _SHIFT], number
