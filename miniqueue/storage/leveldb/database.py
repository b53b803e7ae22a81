"""LevelDB through plyvel: the calls that the store makes, the options it opens with, and the translation of its errors.

plyvel has no types. `Database` states the part of plyvel that is used, and is where tests insert fakes.
"""

import errno
import os
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import plyvel

from miniqueue.errors import CorruptionError, NoSpaceError, StorageError
from miniqueue.storage.leveldb.mapped_tables import limit_mapped_tables

#: Bytes in a mebibyte.
MIB = 1 << 20
#: After a scan of less, the tables in RAM are not measured: that takes as long as a short scan.
MIN_READ_BYTES = 64 << 10

#: Error numbers of a full disk; a quota is a smaller disk.
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))


class WriteBatch(Protocol):
    """Changes that are written together if the context ends without an exception."""

    def put(self, key: bytes, value: bytes) -> None:
        """Store `value`."""
        ...

    def delete(self, key: bytes) -> None:
        """Remove `key`, which need not exist."""
        ...


class Cursor(Protocol):
    """A position between two pairs. Each method raises if it reads damage; `valid` also raises for earlier damage."""

    def seek(self, target: bytes) -> None:
        """Go to the first pair with `target <= key`."""
        ...

    def seek_to_last(self) -> None:
        """Go to the last pair."""
        ...

    def valid(self) -> bool:
        """Whether there is a pair here; False after the last pair and before the first."""
        ...

    def item(self) -> tuple[bytes, bytes]:
        """Return the key and the value here."""
        ...

    def next(self) -> None:
        """Go to the next pair."""
        ...

    def prev(self) -> None:
        """Go to the previous pair."""
        ...

    def close(self) -> None:
        """Release the resources of the database."""
        ...


class Readable(Protocol):
    """Pairs that can be read in order."""

    def raw_iterator(self, *, verify_checksums: bool, fill_cache: bool) -> Cursor:
        """Return a position among the pairs, which are in key order."""
        ...


class DatabaseSnapshot(Readable, Protocol):
    """The content of a database at one moment."""

    def close(self) -> None:
        """Release the snapshot, so that LevelDB can drop data that only it sees; safe to call twice."""
        ...


class Database(Readable, Protocol):
    """The part of `plyvel.DB` that the store uses."""

    def get(self, key: bytes, *, verify_checksums: bool) -> bytes | None:
        """Return the value of `key` or None."""
        ...

    def snapshot(self) -> DatabaseSnapshot:
        """Return the current content of the database; later writes are not visible in it."""
        ...

    def write_batch(self, *, transaction: bool, sync: bool) -> AbstractContextManager[WriteBatch]:
        """Return a batch to fill."""
        ...

    def compact_range(self, *, start: bytes, stop: bytes) -> None:
        """Rewrite the tables of a range without deleted data; return when done."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The memory use and the compression of LevelDB.

    Attributes:
      write_buffer_bytes: size of each of the two in-memory tables; also the approximate size of a log, and so the
        maximum that a startup must check and replay, and the size of the tables on the disk: a stream of messages is
        not merged, so a table stays as it was written. What a consumer has read of a table stays in RAM until the table
        is deleted. While 2 GB were published, the process took 131 MiB, with 64 MiB 204, with 16 MiB 111. A stream of
        payloads of 1 KiB that is consumed at once takes 9.5 us of CPU time per message with 32 MiB, 10.6 with 64, and
        10.1 with 16; publishing alone takes 5.3, 5.8, and 5.0, which is the same within the noise.
      compression: compression of tables that are written from now on, `none` or `snappy`; both can be read. Snappy, as
        plyvel includes it, takes 8 us of CPU time per KiB of JSON, while the rest of a publish takes 14, and blocks
        must be decompressed when they are read; the tables are half as long.
      block_cache_bytes: size of the cache of decompressed blocks, for `get`. Scans bypass it, and so do uncompressed
        tables, which are read from mapped memory. A startup, a backlog, and delayed messages are scanned, so they take
        the same time with 1, 8, and 32 MiB. In ordered topics, returned messages are read one by one, roughly in
        order. With snappy and 27 MB of returned messages, each takes 1.9 us in order with 1 MiB and 1.2 with 8 or 32;
        in random order 6.9, 6.5, and 2.3.
      max_open_files: number of tables that remain mapped into memory, plus ten; 74 is the minimum that LevelDB accepts.
        As tables are up to 32 MiB long, `mapped_tables` limits what of them is in RAM.
    """

    write_buffer_bytes: int = 32 * MIB
    compression: str = "none"
    block_cache_bytes: int = 8 * MIB
    max_open_files: int = 74


def create_database(path: Path) -> None:
    """Create an empty database in `path`, an empty directory."""
    plyvel.DB(str(path), create_if_missing=True, error_if_exists=True).close()


def open_database(path: Path, options: DatabaseOptions) -> Database:
    """Open an existing database; refuse any damage that LevelDB detects."""
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
    """Yield the pairs with `start <= key < stop`, in key order, from verified blocks; close the generator after use.

    `plyvel.DB.iterator` is not sufficient: if the last blocks of a range are damaged, it ends as if they did not exist.
    Scans are long and read data once: in the block cache they would evict the blocks that `get` needs.
    """
    cursor = database.raw_iterator(verify_checksums=True, fill_cache=False)
    read_bytes = 0
    try:
        cursor.seek(start)
        while cursor.valid() and (pair := cursor.item())[0] < stop:
            read_bytes += len(pair[1])
            if read_bytes >= MIB:
                limit_mapped_tables()
                read_bytes = 0
            yield pair
            cursor.next()
    finally:
        cursor.close()
        if read_bytes >= MIN_READ_BYTES:
            limit_mapped_tables()


def first_pairs(
    database: Readable, start: bytes, stop: bytes, max_items: int, max_bytes: int
) -> list[tuple[bytes, bytes]]:
    """Return the first pairs with `start <= key < stop` within the two limits, as `Store.scan` does."""
    pairs: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    with closing(pairs_between(database, start, stop)) as remaining:
        for pair in remaining:
            pairs.append(pair)
            size_bytes += len(pair[1])
            if len(pairs) >= max_items or size_bytes >= max_bytes:
                break
    return pairs


def last_pair(database: Readable, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
    """Return the last pair with `start <= key < stop`, from a verified block, or None."""
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


def translated(error: Exception, path: Path) -> StorageError:
    """Return the StorageError for an exception of plyvel, of the operating system, or of miniqueue."""
    if isinstance(error, StorageError):
        return error
    text = f"{path}: {_text(error)}"
    if isinstance(error, plyvel.CorruptionError):
        return CorruptionError(text)
    return NoSpaceError(text) if _is_for_lack_of_space(error, text) else StorageError(text)


def _is_for_lack_of_space(error: Exception, text: str) -> bool:
    """Whether the disk is full; LevelDB passes on no error number, only the text of the system at the end."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in NO_SPACE
    return text.endswith(tuple(map(os.strerror, NO_SPACE)))


def _text(error: Exception) -> str:
    """Return the text of an error, which plyvel passes on as LevelDB's bytes."""
    if error.args and isinstance(error.args[0], bytes):
        return error.args[0].decode("utf-8", "backslashreplace")
    return str(error) or type(error).__name__
