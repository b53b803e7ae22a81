"""The background work of a broker: tasks that live as long as it does."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from miniqueue.errors import InternalError, MiniqueueError, described

log = structlog.get_logger()


class Tasks:
    """Runs things in the background, until `stop`.

    Args:
      fail: called when a task has died of a fault: that is a bug, and what it did would stay undone.
    """

    def __init__(self, fail: Callable[[MiniqueueError], None]) -> None:
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run `work`; return its task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def spawn_every(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` again and again, for the first time after `seconds`."""
        self.spawn(_every(seconds, act))

    async def stop(self) -> None:
        """Cancel everything, and wait for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a task of the broker has died", error=described(fault))
            self._fail(InternalError(described(fault)))


async def _every(seconds: float, act: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        act()
