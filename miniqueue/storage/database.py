"""LevelDB through plyvel: the calls that the store makes, the options it opens with, its errors in our words.

plyvel carries no types; `Database` states the part of it that is used, and is the seam for fakes in tests.
"""

import errno
import os
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import plyvel

from miniqueue.errors import CorruptionError, NoSpaceError, StorageError
from miniqueue.storage.port import Batch

MIB = 1 << 20

#: A disk that is full; a quota is a smaller disk.
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))

#: What LevelDB adds to a batch in a log, and to a change, at least: headers, and a length or two.
_BATCH_BYTES, _CHANGE_BYTES = 19, 3


class WriteBatch(Protocol):
    """Changes that are written together when the context ends without an exception."""

    def put(self, key: bytes, value: bytes) -> None:
        """Store `value`."""
        ...

    def delete(self, key: bytes) -> None:
        """Remove `key`, which need not exist."""
        ...


class Cursor(Protocol):
    """A place between two pairs. Each method raises when it meets damage, `valid` also for what others met."""

    def seek(self, target: bytes) -> None:
        """Go to the first pair with `target <= key`."""
        ...

    def seek_to_last(self) -> None:
        """Go to the last pair."""
        ...

    def valid(self) -> bool:
        """Whether there is a pair here; False behind the last one and in front of the first."""
        ...

    def item(self) -> tuple[bytes, bytes]:
        """Return the key and the value here."""
        ...

    def next(self) -> None:
        """Go on by one pair."""
        ...

    def prev(self) -> None:
        """Go back by one pair."""
        ...

    def close(self) -> None:
        """Give back what it holds of the database."""
        ...


class Readable(Protocol):
    """What can be read from one end to the other."""

    def raw_iterator(self, *, verify_checksums: bool, fill_cache: bool) -> Cursor:
        """Return a place among the pairs, which are in key order."""
        ...


class DatabaseSnapshot(Readable, Protocol):
    """What was in a database at one moment."""

    def close(self) -> None:
        """Let LevelDB drop what only this one still sees; safe to call twice."""
        ...


class Database(Readable, Protocol):
    """What the store needs of `plyvel.DB`."""

    def get(self, key: bytes, *, verify_checksums: bool) -> bytes | None:
        """Return the value of `key` or None."""
        ...

    def snapshot(self) -> DatabaseSnapshot:
        """Return what is in the database now; what is written later does not show in it."""
        ...

    def write_batch(self, *, transaction: bool, sync: bool) -> AbstractContextManager[WriteBatch]:
        """Return a batch to fill."""
        ...

    def compact_range(self, *, start: bytes, stop: bytes) -> None:
        """Rewrite the tables of a range without what was deleted; returns when it is done."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How much memory LevelDB may take.

    Attributes:
      write_buffer_bytes: of each of the two in-memory tables; also about the size of a log, and so the most that a
        start must check and replay: 0.15 s for 60 MB. Four tables are merged into the level below at a time, so the
        larger they are the less often what is there already is written again: a steady stream of payloads of 1 KiB
        takes 8.7 us of processor time a message with 16 MiB, 7.3 with 32 and 5.5 with 64. The process grew to 200 MB
        on that stream, to 105 with 16. Tables on the disk larger than LevelDB's 2 MiB made it slower.
        At 64 MiB nothing is written a third time: of payloads of 1 KiB that are random a byte makes 2.00 bytes on the
        disk, the log's and the table's, and 2.07 where all is consumed at once, since LevelDB makes tables also of
        what was deleted. Redis's file takes 1.07.
      compression: of tables that are written from now on, `none` or `snappy`; both are read. Snappy, as plyvel brings
        it, takes 8 us of processor time for a KiB of JSON, where all the rest of a publish takes 14, and has to be
        undone where it is read; the tables are half as long then.
      block_cache_bytes: of decompressed blocks, for `get`; scans pass it by, and so do tables without compression,
        which are read where they are mapped. So a start, a backlog and delayed messages take the same with 1, 8 and
        32 MiB: they are scanned. In ordered topics what came back is got one by one, about in order. With snappy, and
        27 MB of it, that takes 1.9 us each in order with 1 MiB and 1.2 with 8 or 32; at random 6.9, 6.5 and 2.3.
      max_open_files: tables kept mapped into memory, at up to 2 MiB each; 74 is the least LevelDB takes. With
        its default of 1000 the process grew to 235 MB on reading a backlog of 200 MB in values of 10 kB, with 74
        to 175.
    """

    write_buffer_bytes: int = 64 * MIB
    compression: str = "none"
    block_cache_bytes: int = 8 * MIB
    max_open_files: int = 74


def create_database(path: Path) -> None:
    """Make an empty database in `path`, which is an empty directory."""
    plyvel.DB(str(path), create_if_missing=True, error_if_exists=True).close()


def open_database(path: Path, options: DatabaseOptions) -> Database:
    """Open an existing database, refusing any damage that LevelDB sees."""
    database: Database = plyvel.DB(
        str(path),
        create_if_missing=False,
        paranoid_checks=True,
        write_buffer_size=options.write_buffer_bytes,
        lru_cache_size=options.block_cache_bytes,
        max_open_files=options.max_open_files,
        compression=None if options.compression == "none" else options.compression,
    )
    return database


def pairs_between(database: Readable, start: bytes, stop: bytes) -> Generator[tuple[bytes, bytes], None, None]:
    """Yield the pairs with `start <= key < stop`, in key order, from verified blocks; close it when done with it.

    `plyvel.DB.iterator` does not do: when the last blocks of a range are damaged, it ends as if they were not there.
    Scans are long and read once: in the block cache they would push out what `get` needs.
    """
    cursor = database.raw_iterator(verify_checksums=True, fill_cache=False)
    try:
        cursor.seek(start)
        while cursor.valid() and (pair := cursor.item())[0] < stop:
            yield pair
            cursor.next()
    finally:
        cursor.close()


def last_pair(database: Readable, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
    """Return the last pair with `start <= key < stop`, from a verified block, or None when there is none."""
    cursor = database.raw_iterator(verify_checksums=True, fill_cache=False)
    try:
        cursor.seek(stop)
        if cursor.valid():
            cursor.prev()
        else:
            cursor.seek_to_last()
        return pair if cursor.valid() and (pair := cursor.item())[0] >= start else None
    finally:
        cursor.close()


def fill(changes: WriteBatch, batch: Batch) -> int:
    """Put all of `batch` into `changes`; return about how many bytes that are in a log."""
    size_bytes = _BATCH_BYTES + _CHANGE_BYTES * len(batch)
    for key, value in batch.items():
        size_bytes += len(key)
        if value is None:
            changes.delete(key)
        else:
            changes.put(key, value)
            size_bytes += len(value)
    return size_bytes


def translated(error: Exception, path: Path) -> StorageError:
    """Return what to raise for an exception of plyvel, of the operating system, or of ours."""
    if isinstance(error, StorageError):
        return error
    text = f"{path}: {_text(error)}"
    if isinstance(error, plyvel.CorruptionError):
        return CorruptionError(text)
    return NoSpaceError(text) if _is_for_lack_of_space(error, text) else StorageError(text)


def _is_for_lack_of_space(error: Exception, text: str) -> bool:
    """Tell a full disk from other faults; LevelDB passes on no number, only the words of the system at the end."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in NO_SPACE
    return text.endswith(tuple(map(os.strerror, NO_SPACE)))


def _text(error: Exception) -> str:
    """Return the message, which plyvel passes on as LevelDB's bytes."""
    if error.args and isinstance(error.args[0], bytes):
        return error.args[0].decode("utf-8", "backslashreplace")
    return str(error) or type(error).__name__
