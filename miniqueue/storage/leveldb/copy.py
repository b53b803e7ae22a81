"""Creates a store directory from pairs, completely or not at all.

    new directory alongside the target ─ content ─ close ─ modes 0700, 0600 ─ sync every file ─ rename ─ sync

A crash leaves `.<name>.unfinished-<random>`, which no tool mistakes for a store; any other failure leaves nothing. The
target must be missing or empty. No library writes a directory atomically.
"""

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from miniqueue.errors import NotEmptyError
from miniqueue.storage.leveldb.acknowledged import Acknowledged
from miniqueue.storage.leveldb.database import Database, DatabaseOptions, translated
from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME
from miniqueue.storage.leveldb.opening import Opened, open_directory

#: Size of the pairs in one write batch; memory use is not much larger.
BATCH_BYTES = 1 << 20


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
    with _unfinished(directory) as unfinished, _translating(directory):
        count = _fill(unfinished, pairs)
        _make_private_and_durable(unfinished)
        unfinished.rename(directory)
        sync_path(directory.parent)
    return count


def refuse_content(directory: Path) -> None:
    """Raise NotEmptyError unless a store can be created in `directory`."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotEmptyError(f"{directory} is not an empty directory")


@contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """Create a directory alongside `directory`; remove it at the end unless it was renamed."""
    absolute = directory.absolute()
    unfinished = absolute.with_name(f".{absolute.name}.unfinished-{secrets.token_hex(4)}")
    try:  # before the directory exists, since a signal can arrive at any moment
        with _translating(directory):
            unfinished.mkdir(mode=0o700, parents=True)
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(directory: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    opened = open_directory(directory, DatabaseOptions())
    try:
        count = sum(_write(opened.database, batch) for batch in _batches(pairs))
        _record_last_change(opened, count)
    finally:
        opened.close()
    (directory / LOCK_FILE_NAME).unlink()  # it contains the id of this process, which will not have the store open
    return count


def _record_last_change(opened: Opened, count: int) -> None:
    """Record the last change, without which damage to the newest log would look like a torn tail."""
    opened.directory_sync.sync_logs()  # determines `used_log`
    if count and opened.acknowledged is not None:
        opened.acknowledged.advance(Acknowledged(opened.last_change + count, opened.directory_sync.used_log))


def _batches(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    batch: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    for pair in pairs:
        batch.append(pair)
        size_bytes += len(pair[0]) + len(pair[1])
        if size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _write(database: Database, batch: list[tuple[bytes, bytes]]) -> int:
    with database.write_batch(transaction=True, sync=False) as changes:  # all files are synced at the end
        for key, value in batch:
            changes.put(key, value)
    return len(batch)


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
