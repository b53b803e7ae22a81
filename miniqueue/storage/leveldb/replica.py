r"""A copy of a broker's store that follows it: a store with a file that states its position in the broker's history.

    miniqueue.follows    miniqueue follows 1 <name>\n
                         <last change here> <last change of the broker> <digest>\n      before the last write, and
                         <last change here> <last change of the broker> <digest>\n      after it

LevelDB numbers the changes of the copy, too. So the number that it has after a crash shows which of the two lines is
true, and nothing has to be stored with the changes: the copy contains what the original contains, and no more. If no
line matches, as a power failure can leave it, the copy cannot be continued, but is whole.

While the file exists, the store has no other changes: a broker that opens it, or another tool that writes, removes the
file, and the copy is not continued after that (`directory`). The lock of the store excludes them meanwhile.

A copy of a broker with shards has a store for each, and so a position for each (`shards`). All are made at once.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from miniqueue.errors import CorruptionError, NotEmptyError
from miniqueue.storage.leveldb.copy import fill_shards, fill_store, refuse_mount, replace_store
from miniqueue.storage.leveldb.directory import FOLLOWS_NAME, claim
from miniqueue.storage.leveldb.files.batches import change_numbers, changes_in
from miniqueue.storage.leveldb.history import digest_of
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME
from miniqueue.storage.leveldb.own_files import open_file, read_file
from miniqueue.storage.leveldb.shards import shard_count, store_of_shard, stores_in
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import Position

_ALL = 1 << 62
_FOLLOWS = re.compile(rb"miniqueue follows 1 ([0-9a-f]{8})\n((?:[0-9]{1,19} [0-9]{1,19} [0-9a-f]{32}\n){1,2})")


class _State(NamedTuple):
    """The position of a copy whose own last change is `own_change`."""

    own_change: int
    position: Position

    def line(self) -> bytes:
        return b"%d %d %b\n" % (self.own_change, self.position.change, self.position.digest.hex().encode())


class Replica:
    """The open store of a copy that follows.

    Attributes:
      name: the name by which the broker knows the copy.
      position: what it contains, as a position in the history of the broker; None if that is unknown.
    """

    def __init__(self, directory: Path, store: LevelDBStore, name: str, position: Position | None) -> None:
        self.name = name
        self.position = position
        self._directory = directory
        self._store = store

    async def pairs(self, range_: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Return all pairs in a range of keys; it must be small."""
        return await self._store.scan(*range_, max_items=_ALL, max_bytes=_ALL)

    @classmethod
    async def open(cls, directory: Path) -> "Replica":
        """Open the copy in a directory.

        Raises:
          NotEmptyError: the directory is something else, or a broker has used the copy.
          StoreInUseError: another process has it open.
          StorageError: or a subclass, see `LevelDBStore.open`.
        """
        store = await LevelDBStore.open(directory, is_follower=True)
        try:
            name, states = _read(directory)
            known = {state.own_change: state.position for state in states}
            return cls(directory, store, name, known.get(store.last_change))
        except BaseException:
            await store.close()
            raise

    async def apply(self, batches: Sequence[bytes], position: Position) -> None:
        """Write what the broker has written next, all or nothing, and durably.

        Raises CorruptionError, before anything is written, unless the batches lead from one position to the other.
        """
        changes = _merged(batches, self.position, position)
        before = _State(self._store.last_change, self.position or position)
        _write(self._directory, self.name, (before, _State(before.own_change + len(changes), position)))
        await self._store.write(changes)
        self.position = position

    async def close(self) -> None:
        """Close the store, so that a broker can be started on it."""
        await self._store.close()


def begin_replica(directory: Path, name: str, position: Position, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Make a directory a copy that contains `pairs`, at a position; return their number.

    Args:
      directory: missing, empty, or a copy that follows, which stays as it is until the new one is complete.
      name: the name by which the broker knows the copy.
      position: the position of the content in the history of the broker.
      pairs: the content, in key order; exceptions are passed on, and nothing has changed then.

    Raises:
      NotEmptyError: the directory is something else, or a broker has used the copy.
      StoreInUseError: another process has it open.
      StorageError: it cannot be written.
    """
    count = 0

    def fill(unfinished: Path) -> None:
        nonlocal count
        count = fill_store(unfinished, pairs)
        _write(unfinished, name, [_State(count, position)])

    _replace(directory, fill)
    return count


def begin_replicas(
    directory: Path, name: str, positions: Sequence[Position], pairs: Iterable[tuple[int, tuple[bytes, bytes]]]
) -> int:
    """Make a directory a copy with shards, whose positions are given; return the number of all pairs.

    The arguments and errors are those of `begin_replica`; each pair has the number of its shard.
    """
    count = 0

    def fill(unfinished: Path) -> None:
        nonlocal count
        own_changes = fill_shards(unfinished, len(positions), pairs)
        for number, (own_change, position) in enumerate(zip(own_changes, positions, strict=True)):
            _write(store_of_shard(unfinished, number), name, [_State(own_change, position)])
        count = sum(own_changes)

    _replace(directory, fill)
    return count


def _replace(directory: Path, fill: Callable[[Path], None]) -> None:
    """Replace a copy that follows, or make one; raises as `begin_replica`."""
    with ExitStack() as stack:
        for store in stores_in(directory):
            stack.callback(claim(store).release)
        refuse_other_content(directory)
        replace_store(directory, fill)


def refuse_other_content(directory: Path) -> None:
    """Raise an error unless a directory is missing, empty, or a copy that follows, and no mount point."""
    refuse_mount(directory)
    for store in stores_in(directory):
        names = {path.name for path in store.iterdir()} if store.is_dir() else set()
        if FOLLOWS_NAME not in names and (names - {LOCK_FILE_NAME} or (store.exists() and not store.is_dir())):
            raise NotEmptyError(
                f"{directory} is neither empty nor a copy that follows; a copy that a broker has used follows no longer"
            )


def replicas_in(directory: Path) -> list[Path]:
    """Return the directories of all stores of a copy that follows; none if there is no copy yet."""
    if shard_count(directory):
        return stores_in(directory)
    return [directory] if (directory / FOLLOWS_NAME).exists() else []


def name_of(directory: Path) -> str:
    """Return the name of a store of a copy; raises CorruptionError."""
    return _read(directory)[0]


def position_after(batch: bytes) -> Position:
    """Return the position in the history of the broker after a batch of it; raises CorruptionError."""
    return Position(sum(change_numbers(batch)) - 1, digest_of(batch))


def _merged(batches: Sequence[bytes], start: Position | None, end: Position) -> dict[bytes, bytes | None]:
    change = None if start is None else start.change
    merged: dict[bytes, bytes | None] = {}
    for batch in batches:
        first, count = change_numbers(batch)
        if change is None or first != change + 1:
            raise CorruptionError(f"the broker has sent change {first} after change {change}")
        merged.update(changes_in(batch))
        change = first + count - 1
    if not batches or change != end.change or digest_of(batches[-1]) != end.digest:
        raise CorruptionError(f"the broker has sent writes up to change {change} instead of {end.change}")
    return merged


def _read(directory: Path) -> tuple[str, list[_State]]:
    path = directory / FOLLOWS_NAME
    match = _FOLLOWS.fullmatch(read_file(path))
    if match is None:
        raise CorruptionError(f"{path}: not the position of a copy")
    states = []
    for line in match[2].splitlines():
        own_change, change, digest = line.split()
        states.append(_State(int(own_change), Position(int(change), bytes.fromhex(digest.decode()))))
    return match[1].decode(), states


def _write(directory: Path, name: str, states: Sequence[_State]) -> None:
    """Write the file completely or not at all."""
    unfinished = directory / f"{FOLLOWS_NAME}.unfinished"
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, b"miniqueue follows 1 %b\n" % name.encode() + b"".join(state.line() for state in states))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(directory / FOLLOWS_NAME)
