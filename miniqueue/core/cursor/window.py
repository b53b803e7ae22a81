"""The loaded head of an ordered range of the store.

A range (the chunks of a log, the returned messages) may be far larger than memory. A window contains its first
items, the order from which on the store has more, and the orders of items that were taken and not yet settled:

    store:    x  x  t  l  t  l  l  l | .  .  .  .  .          x settled (deleted)   t taken   l loaded
    order:  ───────────────────────────────────────────▶      resume_at ─┘   None: everything is loaded

An item is added in memory first, and reaches the store with the next commit. So a loader must commit what was added
before `begin_load`, and only then read the store. Items that are added between `begin_load` and `load` are remembered
and merged, because the scan may or may not have seen them.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeVar, cast


class Sized(Protocol):
    """An item with a memory cost."""

    @property
    def size_bytes(self) -> int:
        """Memory use in bytes."""
        ...


T = TypeVar("T", bound=Sized)
_order = itemgetter(0)

#: What an idle window shares with all others: most windows stay empty, and an empty deque uses more than 600 bytes.
_NO_ITEMS: Final[deque[tuple[int, Any]]] = deque(maxlen=0)
_NO_ORDERS: Final = cast("set[int]", frozenset())


class Window(Generic[T]):
    """The first items of a range, sorted by `order`, a number that is unique within the range.

    Attributes:
      max_bytes: the size from which on the last items are dropped from memory.
      resume_at: the order from which on the store has more items; None if all are loaded.
      size_bytes: the size of the loaded items.
      stop: items from this order on may not be taken yet.
      taken: the orders of items that were taken and not settled.
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
        self.taken: set[int] = _NO_ORDERS
        self._items: deque[tuple[int, T]] = _NO_ITEMS
        self._loading_from: int | None = None
        self._early: list[tuple[int, T]] | None = None  # set while loading
        self._settled: set[int] | None = None  # orders settled since `begin_load`, which the scan may see
        self._watchers: tuple[set[int], ...] = ()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_lacking(self) -> bool:
        """Whether nothing is loaded and the store has, or may have, an item that may be taken."""
        return self.resume_at is not None and not self._items and self.resume_at < self.stop

    @property
    def has_next(self) -> bool:
        """Whether the first item is loaded and may be taken."""
        return bool(self._items) and self._items[0][0] < self.stop

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items)

    @property
    def wants_more(self) -> bool:
        """Whether to load more now, so that taking does not have to wait."""
        return self.resume_at is not None and self._loading_from is None and self.size_bytes < self.max_bytes // 4

    @property
    def head(self) -> int | None:
        """The order of the first item; if none is loaded, a lower bound of it; None if the range is empty."""
        return self._items[0][0] if self._items else self.resume_at

    def first_from(self, order: int) -> int | None:
        """Return the first waiting order from `order` on, or a lower bound if it is not loaded; None if none waits."""
        index = bisect_left(self._items, order, key=_order)
        if index < len(self._items):
            first: int = self._items[index][0]
            return first
        return None if self.resume_at is None else max(order, self.resume_at)

    @property
    def first(self) -> T | None:
        """The first item, if it is loaded."""
        return self._items[0][1] if self._items else None

    def take(self) -> tuple[int, T]:
        """Take the first item, and return it with its order; raises IndexError if none is loaded.

        The item stays in the store, and its order in `taken`, until `settle`.
        """
        first = self._items.popleft()
        self._count_as_taken(first[0])
        self.size_bytes -= first[1].size_bytes
        return first

    def _count_as_taken(self, order: int) -> None:
        if self.taken:
            self.taken.add(order)
        else:
            self.taken = {order}

    def settle(self, order: int) -> None:
        """Forget a taken item, which the caller deletes from the store."""
        self.let_go(order)
        if self._settled is not None:
            self._settled.add(order)
        for settled in self._watchers:
            settled.add(order)

    @contextmanager
    def watch(self) -> Iterator[set[int]]:
        """Yield a set that collects the orders settled or forgotten within the block.

        A reader of the store uses it to ignore items that it read before they were settled.
        """
        settled: set[int] = set()
        self._watchers += (settled,)
        try:
            yield settled
        finally:
            self._watchers = tuple(watcher for watcher in self._watchers if watcher is not settled)

    def forget(self, orders: Collection[int]) -> None:
        """Forget items that were not taken, loaded or not; the caller deletes them from the store."""
        self._items = deque(entry for entry in self._items if entry[0] not in orders)
        if self._early is not None:
            self._early = [entry for entry in self._early if entry[0] not in orders]
        self.size_bytes = sum(item.size_bytes for _, item in self._items)
        for order in orders:
            self.settle(order)

    def remove(self, order: int, next_order: int | None) -> None:
        """Remove an item that was not taken, loaded or not, and that the caller deletes from the store.

        `next_order` is the order of the next item in the store; None if there is none.
        """
        self._drop(order)
        if self.resume_at == order:
            self.resume_at = next_order
        self.settle(order)

    def add(self, order: int, item: T) -> None:
        """Add an item that the caller has written to the store, or writes with the next commit."""
        if self.resume_at is None or order < self.resume_at:
            self._insert(order, item)
            if self.size_bytes > self.max_bytes:
                self._trim()
        elif self._early is not None:
            self._early.append((order, item))

    def begin_load(self) -> int:
        """Return the order from which to read the store; items that were added before must be committed first."""
        assert self.resume_at is not None
        self._loading_from = self.resume_at
        self._early, self._settled = [], set()
        return self.resume_at

    def load(self, items: Iterable[tuple[int, T]], resume_at: int | None) -> None:
        """Merge the items that a load has read; the store has more from `resume_at` on, None for no more."""
        early, settled, began_at = dict(self._early or ()), self._settled or set(), self._loading_from
        self.abandon_load()
        if self.resume_at != began_at:
            return  # items were dropped meanwhile: these would leave a gap; the next load begins before it
        self.resume_at = resume_at
        ignored = self.taken | settled
        loaded = {order: item for order, item in items if order not in ignored}
        for order, item in (loaded | early).items():
            if resume_at is None or order < resume_at:
                self._insert(order, item)
        self._trim()

    def abandon_load(self) -> None:
        """End a load that has failed; the next load begins at the same order."""
        self._loading_from = self._early = self._settled = None

    def evict(self) -> None:
        """Drop all loaded items from memory; they can be loaded again."""
        while self._items:
            self._drop_last()

    def let_go(self, order: int) -> None:
        """Stop counting an item as taken; it waits outside the window, which does not return it again."""
        if self.taken:
            self.taken.discard(order)

    def take_again(self, order: int) -> None:
        """Count an item that waits as taken; it may be loaded, or have been let go and loaded a second time."""
        self._count_as_taken(order)
        if self._early is not None or (self._items and self._items[0][0] <= order):
            self._drop(order)

    def give_back(self, orders: Iterable[int], resume_at: int) -> None:
        """Return taken items to the range: these, and all from `resume_at` on, are loaded again.

        The store has them, or gets them with the next commit.
        """
        self.evict()
        self.taken -= set(orders)
        self.resume_at = resume_at if self.resume_at is None else min(self.resume_at, resume_at)

    def _drop(self, order: int) -> None:
        """Drop an item from memory, if it is there."""
        index = bisect_left(self._items, order, key=_order)
        if index < len(self._items) and self._items[index][0] == order:
            self.size_bytes -= self._items[index][1].size_bytes
            del self._items[index]
        if self._early is not None:
            self._early = [entry for entry in self._early if entry[0] != order]

    def _insert(self, order: int, item: T) -> None:
        items = self._items
        if items is _NO_ITEMS:
            items = self._items = deque()
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
