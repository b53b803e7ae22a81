"""Reads whole batches from a LevelDB log that another thread may be writing, and the changes in a batch.

    batch     = sequence:8 count:4 change*          little-endian; sequence: number of the first change
    change    = 0x01 key value │ 0x00 key           store a value │ delete a key
    key, value = length bytes                       length: 7 bits in each byte, the lowest first; the last is below 128

`log` checks logs before LevelDB reads them; this module follows one. A batch that is not whole yet is the end so far,
and so are the zeros of `preallocation`. Checksums are not verified: what a process has written is read from the memory
of the kernel, and what an earlier process has written was verified when the store was opened.

Sources: LevelDB `doc/log_format.md`, `db/write_batch.cc`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, FIRST, FULL, HEADER, LAST, MIDDLE

_HEADER = struct.Struct("<QI")
_READ_BYTES = 1 << 18
_DELETE, _PUT = 0, 1
#: A length has at most 32 bits.
_MAX_LENGTH_BYTES = 5


class Batch(NamedTuple):
    """A batch as it is in a log.

    Attributes:
      content: the whole batch.
      end_offset: where the next batch begins in the log.
    """

    content: bytes
    end_offset: int

    @property
    def first_change(self) -> int:
        """The number of the first change; of an empty batch, that of the next one."""
        return change_numbers(self.content)[0]

    @property
    def last_change(self) -> int:
        """The number of the last change; of an empty batch, that of the one before."""
        return sum(change_numbers(self.content)) - 1

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing: it was written to sync earlier ones."""
        return not change_numbers(self.content)[1]


def batches_from(path: Path, offset: int) -> Iterator[Batch]:
    """Yield the whole batches of a log from `offset` on, which is 0 or where a batch ends; raises OSError."""
    with path.open("rb", buffering=_READ_BYTES) as log:
        log.seek(offset)
        pieces: list[bytes] = []
        while (record := _record(log, offset)) is not None:
            kind, content, offset = record
            if bool(pieces) is not (kind in (MIDDLE, LAST)):
                return
            pieces.append(content)
            if kind in (FULL, LAST):
                whole = b"".join(pieces)
                if len(whole) < _HEADER.size:
                    return
                yield Batch(whole, offset)
                pieces = []


def change_numbers(batch: bytes) -> tuple[int, int]:
    """Return the number of the first change of a batch, and its number of changes; raises CorruptionError."""
    if len(batch) < _HEADER.size:
        raise CorruptionError("a batch is shorter than its header")
    first, count = _HEADER.unpack_from(batch)
    return first, count


def changes_in(batch: bytes) -> list[tuple[bytes, bytes | None]]:
    """Return the changes of a batch in order, with None for the value of a deleted key; raises CorruptionError."""
    _, count = change_numbers(batch)
    changes: list[tuple[bytes, bytes | None]] = []
    offset = _HEADER.size
    while offset < len(batch):
        kind = batch[offset]
        if kind not in (_DELETE, _PUT):
            raise CorruptionError(f"a batch has a change of the unknown kind {kind}")
        key, offset = _text(batch, offset + 1)
        value = None
        if kind == _PUT:
            value, offset = _text(batch, offset)
        changes.append((key, value))
    if len(changes) != count:
        raise CorruptionError(f"a batch has {len(changes)} changes, but should have {count}")
    return changes


def _record(log: BinaryIO, offset: int) -> tuple[int, bytes, int] | None:
    """Return type, content, and end of the record at or after `offset`, which is the position of `log`, or None."""
    room = BLOCK_BYTES - offset % BLOCK_BYTES
    if room < HEADER.size:
        log.seek(room, 1)
        offset, room = offset + room, BLOCK_BYTES
    header = log.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    _, length, kind = HEADER.unpack(header)
    if kind not in (FULL, FIRST, MIDDLE, LAST) or HEADER.size + length > room:
        return None
    content = log.read(length)
    return None if len(content) < length else (kind, content, offset + HEADER.size + length)


def _text(batch: bytes, offset: int) -> tuple[bytes, int]:
    """Return the key or value at `offset`, and its end."""
    length = 0
    for index, byte in enumerate(batch[offset : offset + _MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            start = offset + index + 1
            if start + length > len(batch):
                break
            return batch[start : start + length], start + length
    raise CorruptionError("a batch ends inside a change")
