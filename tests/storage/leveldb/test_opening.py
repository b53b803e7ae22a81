"""Opening a store: whose directory it is, what may be made, and what is refused."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import plyvel
import pytest

from miniqueue.errors import CorruptionError, FormatVersionError, NotAStoreError, StorageError, StoreInUseError
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.storage.leveldb.directories import BATCH_COUNT, fill, fingerprint, open_and_close

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
from miniqueue.storage.leveldb.store import LevelDBStore
try:
    asyncio.run(LevelDBStore.open(Path(sys.argv[1])))
except StoreInUseError as error:
    print(error)
"""


async def test_second_process_is_refused_and_told_the_owner(tmp_path):
    owner = await LevelDBStore.open(tmp_path)
    with pytest.raises(StoreInUseError):
        await LevelDBStore.open(tmp_path)
    command = [sys.executable, "-c", OPEN_IN_ANOTHER_PROCESS, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert refused.stdout == f"{tmp_path} is in use by process {os.getpid()}\n"
    await owner.close()


async def test_owner_that_has_not_written_its_number_yet_is_another_process(tmp_path):
    owner = await LevelDBStore.open(tmp_path)
    (tmp_path / "miniqueue.lock").write_bytes(b"")
    with pytest.raises(StoreInUseError, match="another process"):
        await LevelDBStore.open(tmp_path)
    await owner.close()


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
    assert (path / "miniqueue.format").read_text() == "miniqueue store, format 5\n"
    assert sorted(os.listdir(path)) == ["db", "miniqueue.acknowledged", "miniqueue.format", "miniqueue.lock"]


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


@pytest.mark.parametrize("version", [0, 6, 10])
def test_other_format_version_is_refused_and_untouched(tmp_path, version):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").write_text(f"miniqueue store, format {version}\n")
    before = fingerprint(tmp_path)
    with pytest.raises(FormatVersionError) as refused:
        open_and_close(tmp_path)
    assert (refused.value.version, refused.value.expected) == (version, 5)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_store_of_an_older_format_is_opened_and_says_format_4_from_then_on(version, tmp_path):
    fill(tmp_path)
    (tmp_path / "miniqueue.format").write_text(f"miniqueue store, format {version}\n")
    assert len(open_and_close(tmp_path)[0]) == BATCH_COUNT
    assert (tmp_path / "miniqueue.format").read_text() == "miniqueue store, format 5\n"


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
    (path / "miniqueue.format").write_text("miniqueue store, format 5\n")


@pytest.mark.parametrize(
    "leave_behind", [only_lock, half_a_database, unfinished_database, half_a_marker, all_but_renaming]
)
def test_making_a_store_starts_again_after_a_crash(tmp_path, leave_behind):
    (tmp_path / "miniqueue.lock").touch()
    leave_behind(tmp_path)
    assert open_and_close(tmp_path) == ([], ())
    assert sorted(os.listdir(tmp_path)) == ["db", "miniqueue.acknowledged", "miniqueue.format", "miniqueue.lock"]


def test_failed_opening_leaves_the_directory_free(tmp_path):
    fill(tmp_path)
    current = tmp_path / "db" / "CURRENT"
    current.rename(tmp_path / "away")
    with pytest.raises(CorruptionError):
        open_and_close(tmp_path)
    (tmp_path / "away").rename(current)
    assert len(open_and_close(tmp_path)[0]) == BATCH_COUNT
