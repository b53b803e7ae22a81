"""The mark of the last acknowledged commit: what it holds after a crash, what a start makes of it."""

import asyncio
import os

import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.acknowledged import Acknowledged, AcknowledgedFile, read_acknowledged
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.leveldb.view import viewed
from miniqueue.storage.port import SyncMode
from tests.storage.leveldb.directories import fingerprint, open_and_close, used_bytes

NAME = "miniqueue.acknowledged"


def commit(path, *numbers, sync=SyncMode.ALWAYS, is_synced_at_end=False):
    """Open a store and write a commit of each number; return what the mark says before the store is closed."""

    async def body():
        store = await LevelDBStore.open(path, sync=sync)
        for number in numbers:
            await store.write({b"k%d" % number: b"v" * 100})
        if is_synced_at_end:
            await store.sync()
        last = read_acknowledged(path).last
        await store.close()
        return last

    return asyncio.run(body())


def newest_log(path):
    return max((path / "db").glob("*.log"))


def test_mark_is_the_last_commit_and_its_log(tmp_path):
    last = commit(tmp_path, 1, 2, 3)
    assert last == Acknowledged(3, int(newest_log(tmp_path).stem))


def test_commits_that_are_not_synced_are_not_marked(tmp_path):
    assert commit(tmp_path, 1, 2, sync=SyncMode.NEVER) is None
    assert commit(tmp_path, 3, sync=SyncMode.INTERVAL) is None


def test_sync_marks_all_before_it(tmp_path):
    last = commit(tmp_path, 1, 2, sync=SyncMode.INTERVAL, is_synced_at_end=True)
    assert last is not None
    assert last.change == 2


def test_mark_outlives_starts_without_a_commit(tmp_path):
    commit(tmp_path, 1, 2)
    for _ in range(2):
        assert commit(tmp_path) == read_acknowledged(tmp_path).last
    assert read_acknowledged(tmp_path).last.change == 2


@pytest.mark.parametrize("sync", list(SyncMode))
def test_commit_that_left_its_log_for_a_table_before_it_was_synced_is_no_loss(tmp_path, sync):
    async def body():
        store = await LevelDBStore.open(tmp_path, sync=sync)
        for number in (1, 2):
            await store.write({b"k": b"v" * number})
        await store.reclaim(b"", b"\xff")
        await store.sync()
        await store.close()

    asyncio.run(body())
    assert used_bytes(newest_log(tmp_path)) < 100
    assert open_and_close(tmp_path)[0] == [(b"k", b"vv")]


@pytest.mark.parametrize("cut_bytes", [1, 22])
def test_commit_in_a_log_that_a_compaction_began_is_missed(tmp_path, cut_bytes):
    async def body():
        store = await LevelDBStore.open(tmp_path)
        await store.write({b"k": b"v"})
        await store.reclaim(b"", b"\xff")
        await store.write({b"k": b"w"})
        await store.close()

    asyncio.run(body())
    os.truncate(newest_log(tmp_path), used_bytes(newest_log(tmp_path)) - cut_bytes)
    with pytest.raises(CorruptionError, match="change 4 was acknowledged"):
        open_and_close(tmp_path)


def test_slots_are_written_by_turns_and_across_starts(tmp_path):
    commit(tmp_path, 1, 2)
    commit(tmp_path, 3)
    content = (tmp_path / NAME).read_bytes()
    assert sorted(int.from_bytes(slot[:8], "little") for slot in (content[:20], content[20:])) == [2, 3]


@pytest.mark.parametrize("cut_bytes", [1, 100, 150, 10_000])
def test_log_without_what_was_acknowledged_is_refused_and_untouched(tmp_path, cut_bytes):
    commit(tmp_path, *range(1, 8))
    log = newest_log(tmp_path)
    os.truncate(log, max(0, used_bytes(log) - cut_bytes))
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{log}: .* at offset \d+ with .*; change 7 was acknowledged"):
        open_and_close(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{log}: .*; change 7 was acknowledged"), viewed(tmp_path):
        pass
    assert fingerprint(tmp_path) == before


def test_tail_behind_what_was_acknowledged_may_be_missing(tmp_path):
    commit(tmp_path, *range(1, 8))
    mark = (tmp_path / NAME).read_bytes()
    log = newest_log(tmp_path)
    commit(tmp_path, 8)
    (tmp_path / NAME).write_bytes(mark)  # 8 was confirmed to no client
    newer = newest_log(tmp_path)
    assert newer != log
    os.truncate(newer, used_bytes(newer) - 1)
    _, (unfinished,) = open_and_close(tmp_path)
    assert (unfinished.file, unfinished.copy) == (newer, None)


def test_commit_of_a_log_that_is_not_needed_any_more_is_in_a_table(tmp_path):
    commit(tmp_path, 1, 2)
    open_and_close(tmp_path)
    assert newest_log(tmp_path).stat().st_size == 0
    assert len(open_and_close(tmp_path)[0]) == 2


@pytest.mark.parametrize("content", [b"", b"\1" * 40, b"\0" * 39, b"\1" * 41])
def test_damaged_mark_is_a_doubt_and_no_refusal(tmp_path, content):
    commit(tmp_path, 1, 2)
    (tmp_path / NAME).write_bytes(content)
    doubts = opened_with_doubts(tmp_path)
    assert len(doubts) == 1
    assert str(tmp_path / NAME) in doubts[0]
    assert opened_with_doubts(tmp_path) == ()


def test_one_slot_is_enough(tmp_path):
    commit(tmp_path, 1, 2)
    content = bytearray((tmp_path / NAME).read_bytes())
    content[3] ^= 1
    (tmp_path / NAME).write_bytes(content)
    assert read_acknowledged(tmp_path).last is not None


def test_missing_mark_is_a_doubt_but_not_in_a_new_store(tmp_path):
    assert opened_with_doubts(tmp_path) == ()
    commit(tmp_path, 1)
    (tmp_path / NAME).unlink()
    assert len(opened_with_doubts(tmp_path)) == 1
    assert opened_with_doubts(tmp_path) == ()


def opened_with_doubts(path):
    async def body():
        store = await LevelDBStore.open(path)
        await store.close()
        return store.doubts

    return asyncio.run(body())


def test_file_takes_no_more_space_once_it_is_there(tmp_path):
    file = AcknowledgedFile(tmp_path)
    sizes = set()
    for number in range(1, 6):
        file.advance(Acknowledged(number, 3))
        sizes.add((tmp_path / NAME).stat().st_size)
    file.close()
    file.close()
    assert sizes == {40}
    assert read_acknowledged(tmp_path).last == Acknowledged(5, 3)
