"""The ordered key-value store that the broker requires, as a protocol, and the values of the `-sync` setting.

Two adapters implement it, `memory` and `leveldb`; one contract suite (`tests/storage/contract.py`) tests both. Reads
and writes are awaitable, so that a remote store could implement the protocol as well.
"""

from collections.abc import Awaitable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

#: The changes of one atomic write: for each key, a value to store, or None to delete the key.
Batch = Mapping[bytes, bytes | None]


class Room(NamedTuple):
    """The space on the disk.

    Attributes:
      is_enough: whether there is room for new messages.
      free_bytes: free space on the disk; None if there is no disk.
    """

    is_enough: bool
    free_bytes: int | None = None


class Position(NamedTuple):
    """A place in the history of a store, after one of its writes.

    Attributes:
      change: number of the last change of the write.
      digest: digest of the write, which another history does not have at this place.
    """

    change: int
    digest: bytes


class Writes(NamedTuple):
    """Consecutive writes of a store.

    Attributes:
      content: the writes, as the store has them.
      offset: what the store needs, too, to read them.
      checksum: CRC-32 of `content`.
      position: the position after them.
      last_change: number of the last change of the store.
      rest_bytes: size of the writes after them, at most.
    """

    content: bytes
    offset: int
    checksum: int
    position: Position
    last_change: int
    rest_bytes: int


class Snapshot(Protocol):
    """The content of a store at one moment; close it, because the store keeps the content until then.

    Attributes:
      position: the moment, as a place in the history of the store; None unless the snapshot is for a follower.
    """

    @property
    def position(self) -> Position | None:
        """See above."""
        ...

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, as `Store.scan` does."""
        ...

    async def close(self) -> None:
        """Release the snapshot; safe to call twice, and after the store was closed."""
        ...


class Store(Protocol):
    """An ordered map from bytes to bytes with atomic, durable writes.

    Writes are carried out one after the other, in the order of the calls; reads and `reclaim` overlap with them and
    with each other. A read that begins after a write has returned sees that write.
    Every method raises `StoreClosedError` after `close`, `CorruptionError` if stored bytes are damaged, `NoSpaceError`
    if the disk is full, and `StorageError` for every other fault. After a failed `write`, the outcome of that write and
    of queued writes is unknown, and the caller must call `close` and open the store again: a store that has failed once
    can lose writes that it accepts later.
    """

    @property
    def last_change(self) -> int:
        """Number of the last change; every key that a write puts or deletes is one change, across restarts, too.

        If it is lower than before when a store is opened again, changes have been lost.
        """
        ...

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if there is none."""
        ...

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order.

        Stops after `max_items` pairs, or after the pair with which the values reach `max_bytes`; so the result has at
        least one pair unless the range is empty.
        """
        ...

    async def last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        """Return the last pair with `start <= key < stop` of each range whose key `start` exists, otherwise None.

        Other ranges are not searched: a search from the end of an empty range passes all deleted keys up to the next
        pair.
        """
        ...

    def write(self, batch: Batch, *, is_synced: bool = False) -> Awaitable[None]:
        """Apply all of `batch` or nothing; once awaited, the write is as durable as the sync mode states.

        If `is_synced`, this write and every earlier one are durable then, whatever the sync mode. The write begins with
        the call if the store can work concurrently. `batch` must not change until it returns.
        """
        ...

    async def sync(self) -> None:
        """Make every earlier write durable, whatever the sync mode."""
        ...

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        """Reclaim the disk space of keys deleted in `start <= key < stop`; no content changes."""
        ...

    async def room(self, *, is_full: bool) -> Room:
        """Return whether there is room for new messages; maintain the store's own reserve of space.

        Args:
          is_full: whether there was no room at the last call; accepting messages again requires more space.
        """
        ...

    async def snapshot(self, *, is_followed: bool = False) -> Snapshot:
        """Return the content after all writes that have returned; later writes are not visible in it.

        Args:
          is_followed: whether later writes will be read from its position on; raises RequestError if the store
            never keeps them.
        """
        ...

    async def writes_after(self, position: Position, max_bytes: int) -> Writes:
        """Return writes after a position, in order: at most `max_bytes`, or one if that is larger.

        Raises PositionLostError unless the position is in the history of this store, and all writes after it are kept.
        """
        ...

    async def close(self) -> None:
        """Release everything; safe to call twice."""
        ...


class SyncMode(StrEnum):
    """How durable a write is when it returns."""

    ALWAYS = "always"  # after a successful fdatasync: survives a power failure
    INTERVAL = "interval"  # passed to the kernel: survives a crash of the process; a timer calls `sync`
    NEVER = "never"  # passed to the kernel, which decides when to write to the disk
