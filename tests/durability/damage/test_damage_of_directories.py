"""Directories that are not the broker's to open: foreign, of another version, or open already."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from miniqueue.errors import FormatVersionError, NotAStoreError, StorageError, StoreInUseError
from miniqueue.storage.leveldb.acknowledged import read_acknowledged
from miniqueue.storage.leveldb.marker import FORMAT_VERSION
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.durability.damage.outcome import Outcome, judge
from tests.durability.damage.samples import make_fresh
from tests.storage.leveldb.directories import fingerprint, open_and_close


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return make_fresh(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def copy(sample, tmp_path):
    return shutil.copytree(sample.directory, tmp_path / "copy")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 99])
def test_other_format_version_is_refused_untouched_and_by_name(sample, copy, version):
    (copy / "miniqueue.format").write_text(f"miniqueue store, format {version}\n")
    with pytest.raises(FormatVersionError, match=rf"{copy}/miniqueue.format: format version {version} found"):
        open_and_close(copy)
    assert judge(sample, copy).outcome is Outcome.REFUSED


def test_foreign_directory_is_refused_and_untouched(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("precious")
    (tmp_path / "CURRENT").write_text("precious, too")
    before = fingerprint(tmp_path)
    with pytest.raises(NotAStoreError, match=str(tmp_path)):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_store_without_its_database_is_refused_and_untouched(sample, copy):
    shutil.rmtree(copy / "db")
    before = fingerprint(copy)
    with pytest.raises(StorageError, match=f"{copy}/db/CURRENT"):
        open_and_close(copy)
    assert fingerprint(copy) == before


def test_database_of_an_older_copy_is_refused(sample, copy):
    """Somebody brings back `db` alone: what was acknowledged since is missing, and a start says so."""
    older = (copy / "db" / sample.newest_log).read_bytes()
    (copy / "db" / sample.newest_log).write_bytes(older[: len(older) // 2])
    verdict = judge(sample, copy)
    assert verdict.outcome is Outcome.REFUSED
    change = read_acknowledged(copy).last.change
    assert f"change {change} was acknowledged" in verdict.why


OPEN = """
import asyncio, sys
from pathlib import Path
from miniqueue.errors import StorageError
from miniqueue.storage.leveldb.store import LevelDBStore
try:
    asyncio.run(LevelDBStore.open(Path(sys.argv[1])))
except StorageError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("removed", [(), ("miniqueue.lock",), ("db/LOCK",), ("miniqueue.lock", "db/LOCK")])
def test_second_broker_is_refused_even_when_a_lock_file_was_removed(sample, copy, removed):
    async def body():
        owner = await LevelDBStore.open(copy)
        for name in removed:
            (copy / name).unlink()
        command = [sys.executable, "-c", OPEN, str(copy)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert "Error" in refused.stdout, "it was opened a second time"
        assert str(copy) in refused.stdout
        with pytest.raises(StorageError):
            await LevelDBStore.open(copy)
        await owner.close()

    asyncio.run(body())
    assert judge(sample, copy).outcome is Outcome.COMPLETE


def test_second_store_in_one_process_is_refused_and_the_first_goes_on(sample, copy):
    async def body():
        owner = await LevelDBStore.open(copy)
        with pytest.raises(StoreInUseError):
            await LevelDBStore.open(copy)
        await owner.write({b"\x01": await owner.get(b"\x01")})
        await owner.close()

    asyncio.run(body())
    assert judge(sample, copy).outcome is Outcome.COMPLETE


@pytest.mark.parametrize("name", ["miniqueue.lock", "db/LOCK", "db/LOG", "db/LOG.old"])
def test_files_that_hold_nothing_may_be_missing(sample, copy, name):
    Path(copy / name).unlink()
    assert judge(sample, copy).outcome is Outcome.COMPLETE
