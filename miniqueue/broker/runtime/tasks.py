"""The background tasks of a broker, long work in slices, and the actor of the current task.

`Tasks` runs work until the broker stops, and reports a task that dies of a bug. `in_turns` splits long work into
slices, so that other tasks of the event loop run between them. `CURRENT_ACTOR` names the client or the part of the
broker that acts now: the code that carries out a request sets it, and traces record it. Every task has a context of its
own, so waiting for another task does not change the actor. The actor is encoded only when it is recorded.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any, SupportsBytes, TypeVar

import structlog

from miniqueue.errors import InternalError, MiniqueueError, described

log = structlog.get_logger()

#: Runs a coroutine in the background; returns its task.
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Tasks:
    """Runs coroutines in the background, until `stop`.

    Args:
      fail: called if a task dies of an exception: that is a bug, and the work of the task would remain undone.
    """

    def __init__(self, fail: Callable[[MiniqueueError], None]) -> None:
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run `work` in the background; return its task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def spawn_every(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` every `seconds` seconds, for the first time after `seconds`."""
        self.spawn(_every(seconds, act))

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a task of the broker has died", error=described(fault))
            self._fail(InternalError(described(fault)))


class SingleTask:
    """Runs at most one task at a time.

    Args:
      spawn: runs a coroutine in the background.
    """

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the work has not ended; work that never began because the epoch ended has also ended."""
        return self._task is not None and not self._task.done()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background; no other work may be running."""
        self._task = self._spawn(work)


async def _every(seconds: float, act: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        act()


T = TypeVar("T")


async def in_turns(items: Iterable[T], count: int) -> AsyncGenerator[T, None]:
    """Yield `items`; let other tasks of the event loop run after every `count` items."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % count == 0:
            await asyncio.sleep(0)


#: The actor of the current task; empty if the broker acts by itself.
CURRENT_ACTOR: ContextVar[SupportsBytes] = ContextVar("CURRENT_ACTOR", default=b"")
