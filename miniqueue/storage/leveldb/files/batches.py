"""Reads whole batches from a LevelDB log that another thread may be writing, and the changes in a batch.

    batch     = sequence:8 count:4 change*          little-endian; sequence: number of the first change
    change    = 0x01 key value │ 0x00 key           store a value │ delete a key
    key, value = length bytes                       length: 7 bits in each byte, the lowest first; the last is below 128

`log` checks logs before LevelDB reads them; this module follows one. A batch that is not whole yet is the end so far,
and so are the zeros of `preallocation`. Checksums are not verified: what a process has written is read from the memory
of the kernel, and what an earlier process has written was verified when the store was opened.

Sources: LevelDB `doc/log_format.md`, `db/write_batch.cc`.
"""

import os
import struct
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.blocks import varint
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, FIRST, FULL, HEADER, LAST, MIDDLE

_HEADER = struct.Struct("<QI")
#: How much is read at a time; a multiple of the size of a block.
_READ_BYTES = 8 * BLOCK_BYTES
_DELETE, _PUT = 0, 1


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
    with path.open("rb", buffering=0) as log:
        pieces: list[memoryview] = []
        for kind, content, end_offset in _records(log, offset):
            if bool(pieces) is not (kind in (MIDDLE, LAST)):
                return
            pieces.append(content)
            if kind in (FULL, LAST):
                whole = b"".join(pieces)
                if len(whole) < _HEADER.size:
                    return
                yield Batch(whole, end_offset)
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


def _records(log: FileIO, offset: int) -> Iterator[tuple[int, memoryview, int]]:
    """Yield type, content, and end of the whole records from `offset` on.

    A thread that reads needs the interpreter lock after each call, so blocks are read together: no record crosses them.
    """
    while True:
        read = memoryview(os.pread(log.fileno(), _READ_BYTES - offset % _READ_BYTES, offset))
        if not read:
            return
        start, stop = offset, offset + len(read)
        while offset < stop:
            room = BLOCK_BYTES - offset % BLOCK_BYTES
            if room < HEADER.size:
                offset += room
                continue
            if stop - offset < HEADER.size:
                return
            _, length, kind = HEADER.unpack_from(read, offset - start)
            end = offset + HEADER.size + length
            if kind not in (FULL, FIRST, MIDDLE, LAST) or HEADER.size + length > room or end > stop:
                return
            yield kind, read[offset + HEADER.size - start : end - start], end
            offset = end


def _text(batch: bytes, offset: int) -> tuple[bytes, int]:
    """Return the key or value at `offset`, and its end."""
    try:
        length, start = varint(batch, offset)
    except IndexError as exc:
        raise CorruptionError("a batch has an invalid length") from exc
    end = start + length
    if end > len(batch):
        raise CorruptionError("a batch ends inside a change")
    return batch[start:end], end
