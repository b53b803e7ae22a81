"""The file with the last acknowledged change, which the next startup must find in the database.

    miniqueue.acknowledged    = slot slot                       written alternately, so that one slot is always whole
    slot                      = change:8 log:8 crc:4            little-endian; crc: CRC-32 (zlib); all zero: none yet

`change` is LevelDB's number of the last change of a commit (`Store.last_change`), and `log` is the number of the log
that contains it; if LevelDB's manifest needs only later logs, the change is in a table. Without this file, a log that
lost its end looks like a shorter log. In stores of format 1, `change` counted commits, of which there were never more
than changes.

A slot is written after every synced commit, before the commit is acknowledged, and is not synced itself. After a crash
of the process it is exact. A power failure can leave an older slot, on Linux up to half a minute old. So the file names
a change that has been on the disk, but not always the last one.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.own_files import open_file, read_file

ACKNOWLEDGED_FILE_NAME = "miniqueue.acknowledged"

_SLOT = struct.Struct("<QQ")
_CRC = struct.Struct("<I")
_SLOT_BYTES = _SLOT.size + _CRC.size
_EMPTY = bytes(_SLOT_BYTES)


class Acknowledged(NamedTuple):
    """A change, and the number of the log that contains it; an earlier number is safe, but detects less."""

    change: int
    log: int


class Reading(NamedTuple):
    """The content of the file; `doubt`: the reason why it is unreliable, if it is."""

    last: Acknowledged | None
    doubt: str | None = None


def read_acknowledged(directory: Path) -> Reading:
    """Return the last acknowledged change, as far as it is known."""
    path = directory / ACKNOWLEDGED_FILE_NAME
    try:
        content = read_file(path)
    except FileNotFoundError:
        return Reading(None, f"{path} is missing: whether the log has lost its end is not known")
    slots = [content[:_SLOT_BYTES], content[_SLOT_BYTES:]]
    whole = [slot for slot in map(_parsed, slots) if slot is not None]
    is_damaged = any(map(_is_damaged, slots))
    doubt = f"{path} is damaged: whether the log has lost its end is not known for certain" if is_damaged else None
    return Reading(max(whole, default=None), doubt)


class AcknowledgedFile:
    """The file of an open store; written by one thread."""

    def __init__(self, directory: Path) -> None:
        """Open or create the file; raise OSError, or NotAStoreError for a special file."""
        path = directory / ACKNOWLEDGED_FILE_NAME
        last = read_acknowledged(directory).last
        self._descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            self._begin(path, last)
        except BaseException:
            self.close()
            raise

    def advance(self, last: Acknowledged) -> None:
        """Record that a change and all changes before it are on the disk; raise OSError."""
        os.pwrite(self._descriptor, _formatted(last), self._turn * _SLOT_BYTES)
        self._turn ^= 1

    def close(self) -> None:
        """Close the file; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _begin(self, path: Path, last: Acknowledged | None) -> None:
        """Allocate both slots on the disk, so that writing a slot needs no space; select the older slot.

        The older slot is also rewritten with its own content: if that fails, no commit could be acknowledged.
        """
        content = os.pread(self._descriptor, 3 * _SLOT_BYTES, 0)
        slots = [content[:_SLOT_BYTES], content[_SLOT_BYTES:]]
        if any(map(_is_damaged, slots)):
            slots = [_EMPTY if last is None else _formatted(last)] * 2
            os.pwrite(self._descriptor, b"".join(slots), 0)
            os.ftruncate(self._descriptor, 2 * _SLOT_BYTES)
            os.fsync(self._descriptor)
            sync_path(path.parent)
        self._turn = 1 if last is not None and _parsed(slots[0]) == last else 0
        os.pwrite(self._descriptor, slots[self._turn], self._turn * _SLOT_BYTES)


def _formatted(last: Acknowledged) -> bytes:
    slot = _SLOT.pack(*last)
    return slot + _CRC.pack(crc32(slot))


def _parsed(slot: bytes) -> Acknowledged | None:
    if slot == _EMPTY or _is_damaged(slot):
        return None
    return Acknowledged(*_SLOT.unpack_from(slot))


def _is_damaged(slot: bytes) -> bool:
    if slot == _EMPTY:
        return False
    return len(slot) != _SLOT_BYTES or crc32(slot[: _SLOT.size]) != _CRC.unpack_from(slot, _SLOT.size)[0]
