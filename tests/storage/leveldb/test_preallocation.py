"""Space of a log that is written ahead: when there is some, and that it is not taken for damage."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, survey
from miniqueue.storage.leveldb.preallocation import MAX_BATCH_BYTES, STEP_BYTES, Preallocation
from miniqueue.storage.leveldb.set_aside import SetAside, check_logs
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode
from tests.storage.leveldb.directories import BATCH_COUNT, fill, open_and_close, used_bytes

SMALL = b"small" * 20


def write(path: Path, *values: bytes, sync: SyncMode = SyncMode.ALWAYS) -> Path:
    """Open a store, write each value as a batch of its own, close it, and return the newest log."""

    async def body() -> None:
        store = await LevelDBStore.open(path, sync=sync)
        for number, value in enumerate(values):
            await store.write({b"%06d" % number: value})
        await store.close()

    asyncio.run(body())
    return max((path / "db").glob("*.log"))


def content(path: Path) -> list[bytes]:
    pairs, set_aside = open_and_close(path)
    assert set_aside == ()
    return [value for _, value in pairs]


def test_small_batches_go_over_zeroes_and_the_log_stays_as_long_as_it_is(tmp_path):
    log = write(tmp_path / "one", SMALL)
    assert log.stat().st_size == used_bytes(log) + STEP_BYTES
    full = write(tmp_path / "many", *[SMALL] * 500)
    assert full.stat().st_size == log.stat().st_size
    assert used_bytes(full) > 500 * len(SMALL)
    assert content(tmp_path / "many") == [SMALL] * 500


def test_zeroes_are_written_ahead_again_before_they_are_used_up(tmp_path):
    values = [SMALL * 10] * (3 * STEP_BYTES // len(SMALL * 10))
    log = write(tmp_path, *values)
    assert used_bytes(log) + MAX_BATCH_BYTES // 2 < log.stat().st_size <= used_bytes(log) + STEP_BYTES
    assert content(tmp_path) == values


def test_values_of_zeroes_are_not_taken_for_what_was_written_ahead(tmp_path):
    values = [bytes(MAX_BATCH_BYTES - 100)] * (3 * STEP_BYTES // MAX_BATCH_BYTES)
    log = write(tmp_path, *values)
    assert used_bytes(log) > sum(map(len, values))
    assert content(tmp_path) == values


def test_large_batches_have_the_log_grow(tmp_path):
    log = write(tmp_path, *[os.urandom(MAX_BATCH_BYTES + 1)] * 3)
    assert log.stat().st_size == used_bytes(log)


@pytest.mark.parametrize("sync", [SyncMode.INTERVAL, SyncMode.NEVER])
def test_what_is_not_synced_each_time_is_not_written_ahead(tmp_path, sync):
    log = write(tmp_path, SMALL, sync=sync)
    assert log.stat().st_size == used_bytes(log)


def test_batches_larger_than_they_were_said_to_be_are_seen_at_the_next_look(tmp_path):
    log = tmp_path / "000005.log"
    log.write_bytes(b"x")
    preallocation = Preallocation(tmp_path)
    preallocation.follow(5, 1)
    with log.open("r+b") as file:
        file.write(b"y" * (2 * STEP_BYTES))  # beyond the end
    preallocation.follow(5, MAX_BATCH_BYTES)
    for _ in range(STEP_BYTES // MAX_BATCH_BYTES):
        preallocation.follow(5, MAX_BATCH_BYTES)
    preallocation.close()
    assert log.read_bytes() == b"y" * (2 * STEP_BYTES) + bytes(STEP_BYTES)


def test_log_that_is_gone_or_not_made_yet_is_left_alone(tmp_path):
    preallocation = Preallocation(tmp_path)
    preallocation.follow(0, 10)
    preallocation.follow(7, 10)
    preallocation.close()
    preallocation.close()
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_left_for_the_batches_to_meet(tmp_path):
    attempts = []

    def write_nothing(descriptor: int, zeroes: bytes) -> int:
        attempts.append(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = tmp_path / "000005.log"
    log.write_bytes(b"batch")
    preallocation = Preallocation(tmp_path, write=write_nothing)
    for _ in range(3):
        preallocation.follow(5, 10)
    preallocation.close()
    assert len(attempts) == 1
    assert log.read_bytes() == b"batch"


def test_zeroes_are_written_only_behind_two_small_batches(tmp_path):
    log = tmp_path / "000005.log"
    log.touch()
    preallocation = Preallocation(tmp_path)
    for _ in range(10):
        preallocation.follow(5, MAX_BATCH_BYTES + 1)
        preallocation.follow(5, 100)
    assert log.stat().st_size == 0
    preallocation.follow(5, 100)
    assert log.stat().st_size == STEP_BYTES
    preallocation.close()


def test_log_that_cannot_be_opened_is_no_fault_of_a_batch(tmp_path):
    (tmp_path / "000005.log").mkdir()
    preallocation = Preallocation(tmp_path)
    preallocation.follow(5, 10)
    preallocation.close()


async def test_what_a_log_has_beside_keys_and_values_counts(tmp_path):
    batch = {b"%03d" % number: b"" for number in range(300)}
    log_sizes = set()
    store = await LevelDBStore.open(tmp_path / "store")
    for _ in range(200):
        await store.write(batch)
        (path,) = (tmp_path / "store" / "db").glob("*.log")
        log_sizes.add(path.stat().st_size)
    await store.close()
    assert len(log_sizes) == 2


@pytest.fixture
def two_logs(tmp_path):
    """Return a store whose batches are in two logs, and the logs, as LevelDB leaves them while it makes a table."""
    older = fill(tmp_path, value_bytes=100)
    whole = older.read_bytes()
    middle = batch_offsets(older)[BATCH_COUNT // 2]
    newest = older.with_name(f"{int(older.stem) + 1:06d}.log")
    older.write_bytes(whole[:middle])
    newest.write_bytes(whole[middle:])
    return tmp_path, older, newest


def batch_offsets(log: Path) -> list[int]:
    return list(survey(log.read_bytes(), verify_checksums=True).batch_offsets)


def test_older_log_may_end_with_zeroes_too(two_logs):
    path, older, newest = two_logs
    for log in (older, newest):
        log.write_bytes(log.read_bytes() + bytes(STEP_BYTES))
    assert check_logs(path / "db", path / "lost", verify_checksums=True).set_aside == []


def test_older_log_whose_last_batch_became_zeroes_is_refused(two_logs):
    path, older, _ = two_logs
    older.write_bytes(older.read_bytes()[: batch_offsets(older)[-1]] + bytes(STEP_BYTES))
    with pytest.raises(CorruptionError, match="is missing"):
        check_logs(path / "db", path / "lost", verify_checksums=True)


def test_acknowledged_batch_that_became_zeroes_is_missed(tmp_path):
    log = write(tmp_path, SMALL, SMALL)
    whole = log.read_bytes()
    first_bytes = batch_offsets(log)[1]
    log.write_bytes(whole[:first_bytes] + bytes(len(whole) - first_bytes))
    with pytest.raises(CorruptionError, match="change 2 was acknowledged"):
        open_and_close(tmp_path)


@pytest.mark.parametrize("kept_bytes", [2, 7, 20, 60, 118])
def test_batch_of_which_only_the_beginning_reached_the_disk_is_set_aside(tmp_path, kept_bytes):
    log = write(tmp_path, SMALL, SMALL)
    whole, first_bytes = log.read_bytes(), batch_offsets(log)[1]
    torn_log = whole[: first_bytes + kept_bytes] + bytes(len(whole) - first_bytes - kept_bytes)
    log.write_bytes(torn_log)
    (tmp_path / "miniqueue.acknowledged").unlink()  # the second was confirmed to no client
    pairs, (torn,) = open_and_close(tmp_path)
    assert [value for _, value in pairs] == [SMALL]
    assert (torn.offset, torn.copy.read_bytes()) == (first_bytes, torn_log)


@pytest.mark.parametrize("piece_count", [1, 2])
def test_batch_of_which_a_kill_left_whole_pieces_in_front_of_zeroes_is_dropped_without_a_copy(tmp_path, piece_count):
    log = write(tmp_path, SMALL, os.urandom(100_000))
    whole, begun = log.read_bytes(), piece_count * BLOCK_BYTES
    (offset,) = batch_offsets(log)[1:]
    log.write_bytes(whole[:begun] + bytes(STEP_BYTES))
    (tmp_path / "miniqueue.acknowledged").unlink()  # the second was confirmed to no client
    pairs, set_aside = open_and_close(tmp_path)
    assert [value for _, value in pairs] == [SMALL]
    assert set_aside == (SetAside(log, offset, begun - offset, copy=None),)
    assert not (tmp_path / "lost").exists()
    assert open_and_close(tmp_path)[1] == ()
