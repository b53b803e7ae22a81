"""LevelDB's files as miniqueue reads them: logs, manifests, tables, compressed blocks, numbers of variable length.

Documented: IndexError of `decompress` and `varint` alone; damage is returned, not raised.
"""

import struct
import tempfile
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from random import Random

import plyvel

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.batches import batches_of, change_numbers, changes_in, find_batches
from miniqueue.storage.leveldb.files.blocks import decompress, varint
from miniqueue.storage.leveldb.files.crc32c import crc32c, crc32c_of_each, masked_crc32c
from miniqueue.storage.leveldb.files.log import (
    BLOCK_BYTES,
    HEADER,
    begins_soundly,
    content_at,
    find_manifest_damage,
    survey,
)
from miniqueue.storage.leveldb.files.manifest import parse_manifest
from miniqueue.storage.leveldb.files.table import find_table_damage
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import payload
from tests.storage.leveldb.files.leveldb_log import batch, log_of

_FOOTER_BYTES, _TRAILER_BYTES, _MAX_VARINT_BYTES = 48, 5, 10
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_EVERYTHING = 1 << 62
_MAX_MANIFEST_BYTES = 2000  # behind damage every place is tried, and the work grows with the square of the length


@cache
def _files() -> dict[str, bytes]:
    """Return a manifest and a table as LevelDB itself writes them."""
    with tempfile.TemporaryDirectory() as directory:
        database = plyvel.DB(directory, create_if_missing=True, block_size=128)
        for number in range(20):
            database.put(b"key %02d" % number, b"value %d " % number * 8)
        database.compact_range()
        database.close()
        plyvel.DB(directory).close()
        found = {path.name[:8]: path.read_bytes() for path in Path(directory).iterdir() if path.is_file()}
        table = next(path for path in Path(directory).iterdir() if path.suffix == ".ldb")
        return {"table": table.read_bytes(), "manifest": found["MANIFEST"]}


def _make(chance: Random) -> bytes:
    match chance.randrange(5):
        case 0:
            return _log(chance)
        case 1:
            return _files()["manifest"]
        case 2:
            return _files()["table"]
        case 3:
            return _varint(chance.getrandbits(chance.randint(1, 70))) + payload(chance)
        case _:
            return _compressed(chance)


def _log(chance: Random) -> bytes:
    sizes = [chance.choice((12, 13, 40, 300)) for _ in range(chance.randint(1, 6))]
    if chance.random() < 1 / 20:
        sizes[0] = BLOCK_BYTES - chance.randint(0, 40)
    return log_of(*(batch(100 + index, size) for index, size in enumerate(sizes)))[0]


def _varint(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def _compressed(chance: Random) -> bytes:
    """Return a snappy block of literals, and of copies of their beginning."""
    elements, size_bytes = b"", 0
    for _ in range(chance.randint(0, 4)):
        literal = payload(chance)[:60] or b"x"
        count = chance.randint(0, 3)
        elements += bytes([len(literal) - 1 << 2]) + literal + (bytes([11 - 1 << 2 | 2]) + b"\x01\0") * count
        size_bytes += len(literal) + 11 * count
    return _varint(size_bytes) + elements


def _mend(content: bytes) -> bytes:
    """Put the checksums right: of the index, and where there is none, of the records of a log."""
    mended = bytearray(content)
    if content.endswith(_MAGIC):
        _mend_index(mended)
    else:
        _mend_records(mended)
    return bytes(mended)


def _mend_index(table: bytearray) -> None:
    footer = bytes(table[-_FOOTER_BYTES:])
    try:
        offset = 0
        for _ in range(3):
            start, offset = varint(footer, offset)
        size_bytes, _ = varint(footer, offset)
    except IndexError:
        return
    end = start + size_bytes + 1
    if end + 4 <= len(table):
        table[end : end + 4] = masked_crc32c(bytes(table[start:end])).to_bytes(4, "little")


def _mend_records(log: bytearray) -> None:
    offset = 0
    while offset + HEADER.size <= len(log):
        if BLOCK_BYTES - offset % BLOCK_BYTES < HEADER.size:
            offset += BLOCK_BYTES - offset % BLOCK_BYTES
            continue
        end = offset + HEADER.size + HEADER.unpack_from(log, offset)[1]
        struct.pack_into("<I", log, offset, masked_crc32c(bytes(log[offset + 6 : end])))
        offset = end


def _check(content: bytes) -> None:
    for verify_checksums in (True, False):
        _check_log(content, verify_checksums)
    find_manifest_damage(content[:_MAX_MANIFEST_BYTES])
    manifest = parse_manifest(content)
    assert 0 <= manifest.end_offset <= len(content)
    assert manifest.tables.keys() <= manifest.named
    _check_table(content)
    found = attempt(decompress, content, documented=(IndexError,))
    assert isinstance(found, Exception) or len(found) == varint(content, 0)[0]
    number = attempt(varint, content, 0, documented=(IndexError,))
    assert isinstance(number, Exception) or number[1] <= _MAX_VARINT_BYTES
    changes = attempt(changes_in, content, documented=(CorruptionError,))
    assert isinstance(changes, Exception) or len(changes) == change_numbers(content)[1]
    _check_batches(content)
    pieces = [content[start : start + 100] for start in range(0, min(len(content), 1000), 100)]
    assert crc32c_of_each(pieces) == list(map(crc32c, pieces))


def _check_batches(log: bytes) -> None:
    """A log that is followed has at least the batches that a startup finds in it, and they are the same."""
    part = find_batches(log, 0)
    followed = [part.batch(index) for index in range(len(part.ends))]
    for index, content in enumerate(followed):
        numbers = attempt(part.numbers, index, documented=(CorruptionError,))
        assert isinstance(numbers, Exception) or numbers == change_numbers(content)
    found = survey(log, verify_checksums=False)
    assert followed[: len(found.batch_offsets)] == [content_at(log, offset) for offset in found.batch_offsets]
    for start in (0, BLOCK_BYTES - 3, log[0] if log else 0):
        batches = attempt(batches_of, log, start, documented=(CorruptionError,))
        assert isinstance(batches, Exception) or sum(map(len, batches)) <= len(log)
    for start, end in pairwise((0, *part.ends)):
        assert len(batches_of(log[start:end], start % BLOCK_BYTES)) == 1


def _check_log(log: bytes, verify_checksums: bool) -> None:
    found = survey(log, verify_checksums=verify_checksums)
    offsets = list(found.batch_offsets)
    assert offsets == sorted(set(offsets))
    assert 0 <= found.end_offset <= len(log)
    for offset in offsets:
        assert len(content_at(log, offset)) <= found.end_offset - offset - HEADER.size
        assert not verify_checksums or begins_soundly(log, offset)
    if verify_checksums:
        contents = [content_at(log, offset) for offset in offsets]
        written, _ = log_of(*contents)
        again = survey(written, verify_checksums=True)
        assert again.damage is None
        assert [content_at(written, offset) for offset in again.batch_offsets] == contents


def _check_table(table: bytes) -> None:
    first, last = sorted((b"key " + chance_of(table).randbytes(2), b"key 13"))
    for start, stop in ((b"", b"\xff" * 8), (first, last)):
        offset = find_table_damage(BytesIO(table), start, stop, max_bytes=_EVERYTHING)
        assert offset is None or 0 <= offset <= len(table)


TARGET = Target("leveldb_files", _make, _check, mend=_mend, quick_inputs=200)
