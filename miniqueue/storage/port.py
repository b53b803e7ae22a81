"""The ordered key-value port that the broker stands on.

Two adapters implement it, `memory` and `leveldb`; one contract suite (`tests/storage/contract.py`) runs on
both. Reads and writes are awaitable so that a remote store can implement it as well.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple, Protocol

#: What one atomic write changes: a value to store, or None to delete the key.
Batch = Mapping[bytes, bytes | None]


class Room(NamedTuple):
    """What a look at the disk showed.

    Attributes:
      is_enough: whether there is room for new messages.
      free_bytes: what is free on the disk, or None where there is no disk.
    """

    is_enough: bool
    free_bytes: int | None = None


class Snapshot(Protocol):
    """What was in a store at one moment; to be closed, because the store keeps it for as long."""

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, as `Store.scan`."""
        ...

    async def close(self) -> None:
        """Let go of it; safe to call twice, and after the store was closed."""
        ...


class Store(Protocol):
    """An ordered map from bytes to bytes with atomic, durable writes.

    Writes are carried out one after the other, in the order of the calls; reads and `reclaim` overlap with them and
    with each other. A read begun after a write returned sees that write.
    Every method raises `StoreClosedError` after `close`, `CorruptionError` when stored bytes are damaged,
    `NoSpaceError` when the disk is full, and `StorageError` for every other fault. After a failed `write` the outcome
    is unknown, also of those behind it, and the only calls left are `close` and opening anew: a store that has failed
    once may lose what it accepts later.
    """

    @property
    def last_change(self) -> int:
        """Number of the last change: every key that a write puts or deletes counts as one, also across restarts.

        When a store is opened anew and it is lower than it was, something has been lost.
        """
        ...

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None when there is none."""
        ...

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order.

        Stops after `max_items` pairs, or with the pair that brings the values to `max_bytes` or more; so a range
        that is not empty yields at least one pair.
        """
        ...

    async def last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        """Return the last pair with `start <= key < stop` of each range in which `start` is, None for every other.

        Only where there is a pair it is looked for from behind: that passes over everything deleted up to the next one.
        """
        ...

    def write(self, batch: Batch) -> Awaitable[None]:
        """Apply all of `batch` or nothing; when it has been waited for it is as durable as the sync mode says.

        It begins with the call, where the store can do two things at a time. Until it is over `batch` must not change.
        """
        ...

    async def sync(self) -> None:
        """Make every earlier write durable, whatever the sync mode."""
        ...

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        """Give back the disk space of keys deleted in `start <= key < stop`; changes no content."""
        ...

    async def room(self, *, is_full: bool) -> Room:
        """Look whether there is room for new messages, and see to the store's own reserve of space.

        Args:
          is_full: whether there was not, the last time: it takes more to come back than to go on.
        """
        ...

    async def snapshot(self) -> Snapshot:
        """Return what every write that has returned has left; later ones do not show in it."""
        ...

    async def close(self) -> None:
        """Release everything; safe to call twice."""
        ...
