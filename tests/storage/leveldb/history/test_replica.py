"""A copy that follows is continued from exactly where it is, or refused."""

import shutil

import pytest

from miniqueue.errors import CorruptionError, DisconnectedError, NotEmptyError, StorageError, StoreInUseError
from miniqueue.storage.leveldb.copy import write_store
from miniqueue.storage.leveldb.replica import FOLLOWS_NAME, Replica, begin_replica, begin_replicas, name_of, replicas_in
from miniqueue.storage.leveldb.shards import stores_in
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import Position
from tests.storage.contract import END, NO_LIMIT
from tests.storage.leveldb.history.test_history import MIB, batches_in, opened

NAME = "0123abcd"


async def begin(store, directory) -> None:
    snapshot = await store.snapshot(is_followed=True)
    pairs = await snapshot.scan(b"", END, **NO_LIMIT)
    await snapshot.close()
    begin_replica(directory, NAME, snapshot.position, pairs)


async def catch_up(store, directory) -> int:
    """Apply what the copy lacks, in several writes; return how many."""
    replica = await Replica.open(directory)
    count = 0
    while (writes := await store.writes_after(replica.position, 100)).content:
        await replica.apply(batches_in(writes), writes.position)
        count += 1
    await replica.close()
    return count


@pytest.fixture
async def store(tmp_path):
    async with opened(tmp_path / "original") as store:
        for number in range(30):
            await store.write({b"\x20%d" % number: bytes(10)})
        yield store


async def everything(store):
    return await store.scan(b"", END, **NO_LIMIT)


async def content_of(directory):
    """Return the content of a copy of the copy, which is not marked as used."""
    shutil.rmtree(directory.with_name("seen"), ignore_errors=True)
    shutil.copytree(directory, directory.with_name("seen"))
    async with opened(directory.with_name("seen")) as seen:
        return await everything(seen)


async def test_a_copy_is_continued_after_each_restart(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    assert await content_of(copy) == await everything(store)
    for step in range(3):
        await store.write({b"\x20%d" % step: None, b"\x21%d" % step: b"new"})
        await store.write({b"\x21%d" % step: b"newer"})
        assert await catch_up(store, copy) == 1
        assert await content_of(copy) == await everything(store)
    assert await catch_up(store, copy) == 0
    assert name_of(copy) == NAME
    assert oct(copy.stat().st_mode)[-3:] == "700"


async def test_a_copy_with_shards_is_continued_and_replaced_as_a_whole(store, tmp_path):
    snapshot = await store.snapshot(is_followed=True)
    pairs = await snapshot.scan(b"", END, **NO_LIMIT)
    await snapshot.close()
    copy, positions = tmp_path / "copy", [snapshot.position] * 2
    assert replicas_in(copy) == []
    for _ in range(2):
        assert begin_replicas(copy, NAME, positions, [(n, pair) for n in (0, 1) for pair in pairs]) == 2 * len(pairs)
        assert replicas_in(copy) == stores_in(copy) == [copy / "shard-0" / "store", copy / "shard-1" / "store"]
        await store.write({b"\x21": b"new"})
        for each in replicas_in(copy):
            assert await content_of(each) == pairs
            assert await catch_up(store, each) == 1
            assert await content_of(each) == await everything(store)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_a_copy_with_shards_of_which_one_is_in_use_or_was_used_is_refused(store, tmp_path):
    copy, position = tmp_path / "copy", Position(1, bytes(16))
    begin_replicas(copy, NAME, [position] * 2, [])
    replica = await Replica.open(copy / "shard-1" / "store")
    with pytest.raises(StoreInUseError):
        begin_replicas(copy, NAME, [position] * 2, [])
    await replica.close()
    async with opened(copy / "shard-1" / "store"):
        pass
    with pytest.raises(NotEmptyError, match="a copy that a broker has used follows no longer"):
        begin_replicas(copy, NAME, [position] * 2, [])


async def test_a_copy_killed_before_or_after_a_write_knows_which(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    await store.write({b"\x21": b"1"})
    replica = await Replica.open(copy)
    before = replica.position
    writes = await store.writes_after(before, MIB)
    database = copy / "db"
    shutil.copytree(database, tmp_path / "before")
    await replica.apply(batches_in(writes), writes.position)
    await replica.close()

    replica = await Replica.open(copy)
    assert replica.position == writes.position
    await replica.close()
    shutil.rmtree(database)
    shutil.move(tmp_path / "before", database)
    (copy / "miniqueue.acknowledged").unlink()
    replica = await Replica.open(copy)
    assert replica.position == before
    await replica.close()


async def test_a_copy_whose_store_fits_neither_line_is_of_unknown_position(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    follows = (copy / FOLLOWS_NAME).read_bytes()
    async with opened(copy) as used:
        await used.write({b"\x21": b"1", b"\x22": b"2"})
    (copy / FOLLOWS_NAME).write_bytes(follows)
    replica = await Replica.open(copy)
    assert replica.position is None
    await replica.close()


async def test_a_copy_that_a_broker_has_opened_is_not_continued(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    async with opened(copy):
        with pytest.raises(StoreInUseError):
            await Replica.open(copy)
        with pytest.raises(StoreInUseError):
            await begin(store, copy)
    before = await content_of(copy)
    with pytest.raises(NotEmptyError, match="follows no broker"):
        await Replica.open(copy)
    with pytest.raises(NotEmptyError, match="follows no longer"):
        await begin(store, copy)
    assert await content_of(copy) == before


async def test_a_broker_cannot_open_a_copy_while_it_is_written(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    replica = await Replica.open(copy)
    with pytest.raises(StoreInUseError):
        await LevelDBStore.open(copy)
    await replica.close()
    await catch_up(store, copy)


async def test_another_directory_is_left_alone(store, tmp_path):
    (tmp_path / "file").touch()
    write_store(tmp_path / "backup", [(b"\x21", b"1")])
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").touch()
    for name in ("file", "backup", "letters"):
        with pytest.raises(StorageError):
            await begin(store, tmp_path / name)
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["letter"]


async def test_a_copy_that_is_made_again_is_whole_all_the_time(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    before = await content_of(copy)

    def broken_off():
        yield b"\x21", b"1"
        raise DisconnectedError("the broker has gone")

    with pytest.raises(DisconnectedError):
        begin_replica(copy, NAME, Position(1, bytes(16)), broken_off())
    assert await content_of(copy) == before
    (tmp_path / ".copy.unfinished-follower").mkdir()  # a crash leaves it there
    await store.write({b"\x21": b"1"})
    await begin(store, copy)
    assert await content_of(copy) == await everything(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "original", "seen"]


async def test_writes_that_do_not_follow_are_refused_before_anything_is_written(store, tmp_path):
    copy = tmp_path / "copy"
    await begin(store, copy)
    await store.write({b"\x21": b"1"})
    await store.write({b"\x21": b"2"})
    replica = await Replica.open(copy)
    writes = await store.writes_after(replica.position, MIB)
    first, second = batches_in(writes)
    for batches, position in (
        ([second], writes.position),
        ([first], writes.position),
        ([first, second], writes.position._replace(digest=bytes(16))),
        ([], writes.position),
    ):
        with pytest.raises(CorruptionError):
            await replica.apply(batches, position)
    await replica.apply(batches_in(writes), writes.position)
    await replica.close()


async def test_a_damaged_position_is_an_error(store, tmp_path):
    await begin(store, tmp_path / "copy")
    (tmp_path / "copy" / FOLLOWS_NAME).write_bytes(b"miniqueue follows 2\n")
    with pytest.raises(CorruptionError):
        await Replica.open(tmp_path / "copy")
    async with opened(tmp_path / "copy"):
        pass  # it is a store nevertheless
