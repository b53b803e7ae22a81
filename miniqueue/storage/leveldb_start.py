"""Open a store directory. Blocking; runs in the writer thread.

The start sequence, each step only after the one before:

    1  refuse a foreign directory, take the lock                            store_directory, store_lock
    2  make the store if the directory is empty; check the marker           store_directory, store_marker
    3  CURRENT must be there, or LevelDB would start afresh                 store_directory
    4  follow the chain of records of the logs; what was acknowledged
       must be there; set a torn tail aside                                 set_aside, log_tail, acknowledged
       tables must be there, sound where a start reads them, and not end
       the process by lengths that LevelDB believes, as far as that is known   table_check
    5  open LevelDB with paranoid checks: it verifies every log record
    6  if it refuses: verify the checksums ourselves, to set a torn tail
       aside or to name file and offset; if a tail was cut, step 5 again
    7  let the marker of an older format say this one                       store_marker

LevelDB writes when it is opened: if the disk is full, the ballast is given back first (`reserve`).
The directory, with the log that LevelDB has just begun, is synced by the first write, before it is acknowledged.
For a log of 64 MiB step 4 costs 0.4 s with records of 100 bytes and 0.05 s with 1 kB; step 6, only after a power
cut, 2.1 s and 0.8 s.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import CorruptionError, NoSpaceError
from miniqueue.storage.acknowledged import Acknowledged, AcknowledgedFile, read_acknowledged
from miniqueue.storage.database import Database, DatabaseOptions, create_database, open_database, translated
from miniqueue.storage.directory_sync import DirectorySync
from miniqueue.storage.preallocation import Preallocation
from miniqueue.storage.reserve import Reserve
from miniqueue.storage.set_aside import Checked, SetAside, check_logs
from miniqueue.storage.store_directory import DATABASE_NAME, LOST_NAME, claim, prepare
from miniqueue.storage.store_lock import StoreLock
from miniqueue.storage.store_marker import MARKER_FILE_NAME, raise_marker
from miniqueue.storage.table_check import BYTES_BEYOND_A_START


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store directory and all that is held for it."""

    path: Path
    database: Database
    directory_sync: DirectorySync
    lock: StoreLock
    set_aside: tuple[SetAside, ...] = ()
    acknowledged: AcknowledgedFile | None = None
    doubts: tuple[str, ...] = ()
    last_change: int = 0
    preallocation: Preallocation | None = None

    def close(self) -> None:
        """Close the database, then give the directory back, whatever fails; raises StorageError."""
        try:
            with ExitStack() as left:
                left.callback(self.lock.release)
                left.callback(self.directory_sync.close)
                if self.acknowledged is not None:
                    left.callback(self.acknowledged.close)
                if self.preallocation is not None:
                    left.callback(self.preallocation.close)
                self.database.close()
        except Exception as exc:
            raise translated(exc, self.path) from exc


def open_directory(path: Path, options: DatabaseOptions, reserve: Reserve | None = None) -> Opened:
    """Carry out the start sequence; on a full disk once more, with the space of the ballast.

    Raises:
      StorageError: or one of its subclasses, see `LevelDBStore.open`; nothing stays open or locked.
    """
    try:
        return _open_translated(path, options)
    except NoSpaceError:
        if reserve is None or not reserve.give_back():
            raise
        return _open_translated(path, options)


def _open_translated(path: Path, options: DatabaseOptions) -> Opened:
    try:
        return _open_directory(path, options)
    except Exception as exc:
        raise translated(exc, path) from exc


def _open_directory(path: Path, options: DatabaseOptions) -> Opened:
    with ExitStack() as held:
        lock = claim(path)
        held.callback(lock.release)
        is_new = not (path / MARKER_FILE_NAME).exists()
        prepare(path, create_database)
        directory_sync = DirectorySync(path / DATABASE_NAME)
        held.callback(directory_sync.close)
        last, doubt = read_acknowledged(path)
        database, checked = open_checked(path, options, last)
        held.callback(database.close)
        acknowledged = AcknowledgedFile(path)
        raise_marker(path)
        held.pop_all()
    doubts = () if doubt is None or is_new else (doubt,)
    set_aside, last_change = checked
    preallocation = Preallocation(path / DATABASE_NAME)
    return Opened(
        path, database, directory_sync, lock, tuple(set_aside), acknowledged, doubts, last_change, preallocation
    )


def open_checked(
    path: Path,
    options: DatabaseOptions,
    acknowledged: Acknowledged | None,
    max_table_bytes: int = BYTES_BEYOND_A_START,
) -> tuple[Database, Checked]:
    """Carry out steps 4 to 6 on the directory `path`; look into so much of its tables beyond what a start reads."""
    database, lost = path / DATABASE_NAME, path / LOST_NAME
    checked = check_logs(
        database, lost, verify_checksums=False, acknowledged=acknowledged, max_table_bytes=max_table_bytes
    )
    try:
        return _open_database(database, options), checked
    except Exception as refusal:
        if not isinstance(translated(refusal, path), CorruptionError):
            raise
        explained = check_logs(database, lost, verify_checksums=True, acknowledged=acknowledged)
        if not any(torn.copy for torn in explained.set_aside):
            raise  # it is not a log that is damaged
    set_aside = [torn for torn in checked.set_aside if torn.copy] + explained.set_aside
    return _open_database(database, options), Checked(set_aside, explained.last_change)


def _open_database(database: Path, options: DatabaseOptions) -> Database:
    """Open LevelDB; when it refuses, take back the tables that it has made of logs until then."""
    before = set(database.glob("*.ldb"))
    try:
        return open_database(database, options)
    except Exception:
        for table in set(database.glob("*.ldb")) - before:
            table.unlink()
        raise
