"""A store in memory, for tests and for brokers whose messages need not survive a restart.

It stores nothing on disk and has no thread; every call is complete when it returns.

The keys are a sorted list alongside a dict. A deleted key is removed from the dict immediately, and from the list when
half of the list is stale: removing each key from the list would make the deletion of n keys cost n². No library of the
runtime dependencies has a sorted map.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, filterfalse, repeat
from operator import is_
from typing import Final, cast

from miniqueue.errors import PositionLostError, RequestError, StoreClosedError
from miniqueue.storage.port import Batch, Position, Room, Snapshot, Writes

#: Number of changes from which on sorting all keys again costs less than finding the place of each.
MANY_KEYS: Final = 100


class MemoryStore:
    """`Store` without durability: its content is lost with the process.

    Attributes:
      last_change: see `Store`.
      position: see `Snapshot`; always None, because no history is kept.
    """

    position: Position | None = None

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._sorted_keys: list[bytes] = []  # every key of `_values`, and some deleted keys
        self._is_closed = False
        self.last_change = 0

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if there is none."""
        self._refuse_if_closed()
        return self._values.get(key)

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order, within the two limits."""
        self._refuse_if_closed()
        pairs: list[tuple[bytes, bytes]] = []
        size_bytes = 0
        for key, value in self._pairs_between(start, stop):
            pairs.append((key, value))
            size_bytes += len(value)
            if len(pairs) >= max_items or size_bytes >= max_bytes:
                break
        return pairs

    async def last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        """Return the last pair with `start <= key < stop` of each range whose key `start` exists, otherwise None."""
        self._refuse_if_closed()
        return [
            next(self._pairs_between(start, stop, step=-1), None) if start in self._values else None
            for start, stop in ranges
        ]

    async def write(self, batch: Batch, *, is_synced: bool = False) -> None:
        """Apply all of `batch`; no other call runs between its changes."""
        self._refuse_if_closed()
        if len(batch) > MANY_KEYS:
            self._write_many(batch)
        else:
            for key, value in batch.items():
                if value is None:
                    self._values.pop(key, None)
                else:
                    self._put(key, value)
        self._drop_stale_keys()
        self.last_change += len(batch)

    async def sync(self) -> None:
        """Do nothing: there is no disk."""
        self._refuse_if_closed()

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        """Do nothing: the memory of deleted values is free already."""
        self._refuse_if_closed()

    async def room(self, *, is_full: bool) -> Room:
        """Return that there is room: there is no disk."""
        self._refuse_if_closed()
        return Room(is_enough=True)

    async def snapshot(self, *, is_followed: bool = False) -> Snapshot:
        """Return a copy that shares the values; raises RequestError if it is to be followed."""
        self._refuse_if_closed()
        if is_followed:
            raise RequestError("a store in memory cannot be followed: it keeps no history")
        copy = MemoryStore()
        copy._values, copy._sorted_keys = dict(self._values), sorted(self._values)
        return copy

    async def writes_after(self, position: Position, max_bytes: int) -> Writes:
        """Raise PositionLostError: no history is kept."""
        raise PositionLostError(position.change)

    async def close(self) -> None:
        """Drop all content; safe to call twice."""
        self._is_closed = True
        self._values.clear()
        self._sorted_keys.clear()

    def _write_many(self, batch: Batch) -> None:
        """Apply a batch that may have thousands of changes: no line of Python runs for each of them."""
        self._sorted_keys = sorted({*self._sorted_keys, *filterfalse(self._values.__contains__, batch)})
        self._values.update(cast("Mapping[bytes, bytes]", batch))
        for key in compress(batch, map(is_, batch.values(), repeat(None))):
            del self._values[key]

    def _put(self, key: bytes, value: bytes) -> None:
        if key not in self._values:
            index = bisect_left(self._sorted_keys, key)
            if self._sorted_keys[index : index + 1] != [key]:
                self._sorted_keys.insert(index, key)
        self._values[key] = value

    def _pairs_between(self, start: bytes, stop: bytes, step: int = 1) -> Iterator[tuple[bytes, bytes]]:
        for index in range(bisect_left(self._sorted_keys, start), bisect_left(self._sorted_keys, stop))[::step]:
            key = self._sorted_keys[index]
            if (value := self._values.get(key)) is not None:
                yield key, value

    def _drop_stale_keys(self) -> None:
        if len(self._sorted_keys) > 2 * len(self._values) + 64:
            self._sorted_keys = sorted(self._values)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise StoreClosedError
