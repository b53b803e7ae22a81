"""Verify the blocks of a LevelDB table in which a range of keys may be, and say where damage begins.

    table    = block* footer                                  data blocks, the index and others
    block    = content, type:1, crc:4                         type 1: snappy; masked CRC-32C of content and type
    footer   = handle handle zeroes magic:8                   48 bytes; the second handle is that of the index
    handle   = offset:varint size:varint                      of the content of a block
    index    = entry* restart:4* count:4                      an entry for each data block, in key order
    entry    = shared:varint rest:varint size:varint key handle
    key      = key:rest changes:8                             no key of the block is larger; `shared` bytes as before

LevelDB names neither file nor offset when a checksum does not match, and looks only when it reads. What has the right
checksum it believes: a handle that leads behind the file, or a length of 4 GB, makes it end the process. So these are
checked here as well.

Source: LevelDB `doc/table_format.md`, `table/format.h`.
"""

import os
import struct
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple

from miniqueue.storage.crc32c import masked_crc32c_of_each
from miniqueue.storage.snappy import decompress
from miniqueue.storage.varint import varint

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_TRAILER_BYTES = 5
_SNAPPY = 1
_CRC = struct.Struct("<I")
_BLOCKS_AT_ONCE = 256  # of 4 KiB, unless a value is larger
_TAG_BYTES = 8  # what LevelDB adds to every key


class _Handle(NamedTuple):
    offset: int
    size_bytes: int


def find_table_damage(
    table: BinaryIO, start: bytes, stop: bytes, *, max_bytes: int, verify_checksums: bool = True
) -> int | None:
    """Return the offset of the first damage that a reader of the keys from `start` to before `stop` would meet.

    The index is checked whole, whatever the range: LevelDB ends the process when a handle leads behind the file.

    Args:
      table: the file.
      start: first key.
      stop: behind the last key.
      max_bytes: look no further than at about so many bytes of data.
      verify_checksums: whether a wrong checksum is damage; if not, only what LevelDB believes when it is right.

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
    looked_at_bytes = 0
    while looked_at_bytes < max_bytes and (some := list(islice(handles, _BLOCKS_AT_ONCE))):
        blocks = [_read_block(table, handle) for handle in some]
        for handle, block, is_sound in zip(some, blocks, _are_sound(blocks), strict=True):
            if (is_sound and not _has_sound_entries(block)) or (verify_checksums and not is_sound):
                return handle.offset
        looked_at_bytes += sum(map(len, blocks))
    return None


def _indexed(index: bytes, end_offset: int) -> list[tuple[bytes, _Handle]]:
    """Return the keys of an index with their handles; raises IndexError unless all lead to blocks before `end_offset`.

    LevelDB searches by the restarts, which are at every entry of an index, so they must say the same.
    """
    found: list[tuple[bytes, _Handle]] = []
    key = b""
    for shared, place, size_bytes in _entries(index):
        key = key[:shared] + index[place.offset : place.offset + place.size_bytes]
        handle, _ = _handle(index, place.offset + place.size_bytes)
        if shared or not size_bytes or handle.offset + handle.size_bytes + _TRAILER_BYTES > end_offset:
            raise IndexError("an index that leads behind the blocks")
        found.append((key, handle))
    return found


def _has_sound_entries(block: bytes) -> bool:
    """Tell whether LevelDB can read a block: it believes lengths in it, and takes as much memory as they say."""
    try:
        for _ in _entries(_content(block)):
            pass
    except IndexError:
        return False
    return block[-_TRAILER_BYTES] <= _SNAPPY


def _entries(content: bytes) -> Iterator[tuple[int, _Handle, int]]:
    """Yield of each entry how much its key shares with the one before, where the rest of it is, and its value's size.

    Raises IndexError when a length leads out of the entries, or a restart to anything but an entry with a whole key.
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
            raise IndexError("an entry that goes on behind its block")
        if not shared:
            whole.add(begin)
        yield shared, _Handle(offset, rest), size_bytes
        key_bytes, offset = shared + rest, offset + rest + size_bytes
    if not whole.issuperset(struct.unpack_from(f"<{restart_count}I", content, end)):
        raise IndexError("a restart in the middle of an entry")


def _handles_between(entries: list[tuple[bytes, _Handle]], start: bytes, stop: bytes) -> Iterator[_Handle]:
    """Yield the blocks in which a reader of a range looks, in key order, also to find the end of the range."""
    is_last = False
    for key, handle in entries:
        if key[:-_TAG_BYTES] >= start:
            yield handle
        if is_last:
            return
        is_last = key[:-_TAG_BYTES] >= stop  # that key may be larger than all in its block: one more


def _second_handle(footer: bytes) -> _Handle:
    _, offset = _handle(footer, 0)
    return _handle(footer, offset)[0]


def _handle(content: bytes, offset: int) -> tuple[_Handle, int]:
    """Return the handle at `offset` and where it ends."""
    block_offset, offset = varint(content, offset)
    size_bytes, offset = varint(content, offset)
    return _Handle(block_offset, size_bytes), offset


def _read(table: BinaryIO, place: _Handle) -> bytes:
    table.seek(place.offset)
    return table.read(place.size_bytes)


def _read_block(table: BinaryIO, handle: _Handle) -> bytes:
    """Return a block with its type and checksum; raises IndexError when it goes on behind the end of the file."""
    end = handle.offset + handle.size_bytes + _TRAILER_BYTES
    if end > table.seek(0, os.SEEK_END):
        raise IndexError("a block behind the end of the table")
    return _read(table, _Handle(handle.offset, end - handle.offset))


def _are_sound(blocks: list[bytes]) -> list[bool]:
    sums = masked_crc32c_of_each([block[: -_CRC.size] for block in blocks])
    return [_CRC.unpack(block[-_CRC.size :])[0] == crc for block, crc in zip(blocks, sums, strict=True)]


def _content(block: bytes) -> bytes:
    content = block[:-_TRAILER_BYTES]
    return decompress(content) if block[-_TRAILER_BYTES] == _SNAPPY else content
