"""HTTP/2 connections that receive many frames at the same time take turns."""

import asyncio
from itertools import pairwise

from miniqueue.server.hypercorn.frame_turns import CONNECTIONS_IN_TURN, FRAMES_IN_TURN, FrameTurns


async def take(turns: FrameTurns, log: list[int], number: int, groups: int = 1) -> None:
    """Process groups of frames, as a connection does."""
    for _ in range(groups):
        if turns.is_over:
            await turns.wait()
        log.append(number)
        turns.used(FRAMES_IN_TURN)
        await asyncio.sleep(0)


async def test_few_frames_of_many_connections_wait_for_nothing():
    turns = FrameTurns()
    for _ in range(FRAMES_IN_TURN):
        assert not turns.is_over
        turns.used(1)
    assert turns.is_over
    await asyncio.sleep(0)
    assert not turns.is_over


async def test_the_others_continue_in_later_iterations_in_their_order():
    turns, log = FrameTurns(), list[int]()
    tasks = [asyncio.create_task(take(turns, log, number)) for number in range(8)]
    await asyncio.sleep(0)
    assert log == [0]
    counts = [1]
    while len(log) < len(tasks):
        await asyncio.sleep(0)
        counts.append(len(log))
    assert log == sorted(log)
    assert max(after - before for before, after in pairwise(counts)) <= CONNECTIONS_IN_TURN
    await asyncio.gather(*tasks)


async def test_a_connection_with_many_groups_does_not_overtake_the_others():
    turns, log = FrameTurns(), list[int]()
    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(take(turns, log, number, groups=5))
    assert [log.count(number) for number in range(3)] == [5, 5, 5]
    assert {0, 1, 2} == set(log[:4])


async def test_a_connection_that_ends_while_it_waits_does_not_hold_up_the_others():
    turns, log = FrameTurns(), list[int]()
    turns.used(FRAMES_IN_TURN)
    gone = [asyncio.create_task(take(turns, log, number)) for number in range(5)]
    last = asyncio.create_task(take(turns, log, 5))
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await last
    assert log[-1] == 5
    await asyncio.gather(*gone, return_exceptions=True)
    await asyncio.sleep(0)
    assert not turns.is_over
