"""Lanes: each priority of a partition is a partition of its own, whose number says both.

number    0               the priority that plain messages have, of partition 0
          1 << 16 | 0     high, of partition 0
          2 << 16 | 0     low
"""

from typing import Final

from miniqueue.core.publish_options import Priority

_SHIFT: Final = 16
_PARTITION: Final = (1 << _SHIFT) - 1
_PRIORITIES: Final = (Priority.NORMAL, Priority.HIGH, Priority.LOW)
_RANKS: Final = tuple(list(Priority).index(priority) for priority in _PRIORITIES)


def lane(partition: int, priority: Priority) -> int:
    """Return the number of a partition's lane."""
    return _PRIORITIES.index(priority) << _SHIFT | partition & _PARTITION


def number_of(priority: Priority) -> int:
    """Return what a priority is stored as."""
    return _PRIORITIES.index(priority)


def with_number(number: int) -> Priority:
    """Return the priority that is stored as `number`; raises IndexError when there is none."""
    return _PRIORITIES[number]


def priority_of(number: int) -> Priority:
    """Return the priority of the messages of a lane."""
    return _PRIORITIES[number >> _SHIFT]


def partition_of(number: int) -> int:
    """Return the partition whose lane this is."""
    return number & _PARTITION


def is_lane(number: int) -> bool:
    """Whether a partition can have this number."""
    return 0 <= number >> _SHIFT < len(_PRIORITIES)


def rank_of(number: int) -> tuple[int, int]:
    """Return what to sort lanes by, those that are looked at first to come first."""
    return _RANKS[number >> _SHIFT], number
