"""What a follower can still read of a store: exactly the writes after its position, or nothing."""

import asyncio
import shutil
from contextlib import asynccontextmanager
from zlib import crc32

import pytest

from miniqueue.errors import CorruptionError, PositionLostError
from miniqueue.storage.leveldb.files.batches import batches_of, changes_in, find_batches, read_part
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES
from miniqueue.storage.leveldb.history import History, digest_of
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import Position, Room, SyncMode
from tests.storage.contract import END, NO_LIMIT

MIB = 1 << 20


@asynccontextmanager
async def opened(directory, sync=SyncMode.ALWAYS):
    store = await LevelDBStore.open(directory, sync=sync)
    try:
        yield store
    finally:
        await store.close()


async def position_now(store) -> Position:
    snapshot = await store.snapshot(is_followed=True)
    await snapshot.close()
    assert snapshot.position is not None
    return snapshot.position


def batches_in(writes) -> list[bytes]:
    assert writes.checksum == crc32(writes.content)
    return batches_of(writes.content, writes.offset)


async def all_after(store, position, max_bytes=MIB):
    """Return the changes after a position, read in as many steps as necessary, and the position after them."""
    changes = []
    while (writes := await store.writes_after(position, max_bytes)).content:
        changes += [change for batch in batches_in(writes) for change in changes_in(batch)]
        position = writes.position
    assert writes.rest_bytes == 0
    return changes, position


def logs(directory, name="recent"):
    return sorted(path.name for path in (directory / name).glob("*.log"))


@pytest.mark.parametrize("sync", list(SyncMode))
async def test_the_writes_after_a_snapshot_lead_from_its_content_to_that_of_the_store(sync, tmp_path):
    async with opened(tmp_path / "s", sync) as store:
        for number in range(20):
            await store.write({b"k%d" % number: b"before"})
        snapshot = await store.snapshot(is_followed=True)
        for number in range(40):
            await store.write({b"k%d" % number: b"v" * number * 2000, b"k%d" % (number // 2): None})
            await store.sync()
        await store.reclaim(b"", END)
        copy = dict(await snapshot.scan(b"", END, **NO_LIMIT))
        changes, position = await all_after(store, snapshot.position, 10_000)
        for key, value in changes:
            if value is None:
                copy.pop(key, None)
            else:
                copy[key] = value
        await snapshot.close()
        assert copy == dict(await store.scan(b"", END, **NO_LIMIT))
        assert position.change == store.last_change


async def test_nothing_is_kept_before_a_follower_asks(tmp_path):
    async with opened(tmp_path / "s") as store:
        await store.write({b"a": b"1"})
        assert not (tmp_path / "s" / "recent").exists()
        with pytest.raises(PositionLostError):
            await store.writes_after(Position(0, b""), MIB)
        snapshot = await store.snapshot()
        assert snapshot.position is None
        await snapshot.close()


async def test_a_position_with_another_digest_is_of_another_history(tmp_path):
    async with opened(tmp_path / "s") as store:
        position = await position_now(store)
        await store.write({b"a": b"1"})
        with pytest.raises(PositionLostError):
            await store.writes_after(position._replace(digest=bytes(16)), MIB)
        assert len(batches_in(await store.writes_after(position, MIB))) == 1
        with pytest.raises(PositionLostError):
            await store.writes_after(position._replace(change=position.change + 5), MIB)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_restart_continues_the_history(is_killed, tmp_path):
    directory = tmp_path / "s"
    async with opened(directory) as store:
        position = await position_now(store)
        await store.write({b"a": b"1"})
        await store.write({b"b": bytes(3 * BLOCK_BYTES)})
        if is_killed:
            shutil.copytree(directory, directory := tmp_path / "killed")
    for number in range(3):
        async with opened(directory) as store:
            await store.write({b"c": b"%d" % number})
    async with opened(directory) as store:
        changes, _ = await all_after(store, position)
    assert changes == [(b"a", b"1"), (b"b", bytes(3 * BLOCK_BYTES)), *[(b"c", b"%d" % number) for number in range(3)]]


async def test_logs_that_leveldb_removes_are_kept(tmp_path):
    async with opened(tmp_path / "s") as store:
        position = await position_now(store)
        for number in range(5):
            await store.write({b"k%d" % number: bytes(100)})
            await store.reclaim(b"", END)  # begins a new log
        await store.write({b"end": b""})
        assert len(logs(tmp_path / "s")) > len(logs(tmp_path / "s", "db"))
        changes, _ = await all_after(store, position)
        assert [key for key, value in changes if value is not None] == [b"k%d" % number for number in range(5)] + [
            b"end"
        ]


async def test_a_store_that_lost_unsynced_writes_is_another_history_even_when_it_has_as_many(tmp_path):
    async with opened(tmp_path / "s", SyncMode.NEVER) as store:
        await store.write({b"a": b"1"})
        position = await position_now(store)
        shutil.copytree(tmp_path / "s", tmp_path / "lost")
        await store.write({b"a": b"2"})
        ahead = (await store.writes_after(position, MIB)).position
    async with opened(tmp_path / "lost", SyncMode.NEVER) as store:
        with pytest.raises(PositionLostError):
            await store.writes_after(ahead, MIB)
        await store.write({b"a": b"3"})
        await store.write({b"a": b"4"})
        with pytest.raises(PositionLostError):
            await store.writes_after(ahead, MIB)
        assert len(batches_in(await store.writes_after(position, MIB))) == 2


def make_logs(directory, sizes):
    for name in ("db", "recent"):
        (directory / name).mkdir(exist_ok=True)
    for number, size in enumerate(sizes, 1):
        (directory / "db" / f"{number:06d}.log").write_bytes(bytes(size))


def test_the_oldest_logs_go_when_they_are_too_many_but_never_the_newest(tmp_path):
    make_logs(tmp_path, [10, 10, 10])
    History(tmp_path, max_bytes=25).keep()
    assert logs(tmp_path) == ["000002.log", "000003.log"]
    History(tmp_path, max_bytes=5).keep()
    assert logs(tmp_path) == ["000003.log"]


def test_logs_are_dropped_when_no_follower_has_asked_for_an_hour(tmp_path):
    now = 0.0
    make_logs(tmp_path, [10])
    history = History(tmp_path, monotonic=lambda: now)
    history.keep()
    now = 3600.0
    history.follow(None)
    assert logs(tmp_path) == ["000001.log"]
    now = 3601.0
    history.follow(None)
    assert not (tmp_path / "recent").exists()
    make_logs(tmp_path, [10, 10])
    (tmp_path / "recent").rmdir()
    history.follow(None)
    assert not (tmp_path / "recent").exists()


async def test_logs_are_dropped_when_the_disk_is_nearly_full(tmp_path):
    async with opened(tmp_path / "s") as store:
        position = await position_now(store)
        await store.write({b"a": b"1"})
        await store.reclaim(b"", END)
        store._reserve.look = lambda *, is_full: Room(is_enough=False, free_bytes=0)
        await store.room(is_full=False)
        assert not (tmp_path / "s" / "recent").exists()
        with pytest.raises(PositionLostError):
            await store.writes_after(position, MIB)


def test_a_log_that_is_being_written_ends_before_its_unfinished_batch(tmp_path):
    async def write():
        async with opened(tmp_path / "s") as store:
            await store.write({b"a": b"1"})
            await store.write({b"b": bytes(BLOCK_BYTES)})

    asyncio.run(write())
    (log,) = (tmp_path / "s" / "db").glob("*.log")
    whole = log.read_bytes()
    ends = find_batches(whole, 0).ends
    assert len(ends) == 2
    sizes = [0, 6, 7, 20, *(end + step for end in (*ends, BLOCK_BYTES) for step in (-8, -1, 0, 1, 6, 7))]
    for size in sizes:
        (tmp_path / "cut").write_bytes(whole[:size])
        assert read_part(str(tmp_path / "cut"), 0, MIB).ends == [end for end in ends if end <= size], size


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(11), id="cut in its header"),
        pytest.param(bytes(8) + b"\1\0\0\0", id="without its change"),
        pytest.param(bytes(8) + b"\1\0\0\0\7", id="of an unknown kind"),
        pytest.param(bytes(8) + b"\1\0\0\0\1\3ab", id="cut in a key"),
        pytest.param(bytes(8) + b"\1\0\0\0\0\x80\x80\x80\x80\x80\1", id="with an endless length"),
    ],
)
def test_a_batch_that_is_none_is_refused(batch):
    with pytest.raises(CorruptionError):
        changes_in(batch)


def test_a_digest_shows_a_difference_anywhere_in_a_batch():
    batch = bytes(100_000)
    digests = {digest_of(batch[:index] + b"\1" + batch[index + 1 :]) for index in (0, 4_095, 50_000, 99_999)}
    assert len(digests | {digest_of(batch), digest_of(batch[1:])}) == 6
