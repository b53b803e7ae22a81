"""What every store must do. An adapter's test class inherits `StoreContract` and says how to open one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from miniqueue.errors import StoreClosedError
from miniqueue.storage.port import Store

END = b"\xff" * 8  # behind every key used here
NO_LIMIT = {"max_items": 10**9, "max_bytes": 10**9}


async def everything(store: Store) -> list[tuple[bytes, bytes]]:
    return await store.scan(b"", END, **NO_LIMIT)


class StoreContract:
    async def open_store(self, directory: Path) -> Store:
        raise NotImplementedError

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        """Yield a fresh store."""
        store = await self.open_store(tmp_path / "store")
        yield store
        await store.close()

    @pytest.fixture
    def run(self, tmp_path):
        """Run a test's coroutine function on a fresh store."""

        def run(body: Callable[[Store], Awaitable[None]]) -> None:
            async def with_store() -> None:
                store = await self.open_store(tmp_path / "store")
                try:
                    await body(store)
                finally:
                    await store.close()

            asyncio.run(with_store())

        return run

    async def test_missing_key_is_none(self, store):
        assert await store.get(b"missing") is None

    async def test_read_after_write_sees_the_write(self, store):
        for number in range(50):
            await store.write({b"key": b"%d" % number})
            assert await store.get(b"key") == b"%d" % number
            assert await everything(store) == [(b"key", b"%d" % number)]

    async def test_batch_puts_replaces_and_deletes(self, store):
        await store.write({b"a": b"1", b"b": b"2", b"c": b"3"})
        await store.write({b"a": None, b"b": b"new", b"d": b"4", b"never there": None})
        assert await everything(store) == [(b"b", b"new"), (b"c", b"3"), (b"d", b"4")]
        assert await store.get(b"a") is None

    async def test_deleted_key_can_come_back(self, store):
        for value in (b"1", None, b"2", None, b"3"):
            await store.write({b"k": value})
        assert await everything(store) == [(b"k", b"3")]

    async def test_last_of_each_range_that_begins_with_a_key_is_found(self, store):
        await store.write({b"b1": b"1", b"b2": b"2", b"b3": b"3", b"d1": b"", b"d2": b"gone"})
        await store.write({b"b3": None, b"d2": None})
        assert await store.last_of([]) == []
        ranges = [(b"a", b"c"), (b"b1", b"b2"), (b"b1", b"c"), (b"b2", b"b3"), (b"b3", b"c"), (b"d1", END)]
        expected = [None, (b"b1", b"1"), (b"b2", b"2"), (b"b2", b"2"), None, (b"d1", b"")]
        assert await store.last_of(ranges) == expected

    async def test_changes_are_counted(self, store):
        counts = [store.last_change]
        for batch in ({b"a": b"1", b"b": b"2"}, {b"a": b"1"}, {b"b": None, b"never there": None}, {}):
            await store.write(batch)
            counts.append(store.last_change)
        assert counts == [0, 2, 3, 5, 5]

    async def test_empty_batch_changes_nothing(self, store):
        await store.write({b"a": b"1"})
        await store.write({})
        assert await everything(store) == [(b"a", b"1")]

    async def test_empty_value_is_not_a_missing_one(self, store):
        await store.write({b"a": b""})
        assert await store.get(b"a") == b""
        assert await everything(store) == [(b"a", b"")]

    async def test_keys_and_values_are_any_bytes(self, store):
        keys = [b"\x00", b"\x00\x00", b"\x00\xff", b"a\nb", b"\x80", b"\xfe\x00"]

        await store.write({key: bytes(range(256)) + key for key in keys})
        assert await everything(store) == [(key, bytes(range(256)) + key) for key in sorted(keys)]

    def test_big_values_come_back_whole(self, run):
        big = bytes(range(256)) * 12_000  # 3 MB: many blocks of the log

        async def body(store):
            await store.write({b"big": big, b"small": b"x"})
            assert await store.get(b"big") == big
            assert await everything(store) == [(b"big", big), (b"small", b"x")]

        run(body)

    def test_scan_is_in_key_order_whatever_the_order_of_writing(self, run):
        numbers = [(7 * n) % 101 for n in range(101)]

        async def body(store):
            for number in numbers:
                await store.write({b"%03d" % number: b"v"})
            assert [key for key, _ in await everything(store)] == [b"%03d" % n for n in range(101)]

        run(body)

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (b"", END, b"abcd"),
            (b"b", b"d", b"bc"),
            (b"b", b"b\x00", b"b"),
            (b"b", b"b", b""),
            (b"c", b"b", b""),
            (b"aa", b"cc", b"bc"),
            (b"e", END, b""),
            (b"", b"", b""),
        ],
    )
    async def test_scan_takes_start_and_leaves_stop(self, start, stop, expected, store):
        await store.write({b"%c" % letter: b"v" for letter in b"abcd"})
        pairs = await store.scan(start, stop, **NO_LIMIT)
        assert b"".join(key for key, _ in pairs) == expected

    @pytest.mark.parametrize(
        ("max_items", "max_bytes", "expected_count"),
        [
            (1, 10**9, 1),
            (3, 10**9, 3),
            (99, 10**9, 10),
            (99, 1, 1),
            (99, 10, 1),
            (99, 11, 2),
            (2, 25, 2),
            (9, 25, 3),
        ],
    )
    async def test_scan_stops_at_the_pair_that_reaches_a_limit(self, max_items, max_bytes, expected_count, store):
        await store.write({b"%d" % n: b"ten bytes." for n in range(10)})
        pairs = await store.scan(b"", END, max_items=max_items, max_bytes=max_bytes)
        assert [key for key, _ in pairs] == [b"%d" % n for n in range(expected_count)]

    async def test_scan_yields_one_pair_however_big(self, store):
        await store.write({b"a": bytes(100_000), b"b": b""})
        assert len(await store.scan(b"", END, max_items=10, max_bytes=1)) == 1

    async def test_many_deletions_leave_the_rest(self, store):
        await store.write({b"%06d" % n: b"v" for n in range(20_000)})
        for first in range(0, 20_000, 1000):
            await store.write({b"%06d" % n: None for n in range(first, first + 1000) if n % 1000})
        expected = [b"%06d" % n for n in range(0, 20_000, 1000)]
        assert [key for key, _ in await everything(store)] == expected

    async def test_sync_and_reclaim_change_no_content(self, store):
        await store.write({b"%d" % n: b"v" for n in range(10)})
        await store.write({b"%d" % n: None for n in range(5)})
        await store.sync()
        await store.reclaim(b"", END)
        assert [key for key, _ in await everything(store)] == [b"%d" % n for n in range(5, 10)]

    async def test_cancelled_waiter_does_not_break_the_store(self, store):
        waiters = [asyncio.ensure_future(store.write({b"%d" % n: b"v"})) for n in range(3)]
        waiters += [asyncio.ensure_future(everything(store)), asyncio.ensure_future(store.get(b"0"))]
        await asyncio.sleep(0)  # each has made its call and waits
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        await store.write({b"after": b"v"})
        assert await everything(store) == [(b"0", b"v"), (b"1", b"v"), (b"2", b"v"), (b"after", b"v")]

    async def test_every_call_after_close_says_so(self, store):
        await store.close()
        for call in (
            lambda: store.get(b"a"),
            lambda: store.scan(b"", END, **NO_LIMIT),
            lambda: store.write({b"a": b"1"}),
            store.sync,
            lambda: store.reclaim(b"", END),
        ):
            with pytest.raises(StoreClosedError):
                await call()

    async def test_close_twice_is_allowed(self, store):
        await asyncio.gather(store.close(), store.close())
        await store.close()

    async def test_there_is_room_where_no_reserve_is_wanted(self, store):
        assert (await store.room(is_full=False)).is_enough

    async def test_a_snapshot_shows_what_was_written_before_it_and_nothing_later(self, store):
        await store.write({b"%d" % n: b"old" for n in range(5)})
        snapshot = await store.snapshot()
        await store.write({b"1": None, b"2": b"new", b"7": b"new"})
        expected = [(b"%d" % n, b"old") for n in range(5)]
        assert await snapshot.scan(b"", END, **NO_LIMIT) == expected
        assert await snapshot.scan(b"1", b"4", max_items=2, max_bytes=100) == expected[1:3]
        assert await snapshot.scan(b"", END, max_items=9, max_bytes=4) == expected[:2]
        await snapshot.close()
        await snapshot.close()

    async def test_a_snapshot_may_outlive_its_store_to_be_closed(self, store):
        snapshot = await store.snapshot()
        await store.close()
        await snapshot.close()
        with pytest.raises(StoreClosedError):
            await store.snapshot()
