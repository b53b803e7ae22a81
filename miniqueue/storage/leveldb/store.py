"""The durable store: one LevelDB directory, written by one thread.

Three threads make the blocking calls, so that no kind of work waits for another kind:

    write, sync ► writer          get, scan, room ► reader          reclaim, snapshots ► maintenance

A write is one LevelDB batch. With `SyncMode.ALWAYS`, it returns when the batch is synced, and the directory as well if
LevelDB has begun a new log. After any failed write, LevelDB can lose writes that it accepts later (a full disk is
enough), so the store keeps the first failure and refuses every later write with it. Reads continue. A write that fails
for lack of space releases the ballast, so that the store can be opened again (`reserve`).

Each thread is a `Worker`, which makes calls for the event loop in the order of their submission. It replaces
`loop.run_in_executor`, whose second future, lock, and semaphore cost 10 to 20 µs more per call, while an fdatasync
takes only about 120 µs:

    loop:    submit ──► SimpleQueue ──► thread: function(*args) ──► call_soon_threadsafe ──► loop: set_result

A thread needs the interpreter lock to start a call and to report its outcome. A busy loop releases the lock only for
moments that are too short for another thread to wake, and each release restarts the thread's wait. The switch interval
ends the wait only if it is shorter than the callbacks of the loop: with callbacks of 0.1 ms, a write took seconds at an
interval of 0.1 ms, and 0.36 ms at 0.02 ms. The process should therefore call `sys.setswitchinterval(0.00002)`.

`directory` describes the files, `opening` the startup.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from miniqueue.errors import CorruptionError, NoSpaceError, StorageError, StoreClosedError
from miniqueue.storage.leveldb.acknowledged import Acknowledged
from miniqueue.storage.leveldb.database import (
    Database,
    DatabaseOptions,
    DatabaseSnapshot,
    WriteBatch,
    first_pairs,
    last_pair,
    translated,
)
from miniqueue.storage.leveldb.directory import DATABASE_NAME
from miniqueue.storage.leveldb.directory_sync import DirectorySync
from miniqueue.storage.leveldb.history import History
from miniqueue.storage.leveldb.opening import Opened, open_directory
from miniqueue.storage.leveldb.reserve import Reserve, ReserveOptions
from miniqueue.storage.leveldb.set_aside import SetAside
from miniqueue.storage.leveldb.table_check import name_table_damage
from miniqueue.storage.port import Batch, Position, Room, SyncMode, Writes

T = TypeVar("T")

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]

#: The minimum that LevelDB adds to a batch in a log, and to a change: headers, and one or two lengths.
_BATCH_BYTES, _CHANGE_BYTES = 19, 3


class Worker:
    """One thread with a queue of calls."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._is_stopped = False
        self._has_ended = False  # set by the thread's own last job
        # A daemon, so that a process that exits without closing its store does not hang.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Queue the call `function(*args)`, and return a future of its result.

        If the future is cancelled, the call is made nevertheless.

        Raises:
          StoreClosedError: the worker was stopped.
        """
        if self._is_stopped:
            raise StoreClosedError
        return self._enqueue(function, *args)

    def refuse(self) -> None:
        """Refuse every call that is not running, including queued calls."""
        self._is_stopped = True

    async def stop(self, last: Callable[[], None] | None = None) -> None:
        """Wait for the running call, refuse queued calls, make the call `last`, and end the thread.

        Must be called only once.
        """
        self.refuse()
        await self._enqueue(self._end, last)
        self._thread.join()

    def _enqueue(self, function: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, function, args))
        return future

    def _work(self) -> None:
        while not self._has_ended:
            self._do(*self._jobs.get())

    def _do(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        function: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        result, error = None, None
        try:
            if self._is_stopped and function != self._end:
                raise StoreClosedError
            result = function(*args)
        except BaseException as exc:  # the caller must receive any error, and the thread must continue
            error = exc
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_settle, future, result, error)

    def _end(self, last: Callable[[], None] | None) -> None:
        self._has_ended = True
        if last is not None:
            last()


def failed(error: Exception) -> "asyncio.Future[Any]":
    """Return the future of a call that could not be made."""
    future = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():  # the caller cancelled it
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


#: Makes a call on a thread of the store; raises StoreClosedError after the store was closed.
Submit = Callable[..., "asyncio.Future[Any]"]


class LevelDBSnapshot:
    """`Snapshot` of a LevelDB store, read page by page while writes continue; made by `LevelDBStore.snapshot`.

    LevelDB keeps the data that the snapshot sees, and reclaims its space after `close`. All blocking calls run on the
    thread of `submit`, not on the event loop.

    Attributes:
      position: see `Snapshot`.
    """

    def __init__(
        self, snapshot: DatabaseSnapshot, submit: Submit, path: Path, position: Position | None = None
    ) -> None:
        self.position = position
        self._snapshot = snapshot
        self._submit = submit
        self._path = path

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order, within the two limits."""
        pairs: list[tuple[bytes, bytes]] = await self._submit(self._scan, start, stop, max_items, max_bytes)
        return pairs

    async def close(self) -> None:
        """Release the snapshot; safe to call twice, and after the store was closed."""
        with suppress(StoreClosedError):
            await self._submit(self._snapshot.close)

    def _scan(self, start: bytes, stop: bytes, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        try:
            return first_pairs(self._snapshot, start, stop, max_items, max_bytes)
        except Exception as exc:
            raise translated(exc, self._path) from exc


class LevelDBStore:
    """`Store` in a directory of the local disk; created by `LevelDBStore.open`.

    Attributes:
      set_aside: torn tails that were cut off the log when the store was opened; the caller should log a warning.
      doubts: reasons why acknowledged changes may be missing undetected; the caller should log a warning.
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
        self._history = opened.history or History(opened.path)
        self._sync_mode = sync
        self._unrecorded: Acknowledged | None = None  # the last change written, until it is synced
        self._failure: StorageError | None = None  # never reset; normally set by the writer thread
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
        is_follower: bool = False,
    ) -> "LevelDBStore":
        """Open the store in the directory `path`; create it if the directory is missing or empty.

        Args:
          path: path of the directory.
          sync: when a write reaches the disk.
          options: memory use and compression of LevelDB.
          reserve: space to keep free; none by default.
          is_follower: see `open_directory`.

        Raises:
          StoreInUseError: the store is open already, in this or another process.
          NotEmptyError: `is_follower`, but the store is no copy that follows.
          NotAStoreError: the directory contains something else.
          FormatVersionError: this version cannot read the format of the store.
          CorruptionError: the store is damaged or incomplete.
          NoSpaceError: the disk is full, even after the ballast was released.
          StorageError: any other failure, such as missing permissions.
        """
        writer = Worker("miniqueue-store-writer")
        space = Reserve(path, reserve or ReserveOptions())
        try:
            opening = partial(open_directory, is_follower=is_follower)
            opened = await _outcome(writer.submit(opening, path, options or DatabaseOptions(), space))
        except BaseException:
            await writer.stop()
            raise
        return cls(opened, sync=sync, writer=writer, reserve=space)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if there is none."""
        return await self._submit(self._reader, self._get, key)

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first pairs with `start <= key < stop`, in key order, within the two limits."""
        return await self._submit(self._reader, self._scan, start, stop, max_items, max_bytes)

    async def last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        """Return the last pair with `start <= key < stop` of each range whose key `start` exists, otherwise None."""
        return await self._submit(self._reader, self._last_of, ranges)

    def write(self, batch: Batch, *, is_synced: bool = False) -> Awaitable[None]:
        """Apply all of `batch` or nothing; the write begins with the call, and awaiting it raises its errors.

        A cancelled write is carried out nevertheless; its outcome is unknown to the caller.

        Args:
          batch: the changes.
          is_synced: whether to sync this write, and with it all earlier ones, whatever the sync mode.
        """
        return self._submit_batch(batch, is_synced or self._sync_mode is SyncMode.ALWAYS)

    async def sync(self) -> None:
        """Make every earlier write durable, whatever the sync mode."""
        await self._submit_batch({}, True)

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        """Reclaim the disk space of keys deleted in `start <= key < stop`.

        On a large range this takes long, and `close` waits for it.

        LevelDB compacts a range level by level, but does not rewrite its lowest table, which contains the first flush
        of a range, deleted values included. Deletions at both ends of the range create a table above it, so that the
        second compaction must rewrite it. They are written like any batch: an unsynced batch before a synced batch
        would look like damage in the middle of the log after a power failure (`files.log`).
        """
        await self._submit(self._maintenance, self._compact, start, stop)
        await self.write(await self._span(start, stop))
        await self._submit(self._maintenance, self._compact, start, stop)

    async def room(self, *, is_full: bool) -> Room:
        """Return the free space, and create the ballast if there is room for it; see `reserve`."""
        return await self._submit(self._reader, self._look, is_full)

    async def _span(self, start: bytes, stop: bytes) -> Batch:
        """Return deletions of nonexistent keys near both ends of a range."""
        candidates = (start + b"\x00", _just_below(stop))
        return {key: None for key in candidates if start <= key < stop and await self.get(key) is None}

    async def snapshot(self, *, is_followed: bool = False) -> LevelDBSnapshot:
        """Return the current content of the store, to be read while writes continue; wait for a running `reclaim`.

        A snapshot to be followed is taken on the thread that writes, so that the number of its last change is known.
        The deletion of a random key before it makes sure that a batch ends there, which no other history has.
        """
        submit = partial(self._submit, self._maintenance)
        if not is_followed:
            return LevelDBSnapshot(await submit(self._database.snapshot), submit, self._opened.path)
        await self._submit(self._writer, self._keep_history)
        await self.write({b"\xff" + os.urandom(16): None})
        taken, change = await self._submit(self._writer, self._take_snapshot)
        snapshot = LevelDBSnapshot(taken, submit, self._opened.path)
        try:
            snapshot.position = await self._submit(self._reader, self._history.position_at, change)
        except BaseException:
            await snapshot.close()
            raise
        return snapshot

    async def writes_after(self, position: Position, max_bytes: int) -> Writes:
        """Return writes after a position, in order: at most `max_bytes`, or one if that is larger."""
        return await self._submit(self._reader, self._writes_after, position, self.last_change, max_bytes)

    async def close(self) -> None:
        """Stop the threads, close the files, and release the directory; safe to call twice.

        Running calls are finished; queued calls raise `StoreClosedError`. Nothing is synced.
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
        """Fill LevelDB's batch on the event loop; the thread only writes it.

        Each `put` releases and reacquires the interpreter lock. The event loop does this immediately, but the thread
        must wait for a busy loop. With a loop whose callbacks take up to 0.25 ms, a commit of three keys took 0.8 ms
        when the thread filled the batch, and takes 0.54 ms now.
        """
        try:
            self._check_usable()
        except StorageError as exc:
            return failed(exc)
        try:
            writing = self._database.write_batch(transaction=True, sync=is_synced)
            size_bytes = _fill(writing.__enter__(), batch)
        except Exception as exc:  # not a fault of the disk, but a failed write nevertheless
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
                self._directory_sync.sync_logs()  # this write can begin a log, which requires all earlier writes
            writing.__exit__(None, None, None)
            is_log_known = is_synced or self._sync_mode is SyncMode.INTERVAL
            if is_log_known:
                self._directory_sync.sync_if_changed()
            self._history.follow(self._directory_sync.used_log if is_log_known else None)
            if change_count:
                self.last_change += change_count
                self._unrecorded = Acknowledged(self.last_change, self._directory_sync.used_log)
            if is_synced and self._unrecorded is not None and self._opened.acknowledged is not None:
                # With all changes before it, this one is on the disk: the next startup checks that it is there.
                self._opened.acknowledged.advance(self._unrecorded)
                self._unrecorded = None
            if self._sync_mode is SyncMode.ALWAYS and self._opened.preallocation is not None:
                self._opened.preallocation.follow(self._directory_sync.used_log, size_bytes)
        except Exception as exc:
            self._failure = translated(exc, self._opened.path)
            if isinstance(self._failure, NoSpaceError):
                self._reserve.release()
            raise self._failure from exc

    def _get(self, key: bytes) -> bytes | None:
        try:
            return self._database.get(key, verify_checksums=True)
        except Exception as exc:
            raise self._located(translated(exc, self._opened.path), key, key + b"\0") from exc

    def _scan(self, start: bytes, stop: bytes, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        try:
            return first_pairs(self._database, start, stop, max_items, max_bytes)
        except Exception as exc:
            raise self._located(translated(exc, self._opened.path), start, stop) from exc

    def _last_of(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes] | None]:
        pairs = []
        for start, stop in ranges:
            try:
                exists = self._database.get(start, verify_checksums=True) is not None
                pairs.append(last_pair(self._database, start, stop) if exists else None)
            except Exception as exc:
                raise self._located(translated(exc, self._opened.path), start, stop) from exc
        return pairs

    def _located(self, error: StorageError, start: bytes, stop: bytes) -> StorageError:
        """Return the error, for damage with its file and offset, which LevelDB does not report."""
        location = None
        if isinstance(error, CorruptionError):
            location = name_table_damage(self._opened.path / DATABASE_NAME, (start, stop))
        return error if location is None else CorruptionError(location)

    def _look(self, is_full: bool) -> Room:
        try:
            room = self._reserve.look(is_full=is_full)
        except OSError as exc:
            raise translated(exc, self._opened.path) from exc
        if not room.is_enough:
            self._history.drop()
        return room

    def _keep_history(self) -> None:
        try:
            self._history.keep()
        except OSError as exc:
            raise translated(exc, self._opened.path) from exc

    def _take_snapshot(self) -> tuple[DatabaseSnapshot, int]:
        return self._database.snapshot(), self.last_change

    def _writes_after(self, position: Position, last_change: int, max_bytes: int) -> Writes:
        try:
            return self._history.after(position, last_change, max_bytes)
        except OSError as exc:
            raise translated(exc, self._opened.path) from exc

    def _compact(self, start: bytes, stop: bytes) -> None:
        try:
            self._database.compact_range(start=start, stop=stop)
        except Exception as exc:
            raise translated(exc, self._opened.path) from exc


def _fill(changes: WriteBatch, batch: Batch) -> int:
    """Put all of `batch` into `changes`; return the approximate size of the batch in a log."""
    size_bytes = _BATCH_BYTES + _CHANGE_BYTES * len(batch)
    for key, value in batch.items():
        size_bytes += len(key)
        if value is None:
            changes.delete(key)
        else:
            changes.put(key, value)
            size_bytes += len(value)
    return size_bytes


def _just_below(key: bytes) -> bytes:
    """Return a key that sorts just before `key`, with few possible keys in between."""
    return key[:-1] + bytes([key[-1] - 1]) + b"\xff" * 8 if key[-1:] > b"\x00" else key[:-1]


async def _outcome(opening: "asyncio.Future[Opened]") -> Opened:
    """Wait for the opening; if cancelled, wait nevertheless, and close what it opened."""
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise
