"""Make a store directory out of the content of another, whole or not at all.

    new directory beside the target ─ content ─ close ─ modes 0700, 0600 ─ sync every file ─ rename ─ sync

A crash leaves `.<name>.unfinished-<random>`, which nobody takes for a store by mistake; any other failure leaves
nothing. The target must be missing or empty.
"""

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from miniqueue.errors import NotEmptyError
from miniqueue.storage.database import Database, DatabaseOptions, translated
from miniqueue.storage.directory_sync import sync_path
from miniqueue.storage.leveldb_start import open_directory
from miniqueue.storage.store_lock import LOCK_FILE_NAME

BATCH_BYTES = 1 << 20


def write_store(directory: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Make `directory` a store that holds exactly `pairs`; return how many there are.

    Args:
      directory: missing or empty; its parent is made if need be.
      pairs: in key order. What it raises is passed on.

    Raises:
      NotEmptyError: there is something in it.
      StorageError: it cannot be written.
    """
    refuse_content(directory)
    with _unfinished(directory) as unfinished, _translating(directory):
        count = _fill(unfinished, pairs)
        _make_private_and_durable(unfinished)
        unfinished.rename(directory)
        sync_path(directory.parent)
    return count


def refuse_content(directory: Path) -> None:
    """Raise NotEmptyError unless a store can be made in `directory`."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotEmptyError(f"{directory} is not an empty directory")


@contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """Make a directory beside the one named; remove it if it is still there at the end."""
    absolute = directory.absolute()
    unfinished = absolute.with_name(f".{absolute.name}.unfinished-{secrets.token_hex(4)}")
    try:  # from before the directory is there: a signal may come at any moment
        with _translating(directory):
            unfinished.mkdir(mode=0o700, parents=True)
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(directory: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    opened = open_directory(directory, DatabaseOptions())
    try:
        count = sum(_write(opened.database, batch) for batch in _batches(pairs))
    finally:
        opened.close()
    (directory / LOCK_FILE_NAME).unlink()  # it names this process, which will not have the store open
    return count


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
    with database.write_batch(transaction=True, sync=False) as changes:  # all is synced at the end
        for key, value in batch:
            changes.put(key, value)
    return len(batch)


def _make_private_and_durable(directory: Path) -> None:
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o700 if path.is_dir() else 0o600)
        sync_path(path)


@contextmanager
def _translating(directory: Path) -> Iterator[None]:
    """Translate the errors of the file system and of LevelDB; ours pass."""
    try:
        yield
    except OSError as exc:
        raise translated(exc, directory) from exc
