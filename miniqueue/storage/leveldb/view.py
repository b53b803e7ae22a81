"""Reads a store that no process has open, without changing a byte of it.

LevelDB writes whenever it opens a database: it moves the logs into tables, begins a new manifest, and removes files
that it does not need. So it opens another directory with the same content:

    <temporary>/db/CURRENT, MANIFEST-…    copied
    <temporary>/db/….log                  copied; a torn tail is cut from the copy
    <temporary>/db/….ldb                  symbolic links: tables never change, and removing a link keeps its file

Only the tables that the manifest names are linked. A crash can leave other tables, whose numbers LevelDB would use
again, and then it would write through the link. In addition to the links, a view uses twice the space of the logs.

The steps are those of a startup (`opening`), so a view is refused for the same reasons. Since the caller reads
everything, it is also refused for lengths anywhere in the tables that would end the process (`table_check`).
"""

import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from miniqueue.errors import CorruptionError, NotAStoreError
from miniqueue.storage.leveldb.acknowledged import read_acknowledged
from miniqueue.storage.leveldb.database import Database, DatabaseOptions, pairs_between, translated
from miniqueue.storage.leveldb.directory import DATABASE_NAME, UNFINISHED_DATABASE_NAME
from miniqueue.storage.leveldb.files.manifest import parse_manifest
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME, StoreLock
from miniqueue.storage.leveldb.marker import MARKER_FILE_NAME, UNFINISHED_MARKER_NAME, check_marker
from miniqueue.storage.leveldb.opening import open_checked
from miniqueue.storage.leveldb.own_files import read_file, refuse_special_files
from miniqueue.storage.leveldb.set_aside import SetAside
from miniqueue.storage.leveldb.table_check import EVERYTHING, name_table_damage

_MANIFEST = re.compile(rb"(MANIFEST-[0-9]+)\n")
_AFTER_ALL_KEYS = b"\xff" * 1024


@dataclass(frozen=True)
class StoreView:
    """A store as a startup would open it now.

    Attributes:
      directory: directory of the store.
      set_aside: the torn tail that a startup would cut off the log, if any; there is no copy of it yet.
      doubt: reason why acknowledged changes may be missing undetected, if there is one.
    """

    directory: Path
    set_aside: tuple[SetAside, ...]
    _view: Path
    _database: Database | None  # None: the creation of the store was interrupted, so it has no messages
    doubt: str | None = None

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key with its value, in key order, from verified blocks.

        Raises CorruptionError or another StorageError at the first file that cannot be read.
        """
        return self.pairs_of((b"", _AFTER_ALL_KEYS))

    def pairs_of(self, range_: tuple[bytes, bytes]) -> Generator[tuple[bytes, bytes], None, None]:
        """Yield each key with `start <= key < stop` and its value, as `pairs`; close the generator after use."""
        if self._database is None:
            return
        with (
            _errors_naming(self.directory, self._view),
            closing(pairs_between(self._database, *range_)) as remaining,
        ):
            yield from self._located(remaining)

    def _located(self, pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Pass pairs on, and report damage with its file and offset, which LevelDB does not report."""
        key = b""
        try:
            for pair in pairs:
                yield pair
                key = pair[0]
        except Exception as exc:
            location = name_table_damage(self._view / DATABASE_NAME, (key, _AFTER_ALL_KEYS))
            raise exc if location is None else CorruptionError(location) from exc


@contextmanager
def viewed(directory: Path) -> Iterator[StoreView]:
    """Yield a view of the store in `directory`, and lock the store while the block runs.

    Raises:
      StoreInUseError: another process has it open.
      NotAStoreError: there is no store.
      FormatVersionError, CorruptionError, StorageError: a startup would be refused for the same reason.
    """
    _refuse_foreign(directory)
    with tempfile.TemporaryDirectory(prefix="miniqueue-") as temporary, _locked(directory):
        view = _open(directory, Path(temporary))
        try:
            yield view
        finally:
            if view._database is not None:
                view._database.close()


def _refuse_foreign(directory: Path) -> None:
    if not directory.is_dir():
        raise NotAStoreError(f"{directory}: there is no such directory")
    names = {path.name for path in directory.iterdir()}
    is_unfinished = LOCK_FILE_NAME in names and names <= {
        LOCK_FILE_NAME,
        UNFINISHED_MARKER_NAME,
        UNFINISHED_DATABASE_NAME,
    }
    if MARKER_FILE_NAME not in names and not is_unfinished:
        raise NotAStoreError(f"{directory} is not a miniqueue store (no {MARKER_FILE_NAME} in it)")
    refuse_special_files(directory)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    has_lock_file = (directory / LOCK_FILE_NAME).exists()  # a copy of a store can lack it
    lock = StoreLock(directory, leaves_trace=False) if has_lock_file else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _open(directory: Path, view: Path) -> StoreView:
    with _errors_naming(directory, view):
        if not (directory / MARKER_FILE_NAME).exists():
            return StoreView(directory, (), view, None)
        check_marker(directory)
        _fill(view / DATABASE_NAME, directory)
        last, doubt = read_acknowledged(directory)
        database, checked = open_checked(view, DatabaseOptions(), last, EVERYTHING)
    torn = (replace(tail, file=directory / DATABASE_NAME / tail.file.name) for tail in checked.set_aside)
    return StoreView(directory, tuple(torn), view, database, doubt)


def _fill(copy: Path, directory: Path) -> None:
    database = directory / DATABASE_NAME
    if not database.exists():
        database = directory / UNFINISHED_DATABASE_NAME  # only the renaming to db/ is missing
    current = database / "CURRENT"
    if not current.exists():
        raise CorruptionError(f"{current} is missing")
    copy.mkdir()
    for file in (current, *database.glob("*.log")):
        shutil.copyfile(file, copy / file.name)
    name = _MANIFEST.fullmatch(read_file(current))
    if name is not None and (manifest := database / name[1].decode()).exists():
        shutil.copyfile(manifest, copy / manifest.name)
        _link_tables(copy, database.resolve(), parse_manifest(read_file(manifest)).named)


def _link_tables(copy: Path, database: Path, numbers: set[int]) -> None:
    for number in numbers:
        for table in (database / f"{number:06d}.ldb", database / f"{number:06d}.sst"):
            if table.exists():
                (copy / table.name).symlink_to(table)


@contextmanager
def _errors_naming(directory: Path, view: Path) -> Iterator[None]:
    """Translate errors, and replace the path of the view by that of the store."""
    try:
        yield
    except Exception as exc:
        error = translated(exc, directory)
        error.args = tuple(str(argument).replace(str(view), str(directory)) for argument in error.args)
        raise error from exc
