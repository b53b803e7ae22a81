"""A LevelDB store as it was at one moment, read a page at a time while writes go on.

LevelDB keeps what the snapshot still sees; it gives that space back after `close`. Every call is made on the thread
that `submit` leads to, none on the event loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from miniqueue.errors import StoreClosedError
from miniqueue.storage.database import DatabaseSnapshot, pairs_between, translated

#: Makes a call on a thread of the store; raises StoreClosedError after its end.
Submit = Callable[..., "asyncio.Future[Any]"]


class LevelDBSnapshot:
    """`port.Snapshot` of a LevelDB store; made by `LevelDBStore.snapshot`."""

    def __init__(self, snapshot: DatabaseSnapshot, submit: Submit, path: Path) -> None:
        self._snapshot = snapshot
        self._submit = submit
        self._path = path

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order, within the two limits."""
        pairs: list[tuple[bytes, bytes]] = await self._submit(self._scan, start, stop, max_items, max_bytes)
        return pairs

    async def close(self) -> None:
        """Let go of what the snapshot sees; safe to call twice, and after the store was closed."""
        with suppress(StoreClosedError):
            await self._submit(self._snapshot.close)

    def _scan(self, start: bytes, stop: bytes, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        pairs: list[tuple[bytes, bytes]] = []
        size_bytes = 0
        try:
            with closing(pairs_between(self._snapshot, start, stop)) as found:
                for pair in found:
                    pairs.append(pair)
                    size_bytes += len(pair[1])
                    if len(pairs) >= max_items or size_bytes >= max_bytes:
                        break
        except Exception as exc:
            raise translated(exc, self._path) from exc
        return pairs
