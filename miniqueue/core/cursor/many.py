"""Sets fields of many cursors at once: there can be thousands, so that no line of Python runs for each of them."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import attrgetter

from miniqueue.core.cursor.cursor import GroupCursor

_leases = attrgetter("leases")


def set_each(cursors: Iterable[object], name: str, values: Iterable[object]) -> None:
    """Set a field of each cursor, or of an object that each has, to the value in the same place."""
    deque(map(setattr, cursors, repeat(name), values), maxlen=0)


def set_all(cursors: Iterable[object], name: str, value: object) -> None:
    """Set a field of all cursors, or of an object that each has, to one value."""
    set_each(cursors, name, repeat(value))


def revoke_all(cursors: Sequence[GroupCursor]) -> None:
    """Do what `GroupCursor.revoke_all` does with each cursor; few of them have leases."""
    for cursor in compress(cursors, map(_leases, cursors)):
        cursor.revoke_all()
    set_all(cursors, "keyed", None)
    set_all(cursors, "policy", None)
