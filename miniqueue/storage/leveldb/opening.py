"""Opens a store directory. Blocking; runs in the writer thread.

The startup sequence; each step requires the step before it:

    1  refuse a foreign directory; take the lock                              directory, lock
    2  create the store if the directory is empty; check the marker           directory, marker
    3  check that CURRENT exists; otherwise LevelDB would begin again         directory
    4  follow the chain of records of the logs; check that the acknowledged
       changes exist; set a torn tail aside                                   set_aside, files.log, acknowledged
       check that the tables exist, that the parts that a startup reads are
       sound, and, in some of the rest, the lengths that LevelDB trusts       table_check, files.table
       name the logs again that a follower may need                           history
    5  open LevelDB with paranoid checks: it verifies every log record
    6  if it refuses: verify the checksums here, to set a torn tail aside
       or to report file and offset; if a tail was cut, repeat step 5
    7  raise the marker of an older format                                    marker

LevelDB writes when it is opened, so if the disk is full, the ballast is released first (`reserve`). The first write
syncs the directory, with the log that LevelDB has just begun, before it is acknowledged. For a log of 64 MiB, twice
the usual size, step 4 takes 0.4 s with records of 100 bytes and 0.05 s with records of 1 kB. Step 6, which is needed
only after a power failure, takes 2.1 s and 0.8 s.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import CorruptionError, NoSpaceError
from miniqueue.storage.leveldb.acknowledged import Acknowledged, AcknowledgedFile, read_acknowledged
from miniqueue.storage.leveldb.database import Database, DatabaseOptions, create_database, open_database, translated
from miniqueue.storage.leveldb.directory import (
    DATABASE_NAME,
    LOST_NAME,
    claim,
    end_following,
    prepare,
    refuse_unless_following,
)
from miniqueue.storage.leveldb.directory_sync import DirectorySync
from miniqueue.storage.leveldb.history import History
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.marker import MARKER_FILE_NAME, raise_marker
from miniqueue.storage.leveldb.preallocation import Preallocation
from miniqueue.storage.leveldb.reserve import Reserve
from miniqueue.storage.leveldb.set_aside import Checked, SetAside, check_logs
from miniqueue.storage.leveldb.table_check import BYTES_BEYOND_A_START


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store directory and its resources."""

    path: Path
    database: Database
    directory_sync: DirectorySync
    lock: StoreLock
    set_aside: tuple[SetAside, ...] = ()
    acknowledged: AcknowledgedFile | None = None
    doubts: tuple[str, ...] = ()
    last_change: int = 0
    preallocation: Preallocation | None = None
    history: History | None = None

    def close(self) -> None:
        """Close the database, then release the directory, even if a step fails; raise StorageError."""
        try:
            with ExitStack() as remaining:
                remaining.callback(self.lock.release)
                remaining.callback(self.directory_sync.close)
                if self.acknowledged is not None:
                    remaining.callback(self.acknowledged.close)
                if self.preallocation is not None:
                    remaining.callback(self.preallocation.close)
                self.database.close()
        except Exception as exc:
            raise translated(exc, self.path) from exc


def open_directory(
    path: Path, options: DatabaseOptions, reserve: Reserve | None = None, *, is_follower: bool = False
) -> Opened:
    """Carry out the startup sequence; if the disk is full, release the ballast and try again.

    Args:
      path: path of the directory.
      options: memory use and compression of LevelDB.
      reserve: the ballast.
      is_follower: whether to go on with a copy that follows a broker; otherwise it ends to follow, since changes of its
        own may come.

    Raises:
      StorageError: or a subclass, see `LevelDBStore.open`; nothing remains open or locked.
    """
    try:
        return _open_translated(path, options, is_follower)
    except NoSpaceError:
        if reserve is None or not reserve.release():
            raise
        return _open_translated(path, options, is_follower)


def _open_translated(path: Path, options: DatabaseOptions, is_follower: bool) -> Opened:
    try:
        return _open_directory(path, options, is_follower)
    except Exception as exc:
        raise translated(exc, path) from exc


def _open_directory(path: Path, options: DatabaseOptions, is_follower: bool) -> Opened:
    with ExitStack() as held:
        lock = claim(path)
        held.callback(lock.release)
        if is_follower:
            refuse_unless_following(path)
        else:
            end_following(path)
        is_new = not (path / MARKER_FILE_NAME).exists()
        prepare(path, create_database)
        directory_sync = DirectorySync(path / DATABASE_NAME)
        held.callback(directory_sync.close)
        last, doubt = read_acknowledged(path)
        history = History(path)
        history.resume()
        database, checked = open_checked(path, options, last)
        held.callback(database.close)
        acknowledged = AcknowledgedFile(path)
        raise_marker(path)
        held.pop_all()
    doubts = () if doubt is None or is_new else (doubt,)
    set_aside, last_change = checked
    preallocation = Preallocation(path / DATABASE_NAME)
    return Opened(
        path,
        database,
        directory_sync,
        lock,
        tuple(set_aside),
        acknowledged,
        doubts,
        last_change,
        preallocation,
        history,
    )


def open_checked(
    path: Path,
    options: DatabaseOptions,
    acknowledged: Acknowledged | None,
    max_table_bytes: int = BYTES_BEYOND_A_START,
) -> tuple[Database, Checked]:
    """Carry out steps 4 to 6; check at most `max_table_bytes` of the tables beyond what a startup reads."""
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
            raise  # the damage is not in a log
    set_aside = [torn for torn in checked.set_aside if torn.copy] + explained.set_aside
    return _open_database(database, options), Checked(set_aside, explained.last_change)


def _open_database(database: Path, options: DatabaseOptions) -> Database:
    """Open LevelDB; if it refuses, remove the tables that it has made of logs until then."""
    before = set(database.glob("*.ldb"))
    try:
        return open_database(database, options)
    except Exception:
        for table in set(database.glob("*.ldb")) - before:
            table.unlink()
        raise
