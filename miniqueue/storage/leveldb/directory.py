"""The directory of a store: the check that it is one, its creation, and its required files.

    miniqueue.lock            held by the process that has the store open        lock
    miniqueue.format          the format version, which marks a store            marker
    miniqueue.acknowledged    the last acknowledged change                       acknowledged
    miniqueue.ballast         space that is released if the disk is full         reserve
    db/                       LevelDB's files
    lost/                     logs as they were before a torn tail was cut       set_aside
    recent/                   logs that a copy may still need                    history
    miniqueue.follows         in a copy that follows a broker: its position      replica

A store is created only in a missing or empty directory, and opened only if there is a marker. Creation can restart
after a crash at each step, and `db/` never exists without a marker:

    take the lock ► database in db.unfinished/ ► sync ► marker ► sync ► rename to db/ ► sync

Before the marker exists there is no message, so `db.unfinished/` is deleted and created again. After the marker, only
the renaming to `db/` is missing. If there is a `db/` without a marker, the marker was lost: the directory is refused,
like a directory with any other file.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from miniqueue.errors import CorruptionError, NotAStoreError, NotEmptyError
from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME, StoreLock
from miniqueue.storage.leveldb.marker import MARKER_FILE_NAME, UNFINISHED_MARKER_NAME, check_marker, write_marker
from miniqueue.storage.leveldb.own_files import refuse_special_files

DATABASE_NAME = "db"
LOST_NAME = "lost"
RECENT_NAME = "recent"
#: In a copy that follows a broker: its position (`replica`).
FOLLOWS_NAME = "miniqueue.follows"
UNFINISHED_DATABASE_NAME = "db.unfinished"

_LEFT_BY_UNFINISHED_CREATION = {LOCK_FILE_NAME, UNFINISHED_MARKER_NAME, UNFINISHED_DATABASE_NAME}


def claim(directory: Path) -> StoreLock:
    """Lock a directory that is a store or can become one; create it if it is missing.

    Raises:
      NotAStoreError: it is something else, or contains links or other special files; nothing in it was changed.
      StoreInUseError: another opener has it open.
    """
    _refuse_foreign(directory)
    _make_directory(directory)
    return StoreLock(directory)


def refuse_unless_following(directory: Path) -> None:
    """Raise NotEmptyError unless a locked directory is a copy that follows, and that no broker has used since."""
    if not (directory / FOLLOWS_NAME).exists():
        raise NotEmptyError(
            f"{directory} follows no broker (any more): it was served or changed; choose another directory"
        )


def end_following(directory: Path) -> None:
    """Make a locked store one that follows no broker, durably: from now on it has a history of its own."""
    follows = directory / FOLLOWS_NAME
    if follows.exists():
        follows.unlink()
        sync_path(directory)


def prepare(directory: Path, create_database: Callable[[Path], None]) -> None:
    """Make a claimed directory a store unless it is one, and check that its parts exist.

    Args:
      directory: a directory that `claim` locked.
      create_database: creates an empty, closed database in an empty directory.

    Raises:
      FormatVersionError: the store is in a format that this version does not read.
      CorruptionError: a part of the store is missing; without it, LevelDB would create an empty database.
    """
    if not (directory / MARKER_FILE_NAME).exists():
        _create(directory, create_database)
    check_marker(directory)
    _finish_renaming(directory)
    current = directory / DATABASE_NAME / "CURRENT"
    if not current.exists():
        raise CorruptionError(f"{current} is missing")


def _refuse_foreign(directory: Path) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise NotAStoreError(f"{directory} is not a directory")
    names = {path.name for path in directory.iterdir()}
    is_unfinished = LOCK_FILE_NAME in names and names <= _LEFT_BY_UNFINISHED_CREATION
    if names and MARKER_FILE_NAME not in names and not is_unfinished:
        raise NotAStoreError(f"{directory} is neither empty nor a miniqueue store (no {MARKER_FILE_NAME} in it)")
    refuse_special_files(directory)


def _make_directory(directory: Path) -> None:
    if not directory.exists():
        _make_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)  # another process can create it at the same time
        sync_path(directory.parent)


def _create(directory: Path, create_database: Callable[[Path], None]) -> None:
    unfinished = directory / UNFINISHED_DATABASE_NAME
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    create_database(unfinished)
    for path in (*unfinished.iterdir(), unfinished):
        sync_path(path)
    write_marker(directory)
    sync_path(directory)


def _finish_renaming(directory: Path) -> None:
    unfinished, database = directory / UNFINISHED_DATABASE_NAME, directory / DATABASE_NAME
    if unfinished.exists() and not database.exists():
        unfinished.rename(database)
        sync_path(directory)
