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
from typing import NamedTuple

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.blocks import varint
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, FIRST, FULL, HEADER, LAST, MIDDLE, content_at

_HEADER = struct.Struct("<QI")
#: Length and type of a record.
_RECORD = struct.Struct("<4xHB")
_DELETE, _PUT = 0, 1


class LogPart(NamedTuple):
    """Whole batches of a log, one after the other, as they are in it.

    Attributes:
      content: the log from the beginning of a block on.
      start: where in `content` the first batch begins.
      ends: where in `content` each batch ends; the next one begins there, or in the next block.
    """

    content: bytes
    start: int
    ends: list[int]

    def batch(self, index: int) -> bytes:
        """Return a batch."""
        return content_at(self.content, self.ends[index - 1] if index else self.start)

    def numbers(self, index: int) -> tuple[int, int]:
        """Return the number of the first change of a batch, and its number of changes; raises CorruptionError."""
        start = self.ends[index - 1] if index else self.start
        is_in_next_block = start % BLOCK_BYTES + HEADER.size > BLOCK_BYTES
        length, kind = (0, 0) if is_in_next_block else _RECORD.unpack_from(self.content, start)
        if kind != FULL or length < _HEADER.size:
            return change_numbers(self.batch(index))
        first, count = _HEADER.unpack_from(self.content, start + HEADER.size)
        return first, count

    def last_change(self, index: int) -> int:
        """Return the number of the last change of a batch; of an empty batch, that of the one before."""
        return sum(self.numbers(index)) - 1


def read_part(path: str, offset: int, max_bytes: int) -> LogPart:
    """Return the whole batches from `offset` on: `max_bytes` at most, or one batch if that is larger.

    Args:
      path: path of the log; raises OSError.
      offset: 0, or where a batch ends.
      max_bytes: maximum size of all.
    """
    skipped_bytes = offset % BLOCK_BYTES
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            content = os.pread(descriptor, skipped_bytes + max_bytes, offset - skipped_bytes)
            part = find_batches(content, skipped_bytes)
            if part.ends or len(content) < skipped_bytes + max_bytes:
                return part
            max_bytes *= 2
    finally:
        os.close(descriptor)


def find_batches(content: bytes, start: int) -> LogPart:
    """Return the whole batches of a part of a log that begins with a block.

    Nothing but a number is made for each batch: a log can get thousands between two looks.

    Args:
      content: the part.
      start: where a batch begins, or would begin.
    """
    ends: list[int] = []
    offset, header_bytes, is_begun = start, HEADER.size, False
    while True:
        block_end = offset - offset % BLOCK_BYTES + BLOCK_BYTES
        stop = min(block_end, len(content))
        while offset + header_bytes <= stop:
            length, kind = _RECORD.unpack_from(content, offset)
            offset += header_bytes + length
            if offset > stop or is_begun is not (kind in (MIDDLE, LAST)) or not FULL <= kind <= LAST:
                return LogPart(content, start, ends)
            if is_begun := kind in (FIRST, MIDDLE):
                continue
            ends.append(offset)
        if stop < block_end:
            return LogPart(content, start, ends)
        offset = block_end


def batches_of(content: bytes, start: int) -> list[bytes]:
    """Return the batches of which a part of a log consists; raises CorruptionError.

    Args:
      content: whole batches, as they are in the log.
      start: where they begin in a block.
    """
    if not 0 <= start < BLOCK_BYTES:
        raise CorruptionError(f"batches cannot begin at {start} in a block")
    part = find_batches(bytes(start) + content, start)
    if len(part.content) > (part.ends[-1] if part.ends else start):
        raise CorruptionError("the last batch is not whole")
    return [part.batch(index) for index in range(len(part.ends))]


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
