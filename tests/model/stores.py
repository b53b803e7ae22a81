"""A store that can be held up, fails when told to, and is cut off by a crash; on a disk that outlives it."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from miniqueue.errors import StorageError
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Batch, Store, SyncMode

Result = TypeVar("Result")


class Disk(Protocol):
    async def open(self) -> Store: ...

    def crash(self) -> None:
        """Keep what was written; who has it open now writes into the void."""

    def remove(self) -> None: ...


class MemoryDisk:
    """Keeps pairs in a memory store that forgets nothing when it is closed."""

    class _Store(MemoryStore):
        async def close(self) -> None: ...

    def __init__(self) -> None:
        self._store = self._Store()

    async def open(self) -> Store:
        return self._store

    def pairs(self) -> dict[bytes, bytes]:
        """Return all keys and values."""
        return dict(self._store._values)

    def crash(self) -> None:
        old, self._store = self._store, self._Store()
        self._store._values.update(old._values)
        self._store._sorted_keys += old._sorted_keys

    def remove(self) -> None: ...


class LevelDBDisk:
    """A crash is a copy of the directory, made while it is in use."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "0"
        self._crashed: list[LevelDBStore] = []
        self._store: LevelDBStore

    async def open(self) -> Store:
        self._store = await LevelDBStore.open(self._path, sync=SyncMode.NEVER)
        return self._store

    def crash(self) -> None:
        old, self._path = self._path, self._path.with_name(f"{int(self._path.name) + 1}")
        shutil.copytree(old, self._path)
        self._crashed.append(self._store)

    def remove(self) -> None:
        for store in self._crashed:
            asyncio.run(store.close())
        self._directory.cleanup()


class _Told(NamedTuple):
    """A call in progress, whose outcome the model gets at the moment at which the broker gets it, if it ever does."""

    tell: Callable[[], Coroutine[object, object, None]]

    def __await__(self) -> Generator[object, None, None]:
        return self.tell().__await__()


class FragileStore:
    """Stands before the store of a disk, over every opening of it.

    `fails_next` makes the next write to end fail: "kept" and "dropped" say whether it is carried out all the same.
    While `may_write` or `may_scan` is cleared, writes and scans wait. `writes_left` are carried out before `may_write`
    is cleared, if it is a number.

    Args:
      began, ended, failed: called when a write begins, and when it has ended in one of the two ways.
      opened: called when the disk could be opened.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        began: Callable[[], None],
        ended: Callable[[], None],
        failed: Callable[[bool], None],
        opened: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._store: Store
        self._began, self._ended, self._failed, self._opened = began, ended, failed, opened
        self._in_flight: list[Batch] = []  # another one after a fault or a crash: those of before are no more
        self._line, self._is_failing = asyncio.Lock(), False
        self._calls_under_way = 0
        self.refused_openings = 0
        self.fails_next: str | None = None
        self.writes_left: int | None = None
        self.may_write, self.may_scan = asyncio.Event(), asyncio.Event()
        self.release()

    @property
    def is_writing(self) -> bool:
        return bool(self._in_flight)

    def is_busy(self) -> bool:
        return self._calls_under_way > 0

    def release(self) -> None:
        self.writes_left = None
        self.may_write.set()
        self.may_scan.set()

    async def open(self) -> "FragileStore":
        if self.refused_openings:
            self.refused_openings -= 1
            raise StorageError("the disk is not there")
        self._store = await self._call(self._disk.open())
        self._opened()
        return self

    async def crash(self, *, is_kept: bool) -> None:
        """Cut off who has this open; `is_kept` says whether the writes under way have reached the disk."""
        in_flight, self._in_flight = self._in_flight, []
        self._line, self._is_failing = asyncio.Lock(), False
        self._disk.crash()
        self.release()
        self.refused_openings, self.fails_next = 0, None
        if is_kept and in_flight:
            store = await self._call(self._disk.open())
            for batch in in_flight:
                await self._call(store.write(batch))
            await self._call(store.close())

    def write(self, batch: Batch, *, is_synced: bool = False) -> Awaitable[None]:
        self._in_flight.append(dict(batch))
        self._began()
        writing = asyncio.create_task(self._write(batch, self._in_flight))
        return _Told(partial(self._tell, writing, self._in_flight))

    async def _write(self, batch: Batch, in_flight: list[Batch]) -> str | None:
        """Return how it fails."""
        async with self._line:
            if self.writes_left == 0:
                self.may_write.clear()
            elif self.writes_left is not None:
                self.writes_left -= 1
            await self.may_write.wait()
            if in_flight is not self._in_flight or self._is_failing:
                return "dropped"
            outcome, self.fails_next = self.fails_next, None
            self._is_failing = outcome is not None
            if outcome != "dropped":
                await self._call(self._store.write(batch))
            return outcome

    async def _tell(self, writing: "asyncio.Task[str | None]", in_flight: list[Batch]) -> None:
        outcome = await writing
        if in_flight is not self._in_flight:
            raise StorageError("the one before has failed")
        if outcome is not None:
            self._in_flight, self._is_failing = [], False
            self._failed(outcome == "kept")
            raise StorageError("the disk is tired")
        del in_flight[0]
        self._ended()

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        pairs = await self._call(self._store.scan(start, stop, max_items=max_items, max_bytes=max_bytes))
        await self.may_scan.wait()
        return pairs

    @property
    def last_change(self) -> int:
        return self._store.last_change

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        """Every other call of the port, as it is."""
        call = getattr(self._store, name)
        return lambda *arguments, **options: self._call(call(*arguments, **options))

    async def _call(self, call: Awaitable[Result]) -> Result:
        with self._counted():
            return await call

    @contextmanager
    def _counted(self):
        self._calls_under_way += 1
        try:
            yield
        finally:
            self._calls_under_way -= 1
