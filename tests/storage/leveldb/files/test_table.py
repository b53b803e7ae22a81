"""Which block of a table is damaged, told without LevelDB; and the start that refuses it with file and offset."""

from random import Random

import plyvel
import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.files.blocks import decompress
from miniqueue.storage.leveldb.files.manifest import parse_manifest
from miniqueue.storage.leveldb.files.table import find_table_damage
from miniqueue.storage.leveldb.table_check import check_tables, manifest_path, name_table_damage
from tests.storage.leveldb.directories import fingerprint, open_and_close

FEW, MANY = 1 << 16, 1 << 40
EVERYTHING = (b"", b"\xff" * 20)


def make_tables(path, compression="snappy", count=500):
    """Make a database with keys of many kinds, all in tables."""
    database = plyvel.DB(str(path), create_if_missing=True, compression=compression, write_buffer_size=64 << 10)
    for number in range(count):
        value = Random(number).randbytes(50) * Random(number).randrange(20)
        database.put(b"%c%05d" % (1 + number % 60, number), value)
    database.close()
    plyvel.DB(str(path)).close()
    return sorted(path.glob("*.ldb"))


def damage_of(table, start, stop, max_bytes=MANY):
    with table.open("rb") as opened:
        return find_table_damage(opened, start, stop, max_bytes=max_bytes)


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("compression", ["snappy", None])
def test_sound_table_has_no_damage(tmp_path, compression):
    for table in make_tables(tmp_path, compression):
        assert damage_of(table, *EVERYTHING) is None


def test_damage_is_the_offset_of_the_block_that_has_it(tmp_path):
    table = make_tables(tmp_path)[0]
    size_bytes = table.stat().st_size
    for offset in range(0, size_bytes - 500, 1999):
        flip(table, offset)
        found = damage_of(table, *EVERYTHING)
        assert found is not None
        assert offset - 5000 < found <= offset
        flip(table, offset)


def test_damage_of_index_or_footer_is_always_met(tmp_path):
    table = make_tables(tmp_path)[0]
    size_bytes = table.stat().st_size
    for back in (1, 8, 60):
        flip(table, size_bytes - back)
        assert damage_of(table, b"\x05", b"\x06") is not None
        flip(table, size_bytes - back)
    table.write_bytes(table.read_bytes()[:20])
    assert damage_of(table, b"\x05", b"\x06") == 0


def test_only_the_blocks_of_the_range_are_looked_at(tmp_path):
    table = make_tables(tmp_path)[0]
    flip(table, 100)
    assert damage_of(table, b"\x01", b"\x02") == 0
    assert damage_of(table, b"\x30", b"\xff") is None


def test_looking_ends_after_so_many_bytes(tmp_path):
    table = max(make_tables(tmp_path, compression=None, count=4000), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size * 9 // 10)
    assert damage_of(table, *EVERYTHING) is not None
    assert damage_of(table, *EVERYTHING, max_bytes=0) is None


def test_snappy_blocks_are_those_that_leveldb_reads():
    assert decompress(b"\x0a\x24abcdefghij") == b"abcdefghij"  # one literal
    assert decompress(b"\x0c\x08abc\x15\x03") == b"abcabcabcabc"  # a copy that overlaps itself
    assert decompress(b"\x46\xf0\x3b" + b"x" * 60 + b"\x26\x3c\x00") == b"x" * 70  # a long literal, a copy of 16 bits
    for nonsense in (b"", b"\x05\x00a", b"\x04\x15\x03", b"\x04\x01"):
        with pytest.raises(IndexError):
            decompress(nonsense)


def test_manifest_names_the_tables_that_are_there(tmp_path):
    tables = make_tables(tmp_path)
    manifest = parse_manifest(manifest_path(tmp_path).read_bytes())
    assert {f"{table.number:06d}.ldb": table.size_bytes for table in manifest.tables.values()} == {
        table.name: table.stat().st_size for table in tables
    }
    assert min(table.first for table in manifest.tables.values())[0] == 1
    assert max(table.last for table in manifest.tables.values())[0] == 60
    check_tables(tmp_path, manifest, keys.state(), MANY)


def test_damage_that_a_reader_meets_has_a_name(tmp_path):
    table = make_tables(tmp_path)[0]
    assert name_table_damage(tmp_path, EVERYTHING) is None
    flip(table, 100)
    assert name_table_damage(tmp_path, (b"\x01", b"\x02")) == f"{table}: damaged at offset 0"
    (tmp_path / "CURRENT").unlink()
    assert name_table_damage(tmp_path, EVERYTHING) is None


@pytest.mark.parametrize("content", [b"", b"MANIFEST-000002", b"MANIFEST-99\n", b"\xff\n"])
def test_current_that_names_no_manifest_is_refused_by_name(tmp_path, content):
    open_and_close(tmp_path)
    (tmp_path / "db" / "CURRENT").write_bytes(content)
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=r"db/CURRENT"):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_manifest_without_a_whole_edit_is_refused_by_name(tmp_path):
    open_and_close(tmp_path)
    manifest = manifest_path(tmp_path / "db")
    manifest.write_bytes(manifest.read_bytes()[:10])
    with pytest.raises(CorruptionError, match=rf"{manifest}: .* at offset 0"):
        open_and_close(tmp_path)
