"""The durable store: one LevelDB directory, opened with care and written by one thread.

Three threads do the blocking calls, so that none waits for another's kind of work:

    write, sync ► writer          get, scan, room ► reader          reclaim, snapshots ► maintenance

A write is one LevelDB batch; with `SyncMode.ALWAYS` it returns when the batch is synced, and the directory
too if LevelDB has begun a new log. After any failed write LevelDB may lose writes that it accepts later (a
full disk is enough), so the first failure is kept and every later write is refused with it. Reads go on. A write
that fails for lack of space gives the ballast back, so that the store can be opened anew (`reserve`).

What the directory holds, and how it is opened, stands in `store_directory` and `leveldb_start`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from miniqueue.errors import CorruptionError, NoSpaceError, StorageError, StoreClosedError
from miniqueue.storage.acknowledged import Acknowledged
from miniqueue.storage.database import Database, DatabaseOptions, WriteBatch, fill, last_pair, pairs_between, translated
from miniqueue.storage.directory_sync import DirectorySync
from miniqueue.storage.leveldb_snapshot import LevelDBSnapshot
from miniqueue.storage.leveldb_start import Opened, open_directory
from miniqueue.storage.port import Batch, Room
from miniqueue.storage.reserve import Reserve, ReserveOptions
from miniqueue.storage.set_aside import SetAside
from miniqueue.storage.store_directory import DATABASE_NAME
from miniqueue.storage.sync_mode import SyncMode
from miniqueue.storage.table_check import name_table_damage
from miniqueue.storage.worker import Worker, failed

T = TypeVar("T")


class LevelDBStore:
    """`Store` on a directory of the local disk. Make one with `LevelDBStore.open`.

    Attributes:
      set_aside: torn tails that were cut off the log when the store was opened; worth a warning.
      doubts: why it cannot be known whether all that was acknowledged is there; worth a warning, too.
      last_change: see `Store`; LevelDB numbers the changes.
    """

    def __init__(self, opened: Opened, *, sync: SyncMode, writer: Worker, reserve: Reserve | None = None) -> None:
        self.set_aside: tuple[SetAside, ...] = opened.set_aside
        self.doubts: tuple[str, ...] = opened.doubts
        self.last_change: int = opened.last_change
        self._opened = opened
        self._database: Database = opened.database
        self._directory_sync: DirectorySync = opened.directory_sync
        self._reserve = reserve or Reserve(opened.path)
        self._sync_mode = sync
        self._unnoted: Acknowledged | None = None  # the last change written, until it is synced
        self._failure: StorageError | None = None  # set for good, by the writer thread as a rule
        self._owner_pid = os.getpid()
        self._closing: asyncio.Task[None] | None = None
        self._writer = writer
        self._reader = Worker("miniqueue-store-reader")
        self._maintenance = Worker("miniqueue-store-maintenance")

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        sync: SyncMode = SyncMode.ALWAYS,
        options: DatabaseOptions | None = None,
        reserve: ReserveOptions | None = None,
    ) -> "LevelDBStore":
        """Open the store in the directory `path`; make it if the directory is missing or empty.

        Args:
          path: of the directory.
          sync: when a write reaches the disk.
          options: how much memory LevelDB may take.
          reserve: how much space to keep free; none by default.

        Raises:
          StoreInUseError: the store is open already, here or in another process.
          NotAStoreError: the directory holds something else.
          FormatVersionError: the store is in a format that this version does not read.
          CorruptionError: the store is damaged or incomplete.
          NoSpaceError: the disk is full, and giving the ballast back did not help.
          StorageError: anything else, such as missing rights.
        """
        writer = Worker("miniqueue-store-writer")
        space = Reserve(path, reserve or ReserveOptions())
        try:
            opened = await _outcome(writer.submit(open_directory, path, options or DatabaseOptions(), space))
        except BaseException:
            await writer.stop()
            raise
        return cls(opened, sync=sync, writer=writer, reserve=space)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None when there is none."""
        return await self._submit(self._reader, self._get, key)

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order, within the two limits."""
        return await self._submit(self._reader, self._scan, start, stop, max_items, max_bytes)

    async def last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        """Return the last pair with `start <= key < stop` of each range in which `start` is, None for every other."""
        return await self._submit(self._reader, self._last_of, ranges)

    def write(self, batch: Batch) -> Awaitable[None]:
        """Apply all of `batch` or nothing; it begins with the call, and faults show where it is waited for.

        A cancelled call is carried out all the same; its outcome is unknown to the caller.
        """
        return self._submit_batch(batch, self._sync_mode is SyncMode.ALWAYS)

    async def sync(self) -> None:
        """Make every earlier write durable, whatever the sync mode."""
        await self._submit_batch({}, True)

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        """Give back the disk space of keys deleted in `start <= key < stop`.

        On a large range this takes a while, and `close` waits for it.

        LevelDB compacts a range level by level, but leaves its lowest table alone, and that is where the first flush
        of a range goes, deleted values included. Deletions at both ends of the range make a table above that one, so
        that the second compaction has to rewrite it. They are written like any batch: one that is not synced before
        the next would look like damage in the middle of the log after a power cut (`log_tail`).
        """
        await self._submit(self._maintenance, self._compact, start, stop)
        await self.write(await self._span(start, stop))
        await self._submit(self._maintenance, self._compact, start, stop)

    async def room(self, *, is_full: bool) -> Room:
        """Look at the disk, lay the ballast if there is room for it, and tell what is left; see `reserve`."""
        return await self._submit(self._reader, self._look, is_full)

    async def _span(self, start: bytes, stop: bytes) -> Batch:
        """Return deletions near both ends of a range, of keys that do not exist."""
        candidates = (start + b"\x00", _just_below(stop))
        return {key: None for key in candidates if start <= key < stop and await self.get(key) is None}

    async def snapshot(self) -> LevelDBSnapshot:
        """Return what is in the store now, to be read while writes go on; it waits for a `reclaim` under way."""
        submit = partial(self._submit, self._maintenance)
        return LevelDBSnapshot(await submit(self._database.snapshot), submit, self._opened.path)

    async def close(self) -> None:
        """End the threads, close the files and give the directory back; safe to call twice.

        Calls under way are finished, those behind them raise `StoreClosedError`. Nothing is synced.
        """
        if os.getpid() != self._owner_pid:
            return
        if self._closing is None:
            for worker in (self._maintenance, self._reader, self._writer):
                worker.refuse()
            self._closing = asyncio.ensure_future(self._close())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    # --- on the loop ----------------------------------------------------------------------------------------------

    def _submit(self, worker: Worker, function: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        self._check_usable()
        return worker.submit(function, *args)

    def _submit_batch(self, batch: Batch, is_synced: bool) -> "asyncio.Future[None]":
        """Fill LevelDB's batch here and leave only its write to the thread.

        Each `put` lets the interpreter lock go and takes it again: the loop does that in no time, the thread has to
        wait for a loop that is busy. Beside one with callbacks of up to 0.25 ms a commit of three keys took 0.8 ms
        with this in the thread, and takes 0.54 ms.
        """
        try:
            self._check_usable()
        except StorageError as exc:
            return failed(exc)
        try:
            writing = self._database.write_batch(transaction=True, sync=is_synced)
            size_bytes = fill(writing.__enter__(), batch)
        except Exception as exc:  # no fault of the disk, but a write that failed all the same
            self._failure = translated(exc, self._opened.path)
            return failed(self._failure)
        return self._writer.submit(self._write, writing, is_synced, len(batch), size_bytes)

    def _check_usable(self) -> None:
        if self._closing is not None:
            raise StoreClosedError
        if os.getpid() != self._owner_pid:
            raise StorageError(f"the store belongs to process {self._owner_pid}: a fork of it must not use it")

    async def _close(self) -> None:
        await self._maintenance.stop()
        await self._reader.stop()
        await self._writer.stop(self._opened.close)

    # --- on the threads -------------------------------------------------------------------------------------------

    def _write(
        self, writing: AbstractContextManager[WriteBatch], is_synced: bool, change_count: int, size_bytes: int
    ) -> None:
        if self._failure is not None:
            raise StorageError(f"an earlier write failed: {self._failure}") from self._failure
        try:
            if is_synced and self._sync_mode is not SyncMode.ALWAYS:
                self._directory_sync.sync_logs()  # this write may begin a log: nothing before it may be missing then
            writing.__exit__(None, None, None)
            if is_synced or self._sync_mode is SyncMode.INTERVAL:
                self._directory_sync.sync_if_changed()
            self._note_changes(change_count, is_synced)
            if self._sync_mode is SyncMode.ALWAYS and self._opened.preallocation is not None:
                self._opened.preallocation.follow(self._directory_sync.used_log, size_bytes)
        except Exception as exc:
            self._failure = translated(exc, self._opened.path)
            if isinstance(self._failure, NoSpaceError):
                self._reserve.give_back()
            raise self._failure from exc

    def _note_changes(self, count: int, is_synced: bool) -> None:
        """Keep what the next start must find again: the last change that is on the disk, with all before it."""
        if count:
            self.last_change += count
            self._unnoted = Acknowledged(self.last_change, self._directory_sync.used_log)
        if is_synced and self._unnoted is not None and self._opened.acknowledged is not None:
            self._opened.acknowledged.advance(self._unnoted)
            self._unnoted = None

    def _get(self, key: bytes) -> bytes | None:
        try:
            return self._database.get(key, verify_checksums=True)
        except Exception as exc:
            raise self._with_place(translated(exc, self._opened.path), key, key + b"\0") from exc

    def _scan(self, start: bytes, stop: bytes, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        try:
            return self._first_pairs(start, stop, max_items, max_bytes)
        except Exception as exc:
            raise self._with_place(translated(exc, self._opened.path), start, stop) from exc

    def _last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        found = []
        for start, stop in ranges:
            try:
                is_there = self._database.get(start, verify_checksums=True) is not None
                found.append(last_pair(self._database, start, stop) if is_there else None)
            except Exception as exc:
                raise self._with_place(translated(exc, self._opened.path), start, stop) from exc
        return found

    def _with_place(self, error: StorageError, start: bytes, stop: bytes) -> StorageError:
        """Return the error with file and offset of the damage that a reader met, which LevelDB does not name."""
        place = None
        if isinstance(error, CorruptionError):
            place = name_table_damage(self._opened.path / DATABASE_NAME, (start, stop))
        return error if place is None else CorruptionError(place)

    def _first_pairs(self, start: bytes, stop: bytes, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        pairs: list[tuple[bytes, bytes]] = []
        size_bytes = 0
        with closing(pairs_between(self._database, start, stop)) as found:
            for pair in found:
                pairs.append(pair)
                size_bytes += len(pair[1])
                if len(pairs) >= max_items or size_bytes >= max_bytes:
                    break
        return pairs

    def _look(self, is_full: bool) -> Room:
        try:
            return self._reserve.look(is_full=is_full)
        except OSError as exc:
            raise translated(exc, self._opened.path) from exc

    def _compact(self, start: bytes, stop: bytes) -> None:
        try:
            self._database.compact_range(start=start, stop=stop)
        except Exception as exc:
            raise translated(exc, self._opened.path) from exc


def _just_below(key: bytes) -> bytes:
    """Return a key that sorts before `key`, with hardly any between them."""
    return key[:-1] + bytes([key[-1] - 1]) + b"\xff" * 8 if key[-1:] > b"\x00" else key[:-1]


async def _outcome(opening: "asyncio.Future[Opened]") -> Opened:
    """Wait for the opening; when cancelled, wait all the same, to give back what it has taken."""
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise
