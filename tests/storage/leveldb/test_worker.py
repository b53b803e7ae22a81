"""The thread that does blocking calls for the loop."""

import asyncio
import threading

import pytest

from miniqueue.errors import StoreClosedError
from miniqueue.storage.leveldb.store import Worker


async def test_calls_are_made_in_order_in_one_other_thread():
    worker = Worker("a name")
    calls: list[tuple[int, str]] = []

    def call(number: int) -> int:
        calls.append((number, threading.current_thread().name))
        return number * 2

    assert await asyncio.gather(*(worker.submit(call, n) for n in range(20))) == [2 * n for n in range(20)]
    assert calls == [(n, "a name") for n in range(20)]
    await worker.stop()


async def test_exception_reaches_the_caller_and_the_thread_lives_on():
    worker = Worker("w")
    with pytest.raises(ZeroDivisionError):
        await worker.submit(lambda: 1 // 0)
    assert await worker.submit(lambda: 7) == 7
    await worker.stop()


async def test_exception_of_the_last_call_is_raised_and_the_worker_is_stopped(tmp_path):
    worker = Worker("w")
    with pytest.raises(FileNotFoundError):
        await worker.stop((tmp_path / "missing").unlink)
    with pytest.raises(StoreClosedError):
        worker.submit(lambda: 7)


def test_outcome_for_a_loop_that_is_gone_is_dropped():
    worker = Worker("w")
    loop_is_closed = threading.Event()

    async def leave():
        worker.submit(loop_is_closed.wait, 10)

    async def come_back():
        assert await worker.submit(lambda: 7) == 7
        await worker.stop()

    asyncio.run(leave())
    loop_is_closed.set()
    asyncio.run(come_back())
