"""Long work has a share of the event loop: after each slice, others come first, unless they have nothing to do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing
from itertools import pairwise
from types import SimpleNamespace

from miniqueue.broker.runtime.accounts import Memory, MemoryAccount
from miniqueue.broker.runtime.share import (
    IDLE_SECONDS,
    MAX_COUNTED_SECONDS,
    MAX_SLICE_SECONDS,
    OTHERS_FACTOR,
    TimeShare,
)
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR


class Clock:
    """A clock that moves only when work is done."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Work:
    """Long work in slices, and the iterations in which they began."""

    def __init__(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        self.clock = Clock()
        self.share = TimeShare(self.clock, is_busy)
        self.slice_seconds = MAX_SLICE_SECONDS
        self.iteration = 0
        self.begun_in: list[int] = []

    async def do(self, slices: int) -> None:
        async with aclosing(self.share.in_turns(range(slices), 1)) as turns:
            async for _ in turns:
                self.begun_in.append(self.iteration)
                self.clock.seconds += self.slice_seconds

    async def beside(self, others_seconds: float, slices: int, workers: int = 1) -> list[int]:
        """Do it while others take so long in each iteration; return the iterations between two slices."""
        working = [asyncio.create_task(self.do(slices)) for _ in range(workers)]
        while not all(task.done() for task in working):
            await asyncio.sleep(0)
            self.iteration += 1
            self.clock.seconds += others_seconds
        return [after - before for before, after in pairwise(self.begun_in)]


async def test_long_work_goes_on_at_once_if_nothing_else_has_work():
    assert set(await Work().beside(IDLE_SECONDS / 2, slices=10)) == {1}


async def test_others_have_three_times_as_long_as_a_slice_took():
    gaps = await Work().beside(MAX_SLICE_SECONDS / 10, slices=10)
    assert set(gaps) <= {10 * OTHERS_FACTOR, 10 * OTHERS_FACTOR + 1}


async def test_others_that_are_busy_have_their_time_even_if_an_iteration_takes_almost_none():
    work = Work(is_busy=lambda: 10 <= work.iteration % 100 < 60)
    gaps = await work.beside(IDLE_SECONDS / 2, slices=200)
    assert set(gaps) == {1, 51}


async def test_others_that_are_always_busy_have_no_more_than_their_time():
    gaps = await Work(is_busy=lambda: True).beside(MAX_SLICE_SECONDS / 300, slices=3)
    assert set(gaps) <= {300 * OTHERS_FACTOR, 300 * OTHERS_FACTOR + 1}


async def test_a_slice_that_waits_does_not_owe_others_the_time_for_which_it_has_waited():
    work = Work()
    work.slice_seconds = 1000 * MAX_SLICE_SECONDS
    assert max(await work.beside(MAX_SLICE_SECONDS / 10, slices=10)) <= 10 * OTHERS_FACTOR + 1


async def test_no_two_slices_begin_in_one_iteration_whoever_works():
    work = Work()
    gaps = await work.beside(IDLE_SECONDS / 2, slices=5, workers=20)
    assert len(work.begun_in) == 100
    assert min(gaps) >= 1


async def test_a_slice_that_others_carry_out_counts_until_all_that_is_ready_has_been_carried_out():
    work = Work()

    async def begin() -> None:
        for _ in range(10):
            await work.share.turn()
            work.begun_in.append(work.iteration)

    beginning = asyncio.create_task(begin())
    while not beginning.done():
        await asyncio.sleep(0)
        work.iteration += 1
        work.clock.seconds += MAX_SLICE_SECONDS / 10
    gaps = {after - before for before, after in pairwise(work.begun_in)}
    assert gaps <= {OTHERS_FACTOR + 1, OTHERS_FACTOR + 2}


async def test_work_that_ends_early_leaves_the_gate_open():
    work = Work()
    working = asyncio.create_task(work.do(10))
    await asyncio.sleep(0)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert len(await work.beside(0.0, slices=3)) == 2


def test_others_are_not_owed_the_time_for_which_the_process_was_stopped():
    clock = Clock()
    share, begun_at = TimeShare(clock), clock.seconds
    clock.seconds += 60
    share.used(begun_at)
    iterations = 0
    while share.is_for_others() or not iterations:
        clock.seconds += 0.1  # other tasks run
        iterations += 1
    assert iterations <= 10 * OTHERS_FACTOR * MAX_COUNTED_SECONDS + 1


async def test_items_that_may_be_long_are_used_one_after_the_other_as_they_are_read():
    """A search used to hold 128 messages, of maybe 1 MiB each, before it looked at the first one."""
    work, read, slices = Work(), list[int](), list[int]()

    async def items() -> AsyncIterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    async def use() -> None:
        async with aclosing(work.share.in_turns_as_read(items(), 4)) as turns:
            async for number in turns:
                assert read[-1] == number
                slices.append(work.iteration)

    using = asyncio.create_task(use())
    while not using.done():
        await asyncio.sleep(0)
        work.iteration += 1
    await using
    assert [slices.count(iteration) for iteration in dict.fromkeys(slices)] == [4, 4, 2]


async def test_of_many_items_a_few_are_used_at_once_and_more_in_turns():
    share, seen = TimeShare(Clock()), []

    def act(number: int) -> int:
        seen.append(number)
        return -number

    task = asyncio.create_task(share.each(act, range(7), 3))
    counts = []
    while not task.done():
        await asyncio.sleep(0)
        counts.append(len(seen))
    assert await task == [0, -1, -2, -3, -4, -5, -6]
    assert sorted({*counts}) == [3, 6, 7]
    assert await share.each(act, (), 3) == []


async def test_work_is_finished_in_turns_and_whoever_leaves_ends_it():
    share, steps = TimeShare(Clock()), []

    def work():
        for step in range(3):
            steps.append(step)
            yield
        return "done"

    assert await share.finish(work()) == "done"
    assert steps == [0, 1, 2]
    task = asyncio.create_task(share.finish(work()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert steps == [0, 1, 2, 0]
    assert await share.finish(work()) == "done"


async def test_users_have_slices_in_rounds_however_often_one_of_them_asks():
    work, memory, had = Work(), Memory(has_users=True), list[str]()

    async def do(name: str, account: MemoryAccount | None) -> None:
        CURRENT_ACTOR.set(SimpleNamespace(account=account))
        async with aclosing(work.share.in_turns(range(3), 1)) as turns:
            async for _ in turns:
                had.append(name)

    asked: list[tuple[str, MemoryAccount | None]] = []
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"):
        connection = memory.connect(address)
        connection.become("ada")
        asked.append(("ada", connection))
    asked += [("bob", memory.of_user("bob")), ("broker", None)]
    await asyncio.gather(*(do(name, account) for name, account in asked))
    for name in ("bob", "broker"):
        last = len(had) - had[::-1].index(name)
        assert had[:last].count("ada") <= 6
    assert had.count("ada") == 15


async def test_work_that_others_wait_for_does_not_wait_for_what_its_user_has_asked_for():
    work, connection, had = Work(), Memory(has_users=True).connect("10.0.0.1"), list[str]()
    connection.become("ada")
    CURRENT_ACTOR.set(SimpleNamespace(account=connection))

    async def ask() -> None:
        async with aclosing(work.share.in_turns(range(3), 1)) as turns:
            async for _ in turns:
                had.append("ada's own")

    def parts() -> Generator[None, None, None]:
        for _ in range(3):
            had.append("for all")
            yield

    await asyncio.gather(*(ask() for _ in range(5)), work.share.finish(parts()))
    last = len(had) - had[::-1].index("for all")
    assert had[:last].count("ada's own") <= 4
