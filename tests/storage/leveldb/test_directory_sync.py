"""When the directory is synced, and when that is spared."""

import os
import stat
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from miniqueue.errors import StorageError
from miniqueue.storage.leveldb.database import DatabaseOptions, open_database
from miniqueue.storage.leveldb.directory_sync import TICK_NS, DirectorySync
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.opening import Opened
from miniqueue.storage.leveldb.store import LevelDBStore, Worker
from miniqueue.storage.port import SyncMode


class FakeFsync:
    """Remembers what was synced, by path; fails when told to."""

    def __init__(self) -> None:
        self.synced: list[Path] = []
        self.failure: OSError | None = None

    def __call__(self, descriptor: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))


def long_after() -> int:
    return 2**62


@pytest.fixture
def fsync():
    return FakeFsync()


def test_first_look_syncs_and_the_next_does_not(tmp_path, fsync):
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=long_after)
    sync.sync_if_changed()
    sync.sync_if_changed()
    assert fsync.synced == [tmp_path]
    sync.close()
    sync.close()


def test_new_file_makes_it_sync_the_logs_and_then_the_directory(tmp_path, fsync):
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=long_after)
    sync.sync_if_changed()
    fsync.synced.clear()
    (tmp_path / "000007.log").write_bytes(b"a batch")
    (tmp_path / "000005.ldb").touch()
    os.utime(tmp_path, ns=(1, 1))  # a time of its own, however coarse the clock of the file system
    sync.sync_if_changed()
    sync.sync_if_changed()
    assert sync.used_log == 7
    assert fsync.synced == [tmp_path / "000007.log", tmp_path]
    sync.close()


def test_older_log_is_synced_before_a_later_one_that_would_be_a_hole_alone(tmp_path, fsync):
    numbers = range(20, 0, -1)
    for number in numbers:
        (tmp_path / f"{number:06d}.log").touch()
    sync = DirectorySync(tmp_path, fsync=fsync)
    sync.sync_logs()
    assert fsync.synced == [tmp_path / f"{number:06d}.log" for number in reversed(numbers)]
    sync.close()


def test_empty_log_is_looked_at_again_because_the_next_batch_may_go_to_it(tmp_path, fsync):
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=long_after)
    (tmp_path / "000005.log").write_bytes(b"a batch")
    (tmp_path / "000007.log").touch()
    sync.sync_if_changed()
    assert sync.used_log == 5
    (tmp_path / "000007.log").write_bytes(b"a batch")
    sync.sync_if_changed()
    assert sync.used_log == 7


def test_change_in_the_tick_of_the_last_look_is_not_missed(tmp_path, fsync):
    now_ns = [1_000 * TICK_NS]
    os.utime(tmp_path, ns=(now_ns[0], now_ns[0]))
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=lambda: now_ns[0])
    sync.sync_if_changed()
    sync.sync_if_changed()
    assert fsync.synced == [tmp_path, tmp_path]
    now_ns[0] += 2 * TICK_NS
    sync.sync_if_changed()
    sync.sync_if_changed()
    assert fsync.synced == [tmp_path] * 3
    sync.close()


def test_failed_sync_is_tried_again_at_the_next_look(tmp_path, fsync):
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=long_after)
    fsync.failure = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        sync.sync_if_changed()
    fsync.failure = None
    sync.sync_if_changed()
    assert fsync.synced == [tmp_path]
    sync.close()


def test_log_that_disappears_meanwhile_is_passed_over(tmp_path, fsync):
    (tmp_path / "000001.log").symlink_to(tmp_path / "gone")
    sync = DirectorySync(tmp_path, fsync=fsync, now_ns=long_after)
    sync.sync_if_changed()
    assert fsync.synced == [tmp_path]
    sync.close()


@asynccontextmanager
async def on_small_logs(path, fsync, mode):
    """Yield store on a store that begins a new log every 64 KiB, with a fake fsync for the directory."""

    await (await LevelDBStore.open(path)).close()
    database = open_database(path / "db", DatabaseOptions(write_buffer_bytes=1 << 16))
    opened = Opened(path, database, DirectorySync(path / "db", fsync=fsync), StoreLock(path))
    store = LevelDBStore(opened, sync=mode, writer=Worker("writer"))
    try:
        yield store
    finally:
        await store.close()


def logs(path):
    return sorted(name for name in os.listdir(path / "db") if name.endswith(".log"))


@pytest.mark.parametrize(
    ("mode", "is_expected"), [(SyncMode.ALWAYS, True), (SyncMode.INTERVAL, True), (SyncMode.NEVER, False)]
)
async def test_write_that_begins_a_new_log_syncs_the_directory(tmp_path, fsync, mode, is_expected):
    async with on_small_logs(tmp_path, fsync, mode) as store:
        first = logs(tmp_path)
        while logs(tmp_path) == first:
            fsync.synced.clear()
            await store.write({b"k": bytes(20_000)})
        assert (tmp_path / "db" in fsync.synced) is is_expected


async def test_sync_covers_the_directory_whatever_the_mode(tmp_path, fsync):
    async with on_small_logs(tmp_path, fsync, SyncMode.NEVER) as store:
        await store.write({b"k": bytes(20_000)})
        assert fsync.synced == []
        await store.sync()
        assert tmp_path / "db" in fsync.synced


@pytest.mark.parametrize("mode", [SyncMode.INTERVAL, SyncMode.NEVER])
async def test_what_was_not_synced_is_synced_before_a_sync_that_may_begin_a_log(tmp_path, fsync, mode):
    """Otherwise a power cut in between finds the new log without the end of the one before, and a start is refused."""
    async with on_small_logs(tmp_path, fsync, mode) as store:
        await store.write({b"k": bytes(20_000)})
        (log,) = logs(tmp_path)
        size_bytes = (tmp_path / "db" / log).stat().st_size
        fsync.failure = OSError(5, "Input/output error")
        with pytest.raises(StorageError, match="Input/output error"):
            await store.sync()
        assert (tmp_path / "db" / log).stat().st_size == size_bytes


async def test_write_whose_directory_sync_fails_is_not_acknowledged(tmp_path, fsync):
    async with on_small_logs(tmp_path, fsync, SyncMode.ALWAYS) as store:
        fsync.failure = OSError(5, "Input/output error")
        with pytest.raises(StorageError, match="Input/output error"):
            await store.write({b"k": b"v"})
        with pytest.raises(StorageError, match="an earlier write failed"):
            await store.write({b"k": b"v"})


async def test_directories_and_own_files_are_for_the_owner_only(tmp_path):
    store = await LevelDBStore.open(tmp_path / "new" / "store")
    await store.close()
    store = tmp_path / "new" / "store"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", store, *store.iterdir())}
    assert {oct(mode) for path, mode in modes.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in modes.items() if path.is_file()} == {"0o600"}
