"""Sets fields of many cursors at once: there can be thousands, so that no line of Python runs for each of them."""

from collections import deque
from collections.abc import Iterable
from itertools import repeat


def set_each(cursors: Iterable[object], name: str, values: Iterable[object]) -> None:
    """Set a field of each cursor, or of an object that each has, to the value in the same place."""
    deque(map(setattr, cursors, repeat(name), values), maxlen=0)


def set_all(cursors: Iterable[object], name: str, value: object) -> None:
    """Set a field of all cursors, or of an object that each has, to one value."""
    set_each(cursors, name, repeat(value))
