"""Creates a store directory from pairs, completely or not at all.

    new directory alongside the target ─ content ─ close ─ modes 0700, 0600 ─ sync every file ─ rename ─ sync

A crash leaves `.<name>.unfinished-<random>`, which no tool mistakes for a store; any other failure leaves nothing. The
target must be missing or empty, and no mount point; links are followed. No library writes a directory atomically.

`write_shards` does the same for a store with shards: the file with the number of shards is written last.

`replace_store` replaces the copy that is there: the two directories exchange their names in one step, so that there is
a whole copy at every moment. What a crash of it leaves has a fixed name, and the next call removes it.
"""

import ctypes
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from miniqueue.errors import NotEmptyError, StorageError
from miniqueue.storage.leveldb.acknowledged import Acknowledged
from miniqueue.storage.leveldb.database import MIB, Database, DatabaseOptions, translated
from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME
from miniqueue.storage.leveldb.opening import Opened, open_directory
from miniqueue.storage.leveldb.shards import mark_shards, store_of_shard

#: Size of the pairs in one write batch; memory use is not much larger.
BATCH_BYTES = 1 << 20
#: LevelDB's write buffers of all stores that are written at once; each has at least `_MIN_BUFFER_BYTES`.
_ALL_BUFFERS_BYTES, _MIN_BUFFER_BYTES = 32 * MIB, 2 * MIB
#: Of renameat2(2): paths are relative to the working directory; the two files exchange their names.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_store(directory: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Make `directory` a store that contains exactly `pairs`; return their number.

    Args:
      directory: missing or empty; missing parents are created.
      pairs: pairs in key order; their exceptions are passed on.

    Raises:
      NotEmptyError: the directory is not empty.
      StorageError: the directory cannot be written.
    """
    refuse_content(directory)
    directory = directory.resolve()
    name = f"unfinished-{secrets.token_hex(4)}"
    with _unfinished(directory, name) as unfinished, _translating(directory):
        count = fill_store(unfinished, pairs)
        _make_private_and_durable(unfinished)
        unfinished.rename(directory)
        sync_path(directory.parent)
    return count


def write_shards(directory: Path, count: int, pairs: Iterable[tuple[int, tuple[bytes, bytes]]]) -> list[int]:
    """Make `directory` a store with `count` shards that contain exactly `pairs`; return their number in each shard.

    Args:
      directory: missing or empty; missing parents are created.
      count: number of shards.
      pairs: the number of a shard, and a pair for it; best in key order. Their exceptions are passed on.

    Raises as `write_store`.
    """
    refuse_content(directory)
    directory = directory.resolve()
    name = f"unfinished-{secrets.token_hex(4)}"
    with _unfinished(directory, name) as unfinished, _translating(directory):
        counts = fill_shards(unfinished, count, pairs)
        _make_private_and_durable(unfinished)
        unfinished.rename(directory)
        sync_path(directory.parent)
    return counts


def replace_store(directory: Path, fill: Callable[[Path], None]) -> None:
    """Make `directory`, which the caller has locked, what `fill` makes of an empty one.

    Args:
      directory: an existing directory; its content is removed when the new one is complete. The caller must release
        its lock then, and must not use what it has opened there.
      fill: called with the directory to fill; its exceptions are passed on, and then nothing has changed.

    Raises StorageError: the directory cannot be written, or names cannot be exchanged here.
    """
    name, directory = "unfinished-follower", directory.resolve()
    with _translating(directory):
        shutil.rmtree(_beside(directory, name), ignore_errors=True)
    with _unfinished(directory, name) as unfinished, _translating(directory):
        fill(unfinished)
        _make_private_and_durable(unfinished)
        _exchange(unfinished, directory)  # the old content is at the unfinished name, and is removed with it
        sync_path(directory.parent)


def _exchange(directory: Path, other: Path) -> None:
    """Exchange the names of two directories in one step; raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_AT_FDCWD, os.fsencode(directory), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot exchange {directory} and {other}: {os.strerror(number)}")


def refuse_mount(directory: Path) -> None:
    """Raise StorageError if `directory` is a mount point, which no other directory can take the place of."""
    if directory.resolve().is_mount():
        raise StorageError(f"{directory} is a mount point; choose a directory in it")


def refuse_content(directory: Path) -> None:
    """Raise NotEmptyError unless a store can be created in `directory`, or StorageError if it is a mount point."""
    refuse_mount(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotEmptyError(f"{directory} is not an empty directory")


@contextmanager
def _unfinished(directory: Path, name: str) -> Iterator[Path]:
    """Create a directory alongside `directory`; remove it at the end unless it was renamed."""
    unfinished = _beside(directory, name)
    try:  # before the directory exists, since a signal can arrive at any moment
        with _translating(directory):
            unfinished.mkdir(mode=0o700, parents=True)
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _beside(directory: Path, name: str) -> Path:
    return directory.with_name(f".{directory.name}.{name}")


def fill_store(directory: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Create a store in an empty directory; return the number of its pairs, which is that of its last change."""
    with _filling(directory, DatabaseOptions()) as store:
        for pair in pairs:
            store.put(pair)
    return store.count


def fill_shards(directory: Path, count: int, pairs: Iterable[tuple[int, tuple[bytes, bytes]]]) -> list[int]:
    """Create a store with `count` shards in an empty directory, as `fill_store`; return what it returns, by shard."""
    options = DatabaseOptions(write_buffer_bytes=max(_ALL_BUFFERS_BYTES // count, _MIN_BUFFER_BYTES))
    with ExitStack() as filled:
        stores = [filled.enter_context(_filling(store_of_shard(directory, number), options)) for number in range(count)]
        for number, pair in pairs:
            stores[number].put(pair)
    mark_shards(directory, count)
    return [store.count for store in stores]


class _Filling:
    """Writes pairs into a new store, in batches.

    Attributes:
      count: number of pairs so far.
    """

    def __init__(self, database: Database) -> None:
        self.count = 0
        self._database = database
        self._batch: list[tuple[bytes, bytes]] = []
        self._size_bytes = 0

    def put(self, pair: tuple[bytes, bytes]) -> None:
        """Add a pair."""
        self._batch.append(pair)
        self._size_bytes += len(pair[0]) + len(pair[1])
        if self._size_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was added."""
        with self._database.write_batch(transaction=True, sync=False) as changes:  # all files are synced at the end
            for key, value in self._batch:
                changes.put(key, value)
        self.count += len(self._batch)
        self._batch, self._size_bytes = [], 0


@contextmanager
def _filling(directory: Path, options: DatabaseOptions) -> Iterator[_Filling]:
    """Create a store, and close it when the block ends, which has put its pairs into it."""
    opened = open_directory(directory, options)
    try:
        store = _Filling(opened.database)
        yield store
        store.flush()
        _record_last_change(opened, store.count)
    finally:
        opened.close()
    (directory / LOCK_FILE_NAME).unlink()  # it contains the id of this process, which will not have the store open


def _record_last_change(opened: Opened, count: int) -> None:
    """Record the last change, without which damage to the newest log would look like a torn tail."""
    opened.directory_sync.sync_logs()  # determines `used_log`
    if count and opened.acknowledged is not None:
        opened.acknowledged.advance(Acknowledged(opened.last_change + count, opened.directory_sync.used_log))


def _make_private_and_durable(directory: Path) -> None:
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o700 if path.is_dir() else 0o600)
        sync_path(path)


@contextmanager
def _translating(directory: Path) -> Iterator[None]:
    """Translate errors of the file system and of LevelDB; pass other errors on."""
    try:
        yield
    except OSError as exc:
        raise translated(exc, directory) from exc
