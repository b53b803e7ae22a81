"""Open a store directory. Blocking; runs in the writer thread.

The start sequence, each step only after the one before:

    1  refuse a foreign directory, take the lock                            store_directory, store_lock
    2  make the store if the directory is empty; check the marker           store_directory, store_marker
    3  CURRENT must be there, or LevelDB would start afresh                 store_directory
    4  follow the chain of records of the logs; set a torn tail aside       set_aside, log_tail
    5  open LevelDB with paranoid checks: it verifies every log record
    6  if it refuses: verify the checksums ourselves, to set a torn tail
       aside or to name file and offset; if a tail was cut, step 5 again
    7  sync the directory: the log that LevelDB has just begun is in it     directory_sync

Step 4 costs about 0.1 s for a log of 16 MiB in small records; step 6 some seconds, but only after a power
cut.
"""

from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import CorruptionError
from miniqueue.storage.database import Database, DatabaseOptions, create_database, open_database, translated
from miniqueue.storage.directory_sync import DirectorySync
from miniqueue.storage.set_aside import SetAside, check_logs
from miniqueue.storage.store_directory import DATABASE_NAME, LOST_NAME, claim, prepare
from miniqueue.storage.store_lock import StoreLock


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store directory and all that is held for it."""

    path: Path
    database: Database
    directory_sync: DirectorySync
    lock: StoreLock
    set_aside: tuple[SetAside, ...] = ()

    def close(self) -> None:
        """Close the database, then give the directory back."""
        try:
            self.database.close()
        finally:
            self.directory_sync.close()
            self.lock.release()


def open_directory(path: Path, options: DatabaseOptions) -> Opened:
    """Carry out the start sequence.

    Raises:
      StorageError: or one of its subclasses, see `LevelDBStore.open`; nothing stays open or locked.
    """
    try:
        lock = claim(path)
        try:
            return _open_claimed(path, lock, options)
        except BaseException:
            lock.release()
            raise
    except Exception as exc:
        raise translated(exc, path) from exc


def _open_claimed(path: Path, lock: StoreLock, options: DatabaseOptions) -> Opened:
    prepare(path, create_database)
    set_aside = check_logs(path / DATABASE_NAME, path / LOST_NAME, verify_checksums=False)
    try:
        database = open_database(path / DATABASE_NAME, options)
    except Exception as refusal:
        set_aside += _explain(path, refusal)
        database = open_database(path / DATABASE_NAME, options)
    return _synced(Opened(path, database, DirectorySync(path / DATABASE_NAME), lock, tuple(set_aside)))


def _explain(path: Path, refusal: Exception) -> list[SetAside]:
    """Set a torn tail aside, or raise the reason why LevelDB would not open."""
    if not isinstance(translated(refusal, path), CorruptionError):
        raise refusal
    set_aside = check_logs(path / DATABASE_NAME, path / LOST_NAME, verify_checksums=True)
    if not set_aside:
        raise refusal  # it is not a log that is damaged
    return set_aside


def _synced(opened: Opened) -> Opened:
    try:
        opened.directory_sync.sync_if_changed()
    except BaseException:
        opened.database.close()
        raise
    return opened
