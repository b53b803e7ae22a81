r"""The directory of a store with several shards.

    miniqueue.shards      4 shards of store 9f2c…\n
    shard-0/              store/: the store of the shard
                          miniqueue.shard: shard 0 of 4 of store 9f2c…\n
    shard-1/ …
    miniqueue.lock        held by the parent of the processes

The number of shards is a property of the store: it decides which shard has a topic. A directory that is missing, or of
another store, is reported before anything is opened or created.
"""

import re
import secrets
from pathlib import Path
from typing import Final

from miniqueue.errors import ConfigError, CorruptionError, NotAStoreError, StorageError
from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.marker import MARKER_FILE_NAME
from miniqueue.storage.leveldb.own_files import read_file

SHARDS_FILE_NAME: Final = "miniqueue.shards"
SHARD_FILE_NAME: Final = "miniqueue.shard"
#: The end of each error about another number of shards.
_REMEDY: Final = "or change the number with miniqueue reshard"
_SHARDS: Final = re.compile(rb"([0-9]{1,3}) shards of store ([0-9a-f]{32})\n")


def store_of_shard(db: Path, number: int) -> Path:
    """Return the directory of the store of a shard."""
    return db / f"shard-{number}" / "store"


def shard_count(db: Path) -> int:
    """Return the number of shards of the store in a directory; 0 if it is the store of one process, or there is none.

    Raises CorruptionError if the file that says it has another content.
    """
    marker = _read(db)
    return 0 if marker is None else marker[0]


def stores_in(db: Path) -> list[Path]:
    """Return the directories of all stores in the directory of a broker; raises as `check_shards`."""
    count = shard_count(db)
    if not count:
        return [db]
    check_shards(db, count)
    return [store_of_shard(db, number) for number in range(count)]


def prepare_shards(db: Path, count: int) -> None:
    """Check the directory of a store with `count` shards, or make it.

    Raises:
      ConfigError: the store has another number of shards.
      CorruptionError: the directory of a shard is missing, or belongs to another store.
      NotAStoreError: the directory contains something else.
    """
    if _read(db) is None:
        _make(db, count)
    else:
        check_shards(db, count)


def claim_shards(db: Path, count: int) -> StoreLock:
    """Prepare the directory of a store with `count` shards, and lock it: each shard also locks its own store.

    Raises as `prepare_shards`, and:
      StoreInUseError: another broker has it open.
      StorageError: the directory cannot be written.
    """
    try:
        prepare_shards(db, count)
        return StoreLock(db)
    except OSError as exc:
        raise StorageError(f"cannot open the store in {db}: {exc}") from exc


def check_shards(db: Path, count: int) -> None:
    """Check that a directory has all shards of a store with `count` shards; raises as `prepare_shards`."""
    stored_count, store_id = _read(db) or (0, b"")
    if stored_count != count:
        raise ConfigError(
            [
                f"flag -shards: {count}, but the store in {db} has {stored_count} shards; use -shards {stored_count}, "
                + _REMEDY
            ]
        )
    for number in range(count):
        path = db / f"shard-{number}" / SHARD_FILE_NAME
        if not path.exists():
            raise CorruptionError(f"{path}: missing; the directory of shard {number} is not there, or is not whole")
        if read_file(path) != _shard_line(number, count, store_id):
            raise CorruptionError(f"{path}: the directory belongs to another store, or to another shard")


def check_has_no_shards(db: Path) -> None:
    """Raise ConfigError if the store in a directory has shards, and so cannot be opened by one process alone."""
    if count := shard_count(db):
        raise ConfigError([f"flag -db: the store in {db} has {count} shards; use -shards {count}, {_REMEDY}"])


def mark_shards(db: Path, count: int) -> None:
    """Make a directory with the directories of all shards a store.

    The file with the number comes last, so that it is there only if all others are.
    """
    store_id = secrets.token_hex(16).encode()
    for number in range(count):
        _write(db / f"shard-{number}" / SHARD_FILE_NAME, _shard_line(number, count, store_id))
    _write(db / SHARDS_FILE_NAME, b"%d shards of store %b\n" % (count, store_id))


def _read(db: Path) -> tuple[int, bytes] | None:
    path = db / SHARDS_FILE_NAME
    if not path.exists():
        return None
    match = _SHARDS.fullmatch(content := read_file(path))
    if match is None:
        raise CorruptionError(f"{path}: unexpected content {content[:80]!r}")
    return int(match[1]), match[2]


def _make(db: Path, count: int) -> None:
    """Make the directories, without stores."""
    if (db / MARKER_FILE_NAME).exists():
        raise ConfigError(
            [
                f"flag -shards: the store in {db} was made without shards, for one process; start without -shards, "
                + _REMEDY
            ]
        )
    if db.exists() and any(not path.name.startswith("shard-") for path in db.iterdir()):
        raise NotAStoreError(f"{db} is neither empty nor a miniqueue store (no {SHARDS_FILE_NAME} in it)")
    for number in range(count):
        if store_of_shard(db, number).exists():
            raise CorruptionError(f"{db / SHARDS_FILE_NAME}: missing, but there is a store in {db}/shard-{number}")
        (db / f"shard-{number}").mkdir(parents=True, exist_ok=True)
    mark_shards(db, count)


def _shard_line(number: int, count: int, store_id: bytes) -> bytes:
    return b"shard %d of %d of store %b\n" % (number, count, store_id)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    sync_path(path)
    sync_path(path.parent)
