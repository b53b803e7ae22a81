"""Keys of schedules; `keys` has their grammar.

When a schedule is due next is kept apart from what it does: the first is read at every start, and written with every
message, the other is read when it is due.
"""

from miniqueue.storage.keys import KeyRange, Space

_TICK, _SCHEDULE = bytes([Space.TICK]), bytes([Space.SCHEDULE])


def tick(name: bytes) -> bytes:
    """Key of when a schedule is due next."""
    return _TICK + name


def schedule(name: bytes) -> bytes:
    """Key of what a schedule does."""
    return _SCHEDULE + name


def name_of(key: bytes) -> bytes:
    """Parse `tick` or `schedule`."""
    return key[1:]


def ticks() -> KeyRange:
    """Range of the due times of all schedules."""
    return _TICK, bytes([Space.TICK + 1])


def schedules(after: bytes = b"") -> KeyRange:
    """Range of the schedules whose names come behind `after`; of all, without it."""
    return _SCHEDULE + after + b"\x00" * bool(after), bytes([Space.SCHEDULE + 1])
