"""Tables with right checksums and wrong lengths, which LevelDB believes: it would end the process."""

import asyncio
import shutil
import struct
from pathlib import Path

import plyvel
import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.blocks import varint
from miniqueue.storage.leveldb.files.crc32c import masked_crc32c
from miniqueue.storage.leveldb.files.manifest import parse_manifest
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.leveldb.table_check import check_tables, manifest_path
from miniqueue.storage.leveldb.view import viewed
from tests.storage.leveldb.directories import open_and_close

NOTHING, EVERYTHING = (b"\xff", b"\xff"), 1 << 40
SNAPPY = 1


def encoded(number: int) -> bytes:
    """Return a varint."""
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def index_of(table: bytes) -> tuple[int, int]:
    """Return offset and size of the index."""
    offset, numbers = 0, []
    for _ in range(4):
        number, offset = varint(table[-48:], offset)
        numbers.append(number)
    return numbers[2], numbers[3]


def sealed(table: bytearray, offset: int, size_bytes: int) -> bytes:
    """Put the checksum of a block right."""
    end = offset + size_bytes + 1
    struct.pack_into("<I", table, end, masked_crc32c(bytes(table[offset:end])))
    return bytes(table)


def first_block(table: bytes) -> tuple[int, int]:
    """Return offset and size of the first data block."""
    index, _ = index_of(table)
    _, place = varint(table, index)
    rest, place = varint(table, place)
    _, place = varint(table, place)
    offset, place = varint(table, place + rest)
    return offset, varint(table, place)[0]


def with_first_bytes(table: bytes, content: bytes, kind: int = 0) -> bytes:
    """Make the first data block begin with `content`."""
    offset, size_bytes = first_block(table)
    changed = bytearray(table)
    changed[offset : offset + len(content)] = content
    changed[offset + size_bytes] = kind
    return sealed(changed, offset, size_bytes)


def with_handle(table: bytes, offset: int, size_bytes: int) -> bytes:
    """Make the first entry of the index lead elsewhere, by a shorter key."""
    index, index_bytes = index_of(table)
    _, place = varint(table, index)
    rest, place = varint(table, place)
    old_bytes, place = varint(table, place)
    handle = encoded(offset) + encoded(size_bytes)
    key_bytes = rest + old_bytes - len(handle)
    assert key_bytes >= 8
    entry = b"\0" + encoded(key_bytes) + encoded(len(handle)) + table[place : place + key_bytes] + handle
    changed = bytearray(table)
    changed[index : index + len(entry)] = entry
    return sealed(changed, index, index_bytes)


def with_restarts(table: bytes, count: int) -> bytes:
    index, index_bytes = index_of(table)
    changed = bytearray(table)
    struct.pack_into("<I", changed, index + index_bytes - 4, count)
    return sealed(changed, index, index_bytes)


CRAFTED = {
    "a handle behind the end": lambda table: with_handle(table, 0, 1 << 40),
    "a handle that begins behind the end": lambda table: with_handle(table, 1 << 40, 10),
    "a handle whose end is less than its beginning": lambda table: with_handle(table, 0, (1 << 64) - 5),
    "a handle of the footer": lambda table: with_handle(table, len(table) - 20, 10),
    "an entry of 4 GiB": lambda table: with_first_bytes(table, b"\0" + encoded((1 << 32) - 1) + b"\2"),
    "an entry with a short key": lambda table: with_first_bytes(table, b"\0\3"),
    "a key that shares what was not there": lambda table: with_first_bytes(table, b"\7"),
    "4 GiB, compressed": lambda table: with_first_bytes(table, encoded((1 << 32) - 1), SNAPPY),
    "a compression that does not exist": lambda table: with_first_bytes(table, b"", 7),
    "an index that hides its entries": lambda table: with_restarts(table, 0),
    "an index with restarts in its entries": lambda table: with_restarts(table, 3),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all its messages in one table, none of which a start reads."""
    directory = tmp_path_factory.mktemp("sound") / "store"

    async def body():
        store = await LevelDBStore.open(directory)
        await store.write({b"a key of more bytes than a handle has %03d" % number: bytes(200) for number in range(60)})
        await store.close()

    asyncio.run(body())
    open_and_close(directory)  # moves the log into a table
    return directory


def craft(sound: Path, directory: Path, name: str) -> Path:
    """Copy the store with its table changed; return the table."""
    shutil.copytree(sound, directory)
    (table,) = (directory / "db").glob("*.ldb")
    content = CRAFTED[name](table.read_bytes())
    assert len(content) == table.stat().st_size
    table.write_bytes(content)
    return table


@pytest.mark.parametrize("name", CRAFTED)
def test_a_start_refuses_a_crafted_table_with_file_and_offset(sound, tmp_path, name):
    table = craft(sound, tmp_path / "store", name)
    with pytest.raises(CorruptionError, match=rf"{table}: damaged at offset \d+"):
        open_and_close(tmp_path / "store")


@pytest.mark.parametrize("name", CRAFTED)
def test_what_reads_everything_looks_everywhere_first(sound, tmp_path, name):
    table = craft(sound, tmp_path / "store", name)
    with pytest.raises(CorruptionError, match=rf"{table.name}: damaged at offset \d+"), viewed(tmp_path / "store"):
        pass


def test_a_rotten_block_that_a_start_does_not_read_does_not_keep_the_broker_from_starting(sound, tmp_path):
    """LevelDB refuses a block with a wrong checksum by itself: the damage is one of its topic, not of the store."""
    shutil.copytree(sound, tmp_path / "store")
    database = tmp_path / "store" / "db"
    (table,) = database.glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[:4] = b"\xff" * 4  # where the lengths of the first entry are
    table.write_bytes(content)
    check_tables(database, parse_manifest(manifest_path(database).read_bytes()), NOTHING, EVERYTHING)


def test_a_start_looks_no_further_than_it_was_told(sound, tmp_path):
    """The limit keeps the start short: a store of many GB is not read at a start."""
    craft(sound, tmp_path / "store", "an entry of 4 GiB")
    database = tmp_path / "store" / "db"
    manifest = parse_manifest(manifest_path(database).read_bytes())
    check_tables(database, manifest, NOTHING, 0)
    with pytest.raises(CorruptionError):
        check_tables(database, manifest, NOTHING, 1)


@pytest.mark.parametrize("compression", ["snappy", None])
def test_whatever_leveldb_writes_is_sound(tmp_path, compression):
    """Keys that share much and nothing, empty values, large ones, deletions."""
    database = plyvel.DB(str(tmp_path), create_if_missing=True, compression=compression, write_buffer_size=64 << 10)
    for number in range(3000):
        database.put(b"%c%07d" % (number % 60, number % 997), b"v" * (number % 7 * number % 500))
    database.put(b"", b"empty key")
    database.put(b"large", bytes(300_000))
    for number in range(0, 3000, 3):
        database.delete(b"%c%07d" % (number % 60, number % 997))
    database.compact_range()
    database.close()
    plyvel.DB(str(tmp_path)).close()
    manifest = parse_manifest(manifest_path(tmp_path).read_bytes())
    assert manifest.tables
    check_tables(tmp_path, manifest, (b"", b"\xff" * 9), EVERYTHING)
