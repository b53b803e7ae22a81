"""Checks the tables of a LevelDB database: at startup, the parts that it reads; later, to locate damage.

    every table that the manifest names      exists and has its size                       at startup
    blocks that can contain a range          have the right checksum                       at startup, of what it reads
    all other blocks, the newest first       have plausible lengths                        at startup, up to a limit

The work grows with the number of tables and with the state of topics, not with the messages. A table with right
checksums and wrong lengths, which ends the process when LevelDB reads it, can only be made by a user with write access
to the store; checking all lengths takes as long as reading everything. So a startup checks a few MiB, which covers a
small store completely, and a tool that reads everything checks everything first (`view`).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path

from miniqueue.errors import CorruptionError
from miniqueue.storage.format.keys import KeyRange
from miniqueue.storage.leveldb.files.manifest import Manifest, Table, parse_manifest
from miniqueue.storage.leveldb.files.table import find_table_damage
from miniqueue.storage.leveldb.own_files import read_file

#: Maximum amounts to check when a reader has encountered damage: a page is 1 MiB or one value, but can be in any table.
_MAX_BYTES_TO_NAME = 8 << 20
_MAX_TABLES_TO_NAME = 16
#: A limit for tools that read, and so check, all bytes.
EVERYTHING = 1 << 62
#: Amount of the tables that a startup checks beyond what it reads; takes 0.05 s, with snappy 0.15 s.
BYTES_BEYOND_A_START = 4 << 20
_CURRENT = re.compile(rb"(MANIFEST-[0-9]+)\n")
_AFTER_ALL_KEYS = b"\xff" * 32
_ALL_KEYS = (b"", b"\xff" * 1024)


def check_tables(database: Path, manifest: Manifest, key_range: KeyRange, max_bytes_beyond: int) -> None:
    """Refuse tables that are missing, have a wrong size, are damaged in a range, or would end the process.

    Args:
      database: LevelDB's directory.
      manifest: manifest of the database.
      key_range: range of the keys that a startup reads.
      max_bytes_beyond: amount of the tables, newest first, to check for lengths that would end the process.

    Raises:
      CorruptionError: a table is refused; the text has file and offset.
    """
    for table in manifest.tables.values():
        _refuse_wrong_size(_path(database, table), table)
    for table in _read_for(manifest.tables.values(), key_range):
        _refuse_damage(_path(database, table), key_range, EVERYTHING)
    for table in sorted(manifest.tables.values(), key=attrgetter("number"), reverse=True):
        if max_bytes_beyond <= 0:
            break
        _refuse_damage(_path(database, table), _ALL_KEYS, max_bytes_beyond, verify_checksums=False)
        max_bytes_beyond -= table.size_bytes


def name_table_damage(database: Path, key_range: KeyRange) -> str | None:
    """Return file and offset of the first damage that a reader of a range encounters, or None if it is not found.

    A reader also continues after the range, until it reaches a key that has not been deleted.
    """
    to_the_end = (key_range[0], _AFTER_ALL_KEYS)
    with suppress(OSError, CorruptionError):
        manifest = parse_manifest(read_file(manifest_path(database)))
        for table in islice(_read_for(manifest.tables.values(), to_the_end), _MAX_TABLES_TO_NAME):
            path = _path(database, table)
            with suppress(FileNotFoundError):  # LevelDB is changing its files
                offset = _damage(path, to_the_end, _MAX_BYTES_TO_NAME)
                if offset is not None:
                    return f"{path}: damaged at offset {offset}"
    return None


def manifest_path(database: Path) -> Path:
    """Return the manifest that CURRENT names.

    Raises:
      CorruptionError: CURRENT names no manifest, or the manifest is missing.
      OSError: CURRENT cannot be read.
    """
    current = database / "CURRENT"
    match = _CURRENT.fullmatch(read_file(current))
    if match is None:
        raise CorruptionError(f"{current}: damaged at offset 0, names no manifest")
    manifest = database / match[1].decode()
    if not manifest.exists():
        raise CorruptionError(f"{manifest} is missing, or {current} is damaged")
    return manifest


def _read_for(tables: Iterable[Table], key_range: KeyRange) -> Iterator[Table]:
    """Yield the tables that a reader of a range reads: all of level 0, and of other levels also the next table.

    Only tables of level 0 overlap each other, so the reader reads all of them. In other levels, it also reads the table
    after the range: the index key of a table's last block can be larger than all keys in the block.
    """
    start, stop = key_range
    is_past: set[int] = set()
    for table in sorted(tables, key=attrgetter("level", "first")):
        if table.level == 0 or (table.last >= start and table.level not in is_past):
            yield table
        if table.level and table.first >= stop:
            is_past.add(table.level)


def _path(database: Path, table: Table) -> Path:
    path = database / f"{table.number:06d}.ldb"
    old = path.with_suffix(".sst")
    return old if old.exists() and not path.exists() else path


def _refuse_wrong_size(path: Path, table: Table) -> None:
    if not path.exists():
        raise CorruptionError(f"{path} is missing")
    size_bytes = path.stat().st_size
    if size_bytes != table.size_bytes:
        raise CorruptionError(f"{path}: ends at offset {size_bytes}, should be at {table.size_bytes}")


def _refuse_damage(path: Path, key_range: KeyRange, max_bytes: int, *, verify_checksums: bool = True) -> None:
    offset = _damage(path, key_range, max_bytes, verify_checksums=verify_checksums)
    if offset is not None:
        raise CorruptionError(f"{path}: damaged at offset {offset}")


def _damage(path: Path, key_range: KeyRange, max_bytes: int, *, verify_checksums: bool = True) -> int | None:
    with path.open("rb") as opened:
        return find_table_damage(opened, *key_range, max_bytes=max_bytes, verify_checksums=verify_checksums)
