"""Opening a store: whose directory it is, what may be made, what is refused, what a torn log costs."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import plyvel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.errors import (
    CorruptionError,
    FormatVersionError,
    NotAStoreError,
    StorageError,
    StoreInUseError,
)
from miniqueue.storage.leveldb import LevelDBStore
from miniqueue.storage.set_aside import SetAside
from tests.storage.contract import everything

BATCH_COUNT = 60


def open_and_close(path: Path) -> tuple[list[tuple[bytes, bytes]], tuple[SetAside, ...]]:
    """Open the store and return what is in it and what was set aside."""

    async def body():
        store = await LevelDBStore.open(path)
        try:
            return await everything(store), store.set_aside
        finally:
            await store.close()

    return asyncio.run(body())


def fill(path: Path, value_bytes: int = 1000) -> Path:
    """Make a store of `BATCH_COUNT` batches, all of them in its newest log, and return the log."""

    async def body():
        store = await LevelDBStore.open(path)
        for number in range(BATCH_COUNT):
            await store.write({b"%03d" % number: Random(number).randbytes(value_bytes)})
        await store.close()

    asyncio.run(body())
    return max((path / "db").glob("*.log"))


def fingerprint(directory: Path, ignored: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a hash of every file; LevelDB's own diary and our lock's owner may change."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in ("LOG", "LOG.old", "miniqueue.lock", *ignored)
    }


def keys_up_to(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


# --- the lock ------------------------------------------------------------------------------------------------


def test_second_opening_in_the_same_process_is_refused_and_harmless(tmp_path):
    async def body():
        owner = await LevelDBStore.open(tmp_path)
        for _ in range(2):
            with pytest.raises(StoreInUseError, match=f"{tmp_path} is in use by process {os.getpid()}"):
                await LevelDBStore.open(tmp_path)
        await owner.write({b"k": b"v"})
        await owner.close()

    asyncio.run(body())
    assert open_and_close(tmp_path)[0] == [(b"k", b"v")]


OPEN_IN_ANOTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from miniqueue.errors import StoreInUseError
from miniqueue.storage.leveldb import LevelDBStore
try:
    asyncio.run(LevelDBStore.open(Path(sys.argv[1])))
except StoreInUseError as error:
    print(error)
"""


def test_second_process_is_refused_and_told_the_owner(tmp_path):
    async def body():
        owner = await LevelDBStore.open(tmp_path)
        with pytest.raises(StoreInUseError):
            await LevelDBStore.open(tmp_path)
        command = [sys.executable, "-c", OPEN_IN_ANOTHER_PROCESS, str(tmp_path)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        assert refused.stdout == f"{tmp_path} is in use by process {os.getpid()}\n"
        await owner.close()

    asyncio.run(body())


def test_owner_that_has_not_written_its_number_yet_is_another_process(tmp_path):
    async def body():
        owner = await LevelDBStore.open(tmp_path)
        (tmp_path / "miniqueue.lock").write_bytes(b"")
        with pytest.raises(StoreInUseError, match="another process"):
            await LevelDBStore.open(tmp_path)
        await owner.close()

    asyncio.run(body())


def test_lock_file_stays_and_is_taken_over_after_a_crash(tmp_path):
    open_and_close(tmp_path)
    (tmp_path / "miniqueue.lock").write_bytes(b"999999999\n")
    open_and_close(tmp_path)
    assert (tmp_path / "miniqueue.lock").read_text() == f"{os.getpid()}\n"


def test_database_that_somebody_opened_past_our_lock_is_refused(tmp_path):
    open_and_close(tmp_path)
    intruder = plyvel.DB(str(tmp_path / "db"))
    with pytest.raises(StorageError, match="lock"):
        open_and_close(tmp_path)
    intruder.close()


# --- whose directory it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False])
def test_store_is_made_in_an_empty_or_missing_directory(tmp_path, is_there):
    path = tmp_path / "a" / "store"
    if is_there:
        path.mkdir(parents=True)
    assert open_and_close(path) == ([], ())
    assert (path / "miniqueue.format").read_text() == "miniqueue store, format 1\n"
    assert sorted(os.listdir(path)) == ["db", "miniqueue.format", "miniqueue.lock"]


@pytest.mark.parametrize("name", ["notes.txt", "db/CURRENT", "CURRENT", "db.unfinished/CURRENT"])
def test_foreign_directory_is_refused_and_untouched(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    before = fingerprint(tmp_path)
    with pytest.raises(NotAStoreError):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before
    assert not (tmp_path / "miniqueue.lock").exists()


def test_store_that_lost_its_marker_is_refused_and_untouched(tmp_path):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").unlink()
    before = fingerprint(tmp_path)
    with pytest.raises(NotAStoreError):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(NotAStoreError, match="not a directory"):
        open_and_close(tmp_path / "file")


def test_directory_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(StorageError, match="Not a directory"):
        open_and_close(tmp_path / "file" / "store")


# --- the marker, and what must be there with it --------------------------------------------------------------


def test_other_format_version_is_refused_and_untouched(tmp_path):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").write_text("miniqueue store, format 2\n")
    before = fingerprint(tmp_path)
    with pytest.raises(FormatVersionError) as refused:
        open_and_close(tmp_path)
    assert (refused.value.found, refused.value.expected) == (2, 1)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("content", ["", "miniqueue store, format 1", "something else\n"])
def test_damaged_marker_is_refused(tmp_path, content):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").write_text(content)
    with pytest.raises(CorruptionError, match=r"miniqueue\.format"):
        open_and_close(tmp_path)


@pytest.mark.parametrize("missing", ["CURRENT", "MANIFEST-*", "*.log", "*.ldb", ""])
def test_store_with_a_missing_part_is_refused_and_untouched(tmp_path, missing):
    fill(tmp_path)
    open_and_close(tmp_path)  # moves the log's content into a table
    if missing:
        for path in (tmp_path / "db").glob(missing):
            path.unlink()
    else:
        shutil.rmtree(tmp_path / "db")
    before = fingerprint(tmp_path)
    with pytest.raises(StorageError):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_damaged_manifest_is_corruption(tmp_path):
    fill(tmp_path)
    (manifest,) = (tmp_path / "db").glob("MANIFEST-*")
    content = bytearray(manifest.read_bytes())
    content[10] ^= 1
    manifest.write_bytes(content)
    with pytest.raises(CorruptionError):
        open_and_close(tmp_path)


# --- a crash while the store is made ------------------------------------------------------------------------


def unfinished_database(path: Path) -> None:
    plyvel.DB(str(path / "db.unfinished"), create_if_missing=True).close()


def only_lock(path: Path) -> None:
    pass


def half_a_database(path: Path) -> None:
    unfinished_database(path)
    (path / "db.unfinished" / "CURRENT").unlink()


def half_a_marker(path: Path) -> None:
    unfinished_database(path)
    (path / "miniqueue.format.unfinished").write_text("mini")


def all_but_renaming(path: Path) -> None:
    unfinished_database(path)
    (path / "miniqueue.format").write_text("miniqueue store, format 1\n")


@pytest.mark.parametrize(
    "leave_behind", [only_lock, half_a_database, unfinished_database, half_a_marker, all_but_renaming]
)
def test_making_a_store_starts_again_after_a_crash(tmp_path, leave_behind):
    (tmp_path / "miniqueue.lock").touch()
    leave_behind(tmp_path)
    assert open_and_close(tmp_path) == ([], ())
    assert sorted(os.listdir(tmp_path)) == ["db", "miniqueue.format", "miniqueue.lock"]


def test_failed_opening_leaves_the_directory_free(tmp_path):
    fill(tmp_path)
    current = tmp_path / "db" / "CURRENT"
    current.rename(tmp_path / "away")
    with pytest.raises(CorruptionError):
        open_and_close(tmp_path)
    (tmp_path / "away").rename(current)
    assert len(open_and_close(tmp_path)[0]) == BATCH_COUNT


# --- the tail of the log ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [b"\xff" * 4096, Random(1).randbytes(20_000)])
def test_garbage_behind_the_log_is_set_aside_and_reported(tmp_path, tail):
    log = fill(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole + tail)
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT)
    copy = tmp_path / "lost" / f"{log.name}.1"
    assert set_aside == (SetAside(log, offset=len(whole), size_bytes=len(tail), copy=copy),)
    assert copy.read_bytes() == whole + tail
    assert open_and_close(tmp_path)[1] == ()


def test_last_batch_that_does_not_match_its_checksum_is_set_aside(tmp_path):
    log = fill(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[:-100] + bytes(100))
    pairs, ((cut),) = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT - 1)
    assert cut.copy.read_bytes() == whole[:-100] + bytes(100)
    assert cut.offset + cut.size_bytes == len(whole)


def test_earlier_copies_are_kept(tmp_path):
    log = fill(tmp_path)
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / f"{log.name}.1").write_text("earlier")
    log.write_bytes(log.read_bytes() + b"\xff" * 1000)
    _, (cut,) = open_and_close(tmp_path)
    assert cut.copy.name == f"{log.name}.2"
    assert (tmp_path / "lost" / f"{log.name}.1").read_text() == "earlier"


def test_flipped_bit_in_the_middle_is_refused_with_file_and_offset_and_nothing_is_touched(tmp_path):
    log = fill(tmp_path)
    content = bytearray(log.read_bytes())
    content[30_000] ^= 1
    log.write_bytes(content)
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{log}: damaged at offset (2\d{{4}}), \d+ bytes, in front of"):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_torn_tail_of_a_log_that_is_not_the_newest_is_refused(tmp_path):
    log = fill(tmp_path)
    log.write_bytes(log.read_bytes() + b"\xff" * 100)
    shutil.copy(log, log.with_name("999999.log"))
    with pytest.raises(CorruptionError, match=str(log)):
        open_and_close(tmp_path)


def test_short_tail_is_accepted_without_a_word(tmp_path):
    log = fill(tmp_path)
    os.truncate(log, log.stat().st_size - 100)
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT - 1)
    assert set_aside == ()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_changed_byte_of_the_log_costs_more_than_the_last_batch_in_silence(place, change):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        log = fill(path, value_bytes=900)
        content = bytearray(log.read_bytes())
        content[place % len(content)] ^= change
        log.write_bytes(content)
        outcome: object
        try:
            outcome = [key for key, _ in open_and_close(path)[0]]
        except CorruptionError as refusal:
            outcome = str(refusal).startswith(f"{log}: damaged at offset ")
        assert outcome in (True, keys_up_to(BATCH_COUNT), keys_up_to(BATCH_COUNT - 1))
