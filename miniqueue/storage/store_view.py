"""Read a store that nobody has open, without changing a byte of it.

LevelDB writes whenever it opens a database: it moves the logs into tables, begins a new manifest, removes what it
does not need. So it is given another directory to do so, with the same content:

    <temporary>/db/CURRENT, MANIFEST-…    copied
    <temporary>/db/….log                  copied; a torn tail is cut from the copy
    <temporary>/db/….ldb                  symbolic links: tables never change, and removing a link leaves its file

Only the tables that the manifest names are linked. A crash may leave others, whose numbers LevelDB would use
again, and then it would write through the link. Beside the links this takes as much space as the logs, twice.

The steps are those of a start (`leveldb_start`), so a view is refused for the same reasons. Since all is going to be
read, it is also refused for lengths anywhere in the tables that would end the process (`table_check`).
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from miniqueue.errors import CorruptionError, NotAStoreError
from miniqueue.storage.acknowledged import read_acknowledged
from miniqueue.storage.database import Database, DatabaseOptions, pairs_between, translated
from miniqueue.storage.leveldb_start import open_checked
from miniqueue.storage.manifest import parse_manifest
from miniqueue.storage.own_files import read_file, refuse_special_files
from miniqueue.storage.set_aside import SetAside
from miniqueue.storage.store_directory import DATABASE_NAME, UNFINISHED_DATABASE_NAME
from miniqueue.storage.store_lock import LOCK_FILE_NAME, StoreLock
from miniqueue.storage.store_marker import MARKER_FILE_NAME, UNFINISHED_MARKER_NAME, check_marker
from miniqueue.storage.table_check import EVERYTHING, name_table_damage

_MANIFEST = re.compile(rb"(MANIFEST-[0-9]+)\n")
_AFTER_ALL_KEYS = b"\xff" * 1024


@dataclass(frozen=True)
class StoreView:
    """A store as a start would find it now.

    Attributes:
      directory: of the store.
      set_aside: the torn tail that a start would cut off the log, if any; there is no copy of it yet.
      doubt: why it cannot be known whether all that was acknowledged is there, if so.
    """

    directory: Path
    set_aside: tuple[SetAside, ...]
    _view: Path
    _database: Database | None  # None: the creation of the store was broken off, it has never had a message
    doubt: str | None = None

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key with its value, in key order, from verified blocks.

        Raises CorruptionError or another StorageError where a file cannot be read; nothing comes after it.
        """
        if self._database is None:
            return
        with (
            _in_terms_of(self.directory, self._view),
            closing(pairs_between(self._database, b"", _AFTER_ALL_KEYS)) as found,
        ):
            yield from self._with_place(found)

    def _with_place(self, found: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Pass pairs on, and damage with the file and offset that LevelDB does not name."""
        key = b""
        try:
            for pair in found:
                yield pair
                key = pair[0]
        except Exception as exc:
            place = name_table_damage(self._view / DATABASE_NAME, (key, _AFTER_ALL_KEYS))
            raise exc if place is None else CorruptionError(place) from exc


@contextmanager
def viewed(directory: Path) -> Iterator[StoreView]:
    """Hold the store in `directory`, which nobody may have open, while the block runs.

    Raises:
      StoreInUseError: somebody has it open.
      NotAStoreError: there is no store.
      FormatVersionError, CorruptionError, StorageError: a start would be refused for the same reason.
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
    has_lock_file = (directory / LOCK_FILE_NAME).exists()  # a copy of a store may be without one
    lock = StoreLock(directory, leaves_trace=False) if has_lock_file else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _open(directory: Path, view: Path) -> StoreView:
    with _in_terms_of(directory, view):
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
        database = directory / UNFINISHED_DATABASE_NAME  # only its renaming is missing
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
def _in_terms_of(directory: Path, view: Path) -> Iterator[None]:
    """Translate errors, and let them name the store instead of its view."""
    try:
        yield
    except Exception as exc:
        error = translated(exc, directory)
        error.args = tuple(str(argument).replace(str(view), str(directory)) for argument in error.args)
        raise error from exc
