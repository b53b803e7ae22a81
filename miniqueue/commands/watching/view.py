"""What a person looks at: the order and the page; and what keys change. Pure.

l t d a i o      sort by lag, topic, dead letters, age of the oldest message, in/s, out/s; again: reverse
n, space, ↓      next page
p, ↑             previous page
q                quit
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

_ORDERS: Final = MappingProxyType({"l": "lag", "t": "topic", "d": "dead", "a": "oldest", "i": "in", "o": "out"})
_NEXT: Final = frozenset({"n", " ", "\x1b[B", "\x1b[6~", "j"})
_PREVIOUS: Final = frozenset({"p", "\x1b[A", "\x1b[5~", "k"})
_QUIT: Final = frozenset({"q", "Q", "\x04"})
HELP: Final = "sort: l t d a i o · page: n p · quit: q"


@dataclass(frozen=True, slots=True)
class View:
    """What is shown.

    Attributes:
      order: the order, a key of `rows.ORDERS`.
      is_reversed: whether the order is reversed.
      page: the number of the page, from 0.
    """

    order: str = "lag"
    is_reversed: bool = False
    page: int = 0


def pressed(view: View, key: str) -> View | None:
    """Return the view after a key; None if the key quits. Any other key changes nothing."""
    if key in _QUIT:
        return None
    if key in _NEXT:
        return replace(view, page=view.page + 1)
    if key in _PREVIOUS:
        return replace(view, page=max(0, view.page - 1))
    if (order := _ORDERS.get(key)) is None:
        return view
    return View(order, not view.is_reversed if order == view.order else False)


def page_count(row_count: int, page_rows: int) -> int:
    """Return the number of pages, at least 1."""
    return max(1, -(-row_count // page_rows))


def within(view: View, pages: int) -> View:
    """Return the view with a page that exists."""
    return replace(view, page=min(view.page, pages - 1))
