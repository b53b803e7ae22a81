"""The LevelDB store: the contract, what survives reopening, what happens after a fault and while closing."""

import asyncio
import tempfile
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.errors import CorruptionError, StorageError, StoreClosedError
from miniqueue.storage.leveldb.directory_sync import DirectorySync
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.opening import Opened
from miniqueue.storage.leveldb.store import LevelDBStore, Worker
from miniqueue.storage.port import SyncMode
from tests.storage.contract import END, NO_LIMIT, StoreContract, everything
from tests.storage.leveldb.fake_database import FakeDatabase


class TestLevelDBStore(StoreContract):
    @pytest.fixture(autouse=True, params=list(SyncMode))
    def sync_mode(self, request):
        self.sync_mode = request.param

    async def open_store(self, directory):
        return await LevelDBStore.open(directory, sync=self.sync_mode)


KEYS = st.binary(max_size=3)
BATCHES = st.dictionaries(KEYS, st.none() | st.binary(max_size=50), max_size=5)
STEPS = st.lists(BATCHES | st.just("reopen") | st.just("reclaim") | st.tuples(KEYS, KEYS), max_size=15)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_random_operations_and_reopening_agree_with_a_dict(steps):
    async def body(path: Path) -> None:
        store, model = await LevelDBStore.open(path, sync=SyncMode.NEVER), {}
        for step in steps:
            match step:
                case "reopen":
                    await store.close()
                    change = store.last_change  # LevelDB's own count must go on where ours did
                    store = await LevelDBStore.open(path, sync=SyncMode.NEVER)
                    assert store.last_change == change
                case "reclaim":
                    await store.reclaim(b"", END)
                case (start, stop):
                    expected = [pair for pair in sorted(model.items()) if start <= pair[0] < stop]
                    assert await store.scan(start, stop, **NO_LIMIT) == expected
                    is_there = start in model and start < stop
                    assert await store.last_of([(start, stop)]) == [expected[-1] if is_there else None]
                case batch:
                    await store.write(batch)
                    model = {k: v for k, v in (model | batch).items() if v is not None}
        assert await everything(store) == sorted(model.items())
        await store.close()

    with tempfile.TemporaryDirectory() as path:
        asyncio.run(body(Path(path) / "store"))


@pytest.fixture
def on_fake_database(tmp_path):
    """Run `body(store, database)` on a store whose database is a fake."""

    @asynccontextmanager
    async def on_fake_database(sync=SyncMode.ALWAYS):
        database = FakeDatabase()
        opened = Opened(tmp_path, database, DirectorySync(tmp_path), StoreLock(tmp_path))
        store = LevelDBStore(opened, sync=sync, writer=Worker("writer"))
        try:
            yield store, database
        finally:
            await store.close()
        assert database.is_closed

    return on_fake_database


async def test_ranges_that_do_not_begin_with_a_key_are_not_looked_through(on_fake_database):
    """What was deleted in any of them would be passed over for each of them."""
    async with on_fake_database() as (store, database):
        database.get = lambda key, *, verify_checksums: b"value" if key == b"b" else None
        assert await store.last_of([(b"a", b"b"), (b"b", b"c"), (b"c", b"d")]) == [None, (b"b", b"value"), None]
        assert len(database.cursors) == 1


@pytest.mark.parametrize("failure", [OSError(28, "No space left"), MemoryError(), ValueError(b"IO error: x")])
async def test_after_a_failed_write_nothing_more_is_accepted(failure, on_fake_database):
    async with on_fake_database() as (store, database):
        await store.write({b"before": b"v"})
        database.failure = failure
        with pytest.raises(StorageError) as first:
            await store.write({b"failed": b"v"})
        database.failure = None  # the disk has room again
        for call in (lambda: store.write({b"after": b"v"}), store.sync):
            with pytest.raises(StorageError, match="an earlier write failed") as later:
                await call()
            assert later.value.__cause__ is first.value
        assert database.writes == [[b"before"]]
        assert await store.get(b"k") == b"value"
        assert await store.scan(b"a", b"b", **NO_LIMIT) == [(b"a", b"value")]


async def test_a_write_queued_behind_the_failing_one_is_refused(on_fake_database):
    async with on_fake_database() as (store, database):
        database.may_write.clear()
        writes = [asyncio.ensure_future(store.write({b"%d" % n: b"v"})) for n in range(3)]
        await asyncio.sleep(0)
        database.failure = OSError(5, "Input/output error")
        database.may_write.set()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StorageError] * 3
        assert database.writes == []


async def test_a_failed_sync_refuses_later_writes_too(on_fake_database):
    async with on_fake_database(sync=SyncMode.INTERVAL) as (store, database):
        database.failure = OSError(5, "Input/output error")
        with pytest.raises(StorageError):
            await store.sync()
        database.failure = None
        with pytest.raises(StorageError):
            await store.write({b"k": b"v"})


@pytest.mark.parametrize("sync", SyncMode)
async def test_every_batch_is_synced_before_the_next_or_none_is(sync, on_fake_database):
    async with on_fake_database(sync=sync) as (store, database):
        await store.reclaim(b"", END)
        await store.write({b"k": b"v"})
        assert len(database.writes) == 2
        assert database.unsynced_count == (0 if sync is SyncMode.ALWAYS else 2)


async def test_a_failed_read_or_reclaim_does_not_stop_writes(on_fake_database):
    async with on_fake_database() as (store, database):
        database.failure = OSError(5, "Input/output error")
        for call in (store.get(b"k"), store.scan(b"", END, **NO_LIMIT), store.reclaim(b"", END)):
            with pytest.raises(StorageError, match="Input/output error"):
                await call
        database.failure = None
        await store.write({b"k": b"v"})


async def test_a_store_that_failed_can_be_closed_and_opened_anew(tmp_path):
    store = await LevelDBStore.open(tmp_path)
    await store.write({b"kept": b"v"})
    with pytest.raises(StorageError):
        await store.write({b"not bytes": 7})
    with pytest.raises(StorageError):
        await store.write({b"refused": b"v"})
    await store.close()
    store = await LevelDBStore.open(tmp_path)
    await store.write({b"new": b"v"})
    assert await everything(store) == [(b"kept", b"v"), (b"new", b"v")]
    await store.close()


async def test_a_batch_that_cannot_be_built_is_not_written_in_part(tmp_path):
    store = await LevelDBStore.open(tmp_path)
    with pytest.raises(StorageError):
        await store.write({b"good": b"v", b"bad": 7})
    assert await everything(store) == []
    await store.close()


async def test_a_directory_is_given_back_also_when_a_file_of_it_cannot_be_closed(tmp_path):
    class Acknowledged:
        def close(self):
            raise OSError(5, "Input/output error")

    def opened():
        return Opened(tmp_path, FakeDatabase(), DirectorySync(tmp_path), StoreLock(tmp_path), (), Acknowledged())

    store = LevelDBStore(opened(), sync=SyncMode.ALWAYS, writer=Worker("writer"))
    with pytest.raises(StorageError, match="Input/output error"):
        await store.close()
    await store.close()
    StoreLock(tmp_path).release()


async def test_close_lets_the_call_under_way_finish_and_refuses_those_behind(on_fake_database):
    async with on_fake_database() as (store, database):
        database.may_write.clear()
        under_way = asyncio.ensure_future(store.write({b"1": b"v"}))
        behind = asyncio.ensure_future(store.write({b"2": b"v"}))
        await asyncio.to_thread(database.is_writing.wait, 10)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreClosedError):
            await store.write({b"3": b"v"})
        database.may_write.set()
        await closing
        await under_way
        with pytest.raises(StoreClosedError):
            await behind
        assert database.writes == [[b"1"]]


async def test_close_goes_on_when_its_caller_is_cancelled(on_fake_database):
    async with on_fake_database() as (store, database):
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        await store.close()
        assert database.is_closed


async def test_no_thread_is_left_behind(tmp_path):
    before = set(threading.enumerate())

    store = await LevelDBStore.open(tmp_path)
    await asyncio.gather(store.write({b"k": b"v"}), store.get(b"k"), store.reclaim(b"", END))
    assert len(set(threading.enumerate()) - before) == 3
    await store.close()
    assert set(threading.enumerate()) <= before  # those of other tests may end
    with pytest.raises(StorageError):
        await LevelDBStore.open(tmp_path / "miniqueue.lock")
    assert set(threading.enumerate()) <= before  # those of other tests may end


def test_a_loop_that_ends_without_closing_leaves_the_store_closable(tmp_path):
    async def begin():
        store = await LevelDBStore.open(tmp_path)
        waiter = asyncio.ensure_future(store.write({b"k": b"v"}))
        await asyncio.sleep(0)
        waiter.cancel()
        return store

    async def finish(store):
        await store.sync()  # behind the write, in the same thread
        assert await everything(store) == [(b"k", b"v")]
        await store.close()

    store = asyncio.run(begin())
    asyncio.run(finish(store))


async def test_cancelled_opening_gives_the_directory_back(tmp_path):
    opening = asyncio.ensure_future(LevelDBStore.open(tmp_path))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await (await LevelDBStore.open(tmp_path)).close()


async def test_damaged_table_is_reported_by_get_and_scan_not_returned(tmp_path):
    store = await LevelDBStore.open(tmp_path)
    await store.write({b"%04d" % n: b"value %d" % n for n in range(1000)})
    await store.reclaim(b"", END)  # moves the log's content into a table
    await store.close()
    (table,) = (tmp_path / "db").glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    store = await LevelDBStore.open(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{table}: damaged at offset \d+"):
        await everything(store)
    with pytest.raises(CorruptionError, match=rf"{table}: damaged at offset \d+"):
        await asyncio.gather(*(store.get(b"%04d" % n) for n in range(1000)))
    await store.close()


async def test_cold_data_is_readable_while_reclaiming(tmp_path):
    store = await LevelDBStore.open(tmp_path)
    await store.write({b"%04d" % n: b"v" for n in range(1000)})
    _, pairs = await asyncio.gather(store.reclaim(b"", END), everything(store))
    assert len(pairs) == 1000
    await store.close()
