"""Verifies the blocks of a LevelDB table that can contain a range of keys, and returns the offset of the first damage.

    table    = block* footer                                  data blocks, the index and others
    block    = content, type:1, crc:4                         type 1: snappy; masked CRC-32C of content and type
    footer   = handle handle zeros magic:8                    48 bytes; the second handle is that of the index
    handle   = offset:varint size:varint                      of the content of a block
    index    = entry* restart:4* count:4                      an entry for each data block, in key order
    entry    = shared:varint rest:varint size:varint key handle
    key      = key:rest change:8                              no key of the block is larger; its first `shared` bytes
                                                              are those of the previous key

If a checksum does not match, LevelDB reports neither file nor offset, and it checks only what it reads. It trusts
blocks with the right checksum: a handle that points beyond the file, or a length of 4 GB, ends the process. So this
module also checks handles and lengths.

Source: LevelDB `doc/table_format.md`, `table/format.h`.
"""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from miniqueue.storage.leveldb.files.blocks import decompress, varint
from miniqueue.storage.leveldb.files.crc32c import masked_crc32c_of_each

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_TRAILER_BYTES = 5
_SNAPPY = 1
_CRC = struct.Struct("<I")
#: Minimum size of the blocks that are verified together; a block has about 4 KiB, unless a value is larger. Verifying
#: takes six times that memory.
_BYTES_AT_ONCE = 1 << 20
#: Length of the suffix that LevelDB adds to every key.
_TAG_BYTES = 8


class _Handle(NamedTuple):
    offset: int
    size_bytes: int


def find_table_damage(
    table: BinaryIO, start: bytes, stop: bytes, *, max_bytes: int, verify_checksums: bool = True
) -> int | None:
    """Return the offset of the first damage that a reader of the keys from `start` to before `stop` would encounter.

    The whole index is checked, whatever the range: LevelDB ends the process if a handle points beyond the file.

    Args:
      table: the file.
      start: first key.
      stop: end of the range, exclusive.
      max_bytes: approximate maximum number of bytes of data to check.
      verify_checksums: whether a wrong checksum is damage; if not, only wrong lengths in a block with the right
        checksum are.

    Raises OSError.
    """
    file_bytes = table.seek(0, os.SEEK_END)
    footer_offset = max(0, file_bytes - _FOOTER_BYTES)
    footer = _read(table, _Handle(footer_offset, _FOOTER_BYTES))
    if len(footer) < _FOOTER_BYTES or not footer.endswith(_MAGIC):
        return footer_offset
    try:
        index_handle = _second_handle(footer)
        index = _read_block(table, index_handle)
    except IndexError:
        return footer_offset
    if not _are_sound([index])[0]:
        return index_handle.offset
    try:
        entries = _indexed(_content(index), footer_offset)
    except IndexError:
        return index_handle.offset
    return _first_unsound(table, _handles_between(entries, start, stop), max_bytes, verify_checksums)


def _first_unsound(table: BinaryIO, handles: Iterator[_Handle], max_bytes: int, verify_checksums: bool) -> int | None:
    checked_bytes = 0
    while checked_bytes < max_bytes and (some := _some_of(handles)):
        blocks = [_read_block(table, handle) for handle in some]
        for handle, block, is_sound in zip(some, blocks, _are_sound(blocks), strict=True):
            if (is_sound and not _has_sound_entries(block)) or (verify_checksums and not is_sound):
                return handle.offset
        checked_bytes += sum(map(len, blocks))
    return None


def _some_of(handles: Iterator[_Handle]) -> list[_Handle]:
    """Return the next blocks to verify together; empty after the last one."""
    some: list[_Handle] = []
    size_bytes = 0
    for handle in handles:
        some.append(handle)
        size_bytes += handle.size_bytes
        if size_bytes >= _BYTES_AT_ONCE:
            break
    return some


def _indexed(index: bytes, end_offset: int) -> list[tuple[bytes, _Handle]]:
    """Return the keys of an index with their handles; raise IndexError if a handle points beyond `end_offset`.

    LevelDB searches an index by its restarts, of which each entry has one, so every entry must have a whole key.
    """
    handles: list[tuple[bytes, _Handle]] = []
    key = b""
    for shared, rest, size_bytes in _entries(index):
        value_at = rest.offset + rest.size_bytes
        key = key[:shared] + index[rest.offset : value_at]
        handle, _ = _handle(index, value_at)
        if shared or not size_bytes or handle.offset + handle.size_bytes + _TRAILER_BYTES > end_offset:
            raise IndexError("an index that points beyond the blocks")
        handles.append((key, handle))
    return handles


def _has_sound_entries(block: bytes) -> bool:
    """Whether LevelDB can read a block: it trusts the lengths in it, and allocates that much memory."""
    try:
        for _ in _entries(_content(block)):
            pass
    except IndexError:
        return False
    return block[-_TRAILER_BYTES] <= _SNAPPY


def _entries(content: bytes) -> Iterator[tuple[int, _Handle, int]]:
    """Yield for each entry the length that its key shares with the previous key, the rest of it, and the value's size.

    Raises IndexError if a length points beyond the entries, or a restart is not at an entry with a whole key.
    """
    restart_count = int.from_bytes(content[-4:], "little")
    end, offset, key_bytes = len(content) - 4 * restart_count - 4, 0, 0
    if end < 0 or not restart_count:
        raise IndexError("a block without restarts")
    whole = {0}
    while offset < end:
        begin = offset
        shared, offset = varint(content, offset)
        rest, offset = varint(content, offset)
        size_bytes, offset = varint(content, offset)
        if shared > key_bytes or shared + rest < _TAG_BYTES or offset + rest + size_bytes > end:
            raise IndexError("an entry that continues after its block")
        if not shared:
            whole.add(begin)
        yield shared, _Handle(offset, rest), size_bytes
        key_bytes, offset = shared + rest, offset + rest + size_bytes
    if not whole.issuperset(struct.unpack_from(f"<{restart_count}I", content, end)):
        raise IndexError("a restart in the middle of an entry")


def _handles_between(entries: list[tuple[bytes, _Handle]], start: bytes, stop: bytes) -> Iterator[_Handle]:
    """Yield the blocks that a reader of a range reads, in key order, to find the end of the range, too."""
    is_last = False
    for key, handle in entries:
        if key[:-_TAG_BYTES] >= start:
            yield handle
        if is_last:
            return
        # The index key can be larger than all keys in its block, so the next block is read, too.
        is_last = key[:-_TAG_BYTES] >= stop


def _second_handle(footer: bytes) -> _Handle:
    _, offset = _handle(footer, 0)
    return _handle(footer, offset)[0]


def _handle(content: bytes, offset: int) -> tuple[_Handle, int]:
    """Return the handle at `offset` and its end."""
    block_offset, offset = varint(content, offset)
    size_bytes, offset = varint(content, offset)
    return _Handle(block_offset, size_bytes), offset


def _read(table: BinaryIO, handle: _Handle) -> bytes:
    table.seek(handle.offset)
    return table.read(handle.size_bytes)


def _read_block(table: BinaryIO, handle: _Handle) -> bytes:
    """Return a block with its type and checksum; raise IndexError if it extends beyond the end of the file."""
    end = handle.offset + handle.size_bytes + _TRAILER_BYTES
    if end > table.seek(0, os.SEEK_END):
        raise IndexError("a block beyond the end of the table")
    return _read(table, _Handle(handle.offset, end - handle.offset))


def _are_sound(blocks: list[bytes]) -> list[bool]:
    sums = masked_crc32c_of_each([block[: -_CRC.size] for block in blocks])
    return [_CRC.unpack(block[-_CRC.size :])[0] == crc for block, crc in zip(blocks, sums, strict=True)]


def _content(block: bytes) -> bytes:
    content = block[:-_TRAILER_BYTES]
    return decompress(content) if block[-_TRAILER_BYTES] == _SNAPPY else content
