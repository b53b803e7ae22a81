"""A view reads all that a start would, and leaves every byte of the store as it was."""

import hashlib
import shutil
from pathlib import Path

import plyvel
import pytest

from miniqueue.errors import CorruptionError, FormatVersionError, NotAStoreError, StoreInUseError
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.view import viewed
from tests.storage.leveldb.directories import fill, keys_up_to, open_and_close

BATCHES = keys_up_to(60)


def every_byte(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in directory.rglob("*")
    }


def keys_in(directory: Path) -> list[bytes]:
    with viewed(directory) as view:
        return [key for key, _ in view.pairs()]


def test_a_view_has_what_is_in_the_log_and_changes_nothing(tmp_path):
    fill(tmp_path)
    before = every_byte(tmp_path)
    assert keys_in(tmp_path) == BATCHES
    assert every_byte(tmp_path) == before


def test_a_view_has_what_is_in_tables_and_changes_nothing(tmp_path):
    fill(tmp_path)
    open_and_close(tmp_path)  # LevelDB moves the log into a table
    assert list((tmp_path / "db").glob("*.ldb"))
    before = every_byte(tmp_path)
    assert keys_in(tmp_path) == BATCHES
    assert every_byte(tmp_path) == before


def test_a_table_that_a_crash_has_left_is_not_written_over(tmp_path):
    fill(tmp_path)
    for number in range(2, 40):
        (tmp_path / "db" / f"{number:06d}.ldb").write_bytes(b"left over")
    before = every_byte(tmp_path)
    assert keys_in(tmp_path) == BATCHES
    assert every_byte(tmp_path) == before


def test_a_torn_tail_is_told_and_stays(tmp_path):
    log = fill(tmp_path)
    log.write_bytes(log.read_bytes()[:-700] + bytes(700))
    before = every_byte(tmp_path)
    with viewed(tmp_path) as view:
        assert [key for key, _ in view.pairs()] == BATCHES[:-1]
        (torn,) = view.set_aside
    assert torn.file == log
    assert every_byte(tmp_path) == before


def test_damage_in_front_of_sound_batches_is_refused_by_the_name_of_the_real_file(tmp_path):
    log = fill(tmp_path)
    content = bytearray(log.read_bytes())
    content[20_000] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptionError, match=f"{log}: damaged at offset"), viewed(tmp_path):
        pass


@pytest.mark.parametrize("offset", [100, 30_000])
def test_a_damaged_table_ends_the_walk(tmp_path, offset):
    fill(tmp_path)
    open_and_close(tmp_path)
    (table,) = (tmp_path / "db").glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[offset] ^= 1
    table.write_bytes(content)
    with pytest.raises(CorruptionError, match=rf"{table}: damaged at offset \d+"), viewed(tmp_path) as view:
        list(view.pairs())


def test_a_missing_table_is_refused(tmp_path):
    fill(tmp_path)
    open_and_close(tmp_path)
    (table,) = (tmp_path / "db").glob("*.ldb")
    table.unlink()
    with pytest.raises(CorruptionError, match=f"{table} is missing"), viewed(tmp_path):
        pass


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.log"])
def test_a_missing_file_of_the_database_is_refused(tmp_path, pattern):
    fill(tmp_path)
    for path in (tmp_path / "db").glob(pattern):
        path.unlink()
    with pytest.raises(CorruptionError), viewed(tmp_path):
        pass


def test_a_damaged_manifest_is_refused(tmp_path):
    fill(tmp_path)
    (manifest,) = (tmp_path / "db").glob("MANIFEST-*")
    content = bytearray(manifest.read_bytes())
    content[10] ^= 1
    manifest.write_bytes(content)
    with pytest.raises(CorruptionError, match=str(tmp_path)), viewed(tmp_path):
        pass


def test_tables_of_many_edits_of_the_manifest_are_all_found(tmp_path):
    open_and_close(tmp_path)
    database = plyvel.DB(str(tmp_path / "db"), write_buffer_size=1 << 16)
    for number in range(3000):
        database.put(b"%06d" % (number * 7919 % 3000), bytes(500))
    database.close()
    assert keys_in(tmp_path) == [b"%06d" % number for number in range(3000)]


def test_a_store_in_use_is_refused(tmp_path):
    fill(tmp_path)
    lock = StoreLock(tmp_path)
    with pytest.raises(StoreInUseError, match="in use by process"), viewed(tmp_path):
        pass
    lock.release()


def test_a_view_keeps_openers_out(tmp_path):
    fill(tmp_path)
    with viewed(tmp_path), pytest.raises(StoreInUseError):
        open_and_close(tmp_path)


def test_a_copy_without_a_lock_file_can_be_viewed(tmp_path):
    fill(tmp_path)
    (tmp_path / "miniqueue.lock").unlink()
    assert keys_in(tmp_path) == BATCHES
    assert not (tmp_path / "miniqueue.lock").exists()


def test_a_creation_that_was_broken_off_has_no_keys(tmp_path):
    (tmp_path / "miniqueue.lock").touch()
    (tmp_path / "db.unfinished").mkdir()
    assert keys_in(tmp_path) == []


def test_a_creation_broken_off_before_the_last_renaming_can_be_viewed(tmp_path):
    fill(tmp_path)
    (tmp_path / "db").rename(tmp_path / "db.unfinished")
    before = every_byte(tmp_path)
    assert keys_in(tmp_path) == BATCHES
    assert every_byte(tmp_path) == before


def test_what_is_no_store_is_refused(tmp_path):
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotAStoreError), viewed(directory):
            pass
    (tmp_path / "letter").touch()
    with pytest.raises(NotAStoreError), viewed(tmp_path):
        pass
    assert not (tmp_path / "missing").exists()


def test_another_format_is_refused(tmp_path):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").write_bytes(b"miniqueue store, format 6\n")
    with pytest.raises(FormatVersionError), viewed(tmp_path):
        pass


def test_nothing_is_left_in_the_temporary_directory(tmp_path, monkeypatch):
    store, temporary = tmp_path / "store", tmp_path / "temporary"
    temporary.mkdir()
    fill(store)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    keys_in(store)
    shutil.rmtree(store / "db")
    with pytest.raises(CorruptionError), viewed(store):
        pass
    assert list(temporary.iterdir()) == []
