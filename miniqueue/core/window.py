"""The loaded head of an ordered range of the store.

A range (the chunks of a log, the records that came back) may be far larger than memory. A window holds its
first items, knows from which order on the store has more, and which items have been taken and not yet settled:

    store:    x  x  t  l  t  l  l  l | .  .  .  .  .          x settled (deleted)   t taken   l loaded
    order:  ───────────────────────────────────────────▶      resume_at ─┘   None: everything is loaded

Adding happens in memory first and reaches the store with the next commit. So whoever loads must ask the store
only after everything added up to `begin_load` has been committed; what is added between `begin_load` and `load`
is remembered and merged, because the scan may or may not have seen it.
"""

from bisect import insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from operator import itemgetter
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """An item that knows its cost in memory."""

    @property
    def size_bytes(self) -> int:
        """Bytes of memory."""
        ...


T = TypeVar("T", bound=Sized)
_order = itemgetter(0)


class Window(Generic[T]):
    """The first items of a range, by `order`, a number that is unique within the range.

    What comes at `stop` or later is not to be taken yet.
    """

    __slots__ = (
        "_early",
        "_items",
        "_loading_from",
        "_settled",
        "_watchers",
        "max_bytes",
        "resume_at",
        "size_bytes",
        "stop",
        "taken",
    )

    def __init__(self, *, max_bytes: int, resume_at: int | None) -> None:
        self.max_bytes = max_bytes
        self.resume_at = resume_at
        self.size_bytes = 0
        self.stop: float = inf
        self.taken: set[int] = set()
        self._items: deque[tuple[int, T]] = deque()
        self._loading_from: int | None = None
        self._early: list[tuple[int, T]] = []
        self._settled: set[int] = set()  # since `begin_load`: the scan may still see them
        self._watchers: list[set[int]] = []

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_lacking(self) -> bool:
        """Whether nothing is loaded although the store has, or may have, more that may be taken."""
        return self.resume_at is not None and not self._items and self.resume_at < self.stop

    @property
    def has_next(self) -> bool:
        """Whether the first item is loaded and may be taken."""
        return bool(self._items) and self._items[0][0] < self.stop

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items)

    @property
    def wants_more(self) -> bool:
        """Whether it is time to load, so that taking need not wait."""
        return self.resume_at is not None and self._loading_from is None and self.size_bytes < self.max_bytes // 4

    @property
    def head(self) -> int | None:
        """The order of the first item, or, while none is loaded, one that it does not come before; None: empty."""
        return self._items[0][0] if self._items else self.resume_at

    @property
    def first(self) -> T | None:
        """The first item, if it is loaded."""
        return self._items[0][1] if self._items else None

    def take(self) -> tuple[int, T]:
        """Take the first item with its order; it stays in the store, and in `taken`, until `settle`.

        Raises IndexError when none is loaded.
        """
        first = self._items.popleft()
        self.taken.add(first[0])
        self.size_bytes -= first[1].size_bytes
        return first

    def settle(self, order: int) -> None:
        """Forget a taken item, which the caller deletes from the store."""
        self.taken.discard(order)
        if self._loading_from is not None:
            self._settled.add(order)
        for gone in self._watchers:
            gone.add(order)

    @contextmanager
    def watch(self) -> Iterator[set[int]]:
        """Return the orders that were settled or forgotten since the block began: who has read them may not know."""
        gone: set[int] = set()
        self._watchers.append(gone)
        try:
            yield gone
        finally:
            self._watchers = [one for one in self._watchers if one is not gone]

    def forget(self, orders: Collection[int]) -> None:
        """Forget items that nobody has taken, loaded or not; the caller deletes them from the store."""
        self._items = deque(one for one in self._items if one[0] not in orders)
        self._early = [one for one in self._early if one[0] not in orders]
        self.size_bytes = sum(item.size_bytes for _, item in self._items)
        for order in orders:
            self.settle(order)

    def add(self, order: int, item: T) -> None:
        """Take in an item that the caller also puts into the store with the next commit, or has put there."""
        if self.resume_at is None or order < self.resume_at:
            self._insert(order, item)
            if self.size_bytes > self.max_bytes:
                self._trim()
        elif self._loading_from is not None:
            self._early.append((order, item))

    def begin_load(self) -> int:
        """Return the order from which to read the store; everything added so far must be committed first."""
        assert self.resume_at is not None
        self._loading_from = self.resume_at
        self._settled.clear()
        return self.resume_at

    def load(self, items: Iterable[tuple[int, T]], resume_at: int | None) -> None:
        """Merge what the store has from `begin_load` on; `resume_at` is where it has more, None for no more."""
        early, self._early = dict(self._early), []
        began_at, self._loading_from = self._loading_from, None
        if self.resume_at != began_at:
            return  # something was cut meanwhile: there would be a gap, the next load begins before it
        self.resume_at = resume_at
        gone = self.taken | self._settled
        found = {order: item for order, item in items if order not in gone}
        for order, item in (found | early).items():
            if resume_at is None or order < resume_at:
                self._insert(order, item)
        self._trim()

    def abandon_load(self) -> None:
        """Forget a load that has begun and failed; the next one begins at the same place."""
        self._loading_from = None
        self._early.clear()
        self._settled.clear()

    def evict(self) -> None:
        """Drop what is loaded; it can be loaded again."""
        while self._items:
            self._drop_last()

    def let_go(self, order: int) -> None:
        """Have an item that was taken wait again, somewhere else: it is not handed out here any more."""
        self.taken.discard(order)

    def take_again(self, order: int) -> None:
        """Take an item that was let go, and may have been loaded once more."""
        self.taken.add(order)
        if self._items and self._items[0][0] <= order:  # what is loaded is not all behind it
            self._items = deque(one for one in self._items if one[0] != order)
            self.size_bytes = sum(item.size_bytes for _, item in self._items)

    def give_back(self, orders: Iterable[int], resume_at: int) -> None:
        """Have what was taken at `orders`, and all from `resume_at` on, loaded again; the store has it, or will."""
        self.evict()
        self.taken.difference_update(orders)
        self.resume_at = resume_at if self.resume_at is None else min(self.resume_at, resume_at)

    def _insert(self, order: int, item: T) -> None:
        items = self._items
        if not items or order > items[-1][0]:
            items.append((order, item))
        elif order < items[0][0]:
            items.appendleft((order, item))
        else:
            insort(items, (order, item), key=_order)
        self.size_bytes += item.size_bytes

    def _trim(self) -> None:
        while self.size_bytes > self.max_bytes and len(self) > 1:
            self._drop_last()

    def _drop_last(self) -> None:
        self.resume_at, item = self._items.pop()
        self.size_bytes -= item.size_bytes
