"""Check the tables of a LevelDB database: before it is opened those parts that a start reads, later to name damage.

    every table that the manifest names      is there and as long as it was made           checked at a start
    blocks in which a range may be           have the right checksum                       of what a start reads: too
    all other blocks, the newest first       have lengths that LevelDB can believe         up to so many bytes

The work grows with the number of tables and with the state of topics, not with the messages. Only somebody who may
write to the store can make a table with right checksums and wrong lengths, which ends the process when LevelDB reads
it; to look for such lengths everywhere takes as long as reading everything. So a start looks into a few MiB, which is
all of a small store, and whatever reads everything anyway looks everywhere first (`store_view`).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path

from miniqueue.errors import CorruptionError
from miniqueue.storage.keys import KeyRange
from miniqueue.storage.manifest import Manifest, Table, parse_manifest
from miniqueue.storage.own_files import read_file
from miniqueue.storage.table import find_table_damage

#: How far damage is looked for that a reader has met: a page is 1 MiB, or one value, but it may be in any table.
_MAX_BYTES_TO_NAME = 8 << 20
_MAX_TABLES_TO_NAME = 16
EVERYTHING = 1 << 62
#: How much a start looks into beyond what it reads: 0.05 s, 0.15 s with snappy.
BYTES_BEYOND_A_START = 4 << 20
_CURRENT = re.compile(rb"(MANIFEST-[0-9]+)\n")
_BEHIND_ALL_KEYS = b"\xff" * 32
_ALL_KEYS = (b"", b"\xff" * 1024)


def check_tables(database: Path, manifest: Manifest, key_range: KeyRange, max_bytes_beyond: int) -> None:
    """Refuse tables that are missing or too short, damaged where keys of a range may be, or would end the process.

    Args:
      database: LevelDB's directory.
      manifest: of the database.
      key_range: which keys a start reads.
      max_bytes_beyond: into how much of the tables, from the newest on, to look for what would end the process.

    Raises:
      CorruptionError: with file and offset.
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
    """Return file and offset of the first damage that a reader of a range meets, or None when it cannot be found.

    A reader also goes on behind the range, until it finds a key that has not been deleted.
    """
    to_the_end = (key_range[0], _BEHIND_ALL_KEYS)
    with suppress(OSError, CorruptionError):
        manifest = parse_manifest(read_file(manifest_path(database)))
        for table in islice(_read_for(manifest.tables.values(), to_the_end), _MAX_TABLES_TO_NAME):
            path = _path(database, table)
            with suppress(FileNotFoundError):  # LevelDB is at work in there
                offset = _damage(path, to_the_end, _MAX_BYTES_TO_NAME)
                if offset is not None:
                    return f"{path}: damaged at offset {offset}"
    return None


def manifest_path(database: Path) -> Path:
    """Return the manifest that CURRENT names.

    Raises:
      CorruptionError: it names none, or that is not there.
      OSError: it cannot be read.
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
    """Yield the tables that a reader of a range looks into: at level 0 all, at others also the one behind the range.

    Only tables of level 0 overlap each other, so the reader looks into all of them; and a table's index may say of its
    last block that larger keys are in it than there are.
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
