"""Work that is done in parts: as many at once as one event-loop iteration may do, and the rest in turns.

    begin ─▶ a part, another, … ─▶ all done
                └ enough ─▶ a background task ─▶ some parts in each turn, while other work goes first in between

A part says what it has cost, in units of about 50 bytecode instructions: these are known when the code is written, and
the same on every machine (`tests/budget`). So little work is done before `begin` returns.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Final

from miniqueue.broker.runtime.tasks import Spawn

#: What the parts of one iteration may cost; the last one may cost more.
MAX_COST: Final = 2_000

#: Does a part of the work each time it is asked for the next cost.
Parts = Generator[int, None, None]

#: Yields at the beginning of each turn.
Turns = Callable[[], AsyncGenerator[None, None]]


def begin(
    parts: Parts, turns: Turns, spawn: Spawn, is_enough: Callable[[], bool] = lambda: False
) -> "asyncio.Task[None] | None":
    """Do the first parts; return the task that does the rest, or None if nothing is left.

    No part begins now if others have done so much that it `is_enough`. If the task ends early, because the store has
    failed or the broker stops, the rest is not done.
    """
    if not is_enough() and not _do_some(parts, is_enough):
        return None
    task = spawn(_in_turns(parts, turns, is_enough))
    task.add_done_callback(lambda _: parts.close())
    return task


async def _in_turns(parts: Parts, turns: Turns, is_enough: Callable[[], bool]) -> None:
    async with aclosing(turns()) as pauses:
        async for _ in pauses:
            if not _do_some(parts, is_enough):
                break


def _do_some(parts: Parts, is_enough: Callable[[], bool]) -> bool:
    """Do some parts, at least one; return whether there may be more."""
    room = MAX_COST
    for cost in parts:
        room -= cost
        if room <= 0 or is_enough():
            return True
    return False
