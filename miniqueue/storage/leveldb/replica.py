r"""A copy of a broker's store that follows it: a store with a file that states its position in the broker's history.

    miniqueue.follows    miniqueue follows 1 <name>\n
                         <last change here> <last change of the broker> <digest>\n      before the last write, and
                         <last change here> <last change of the broker> <digest>\n      after it

LevelDB numbers the changes of the copy, too. So the number that it has after a crash shows which of the two lines is
true, and nothing has to be stored with the changes: the copy contains what the original contains, and no more. If no
line matches, as a power failure can leave it, the copy cannot be continued, but is whole.

While the file exists, the store has no other changes: a broker that opens it, or another tool that writes, removes the
file, and the copy is not continued after that (`directory`). The lock of the store excludes them meanwhile.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from miniqueue.errors import CorruptionError, NotEmptyError
from miniqueue.storage.leveldb.copy import replace_store
from miniqueue.storage.leveldb.directory import FOLLOWS_NAME, claim
from miniqueue.storage.leveldb.files.batches import change_numbers, changes_in
from miniqueue.storage.leveldb.history import digest_of
from miniqueue.storage.leveldb.lock import LOCK_FILE_NAME
from miniqueue.storage.leveldb.own_files import open_file, read_file
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import Position

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
    lock = claim(directory)
    try:
        refuse_other_content(directory)
        return replace_store(
            directory,
            pairs,
            lambda unfinished, own_change: _write(unfinished, name, [_State(own_change, position)]),
        )
    finally:
        lock.release()


def refuse_other_content(directory: Path) -> None:
    """Raise NotEmptyError unless a directory is missing, empty, or a copy that follows."""
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    if FOLLOWS_NAME not in names and (names - {LOCK_FILE_NAME} or (directory.exists() and not directory.is_dir())):
        raise NotEmptyError(
            f"{directory} is neither empty nor a copy that follows; a copy that a broker has used follows no longer"
        )


def is_replica(directory: Path) -> bool:
    """Whether a directory is a copy that follows."""
    return (directory / FOLLOWS_NAME).exists()


def name_of(directory: Path) -> str:
    """Return the name of a copy; raises CorruptionError."""
    return _read(directory)[0]


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
