"""Tasks in the background, the epochs within which they run, and the actor of a task.

`Tasks` runs work until the broker stops, and reports a task that dies of a bug. `CURRENT_ACTOR` names the client or the
part of the broker that acts now: the code that carries out a request sets it, and traces record it. Every task has a
context of its own, so waiting for another task does not change the actor. The actor is encoded only when it is
recorded.

An epoch is the time during which memory agrees with the store; it ends when the store fails and memory is dropped.

    act ─▶ waits ─▶ continues ─▶ waits ─▶ …          each time it continues: is this the epoch in which it began?
                                  └ no: EpochEndedError, at the await where it waited, as if it were cancelled there

What an act has read before it waits (a topic, a partition, a cursor) means nothing in the next epoch: the object was
dropped, which is neither deleted nor settled. So every act that waits in the middle runs inside one of the three
methods below. They check the epoch after every wait: a read, a commit, a lock, a pause. So an act needs no check of
its own, and cannot forget one.

    repeat      for an act that changes nothing before it returns: it is run again, and fails if the store is not open
    once        for any other act: raises BrokenOffError
    background  for work that the next epoch starts by itself: the work ends, or does not begin

An act that changes something and then waits for the commit waits outside: the commit reports what became of the change.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Generic, SupportsBytes, TypeVar

import structlog

from miniqueue.errors import BrokenOffError, InternalError, MiniqueueError, described

log = structlog.get_logger()

T = TypeVar("T")

#: Runs a coroutine in the background; returns its task.
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_Act = Coroutine[Any, Any, T]


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


class SharedResult(Generic[T]):
    """Does the same work once for all who ask for its result at the same time.

        ask ─▶ nothing is running ─▶ the work begins                      ─▶ its result
          └──▶ it is running ──────▶ waits for its end; it begins again ──▶ the result of the second run, for all

    So each caller gets a result that was begun after its call, and at most two runs are ahead of it. The broker itself
    does the work, not the user who asked first: the others would wait for whatever else that user has asked for.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[T] | None = None
        self._next: asyncio.Future[T] | None = None

    async def get(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `work`, or raise its error; it goes on even if the caller is cancelled."""
        if self._running is None:
            self._running = self._begin(work())
            return await asyncio.shield(self._running)
        if self._next is None:
            self._next = self._begin(self._after(self._running, work))
        return await asyncio.shield(self._next)

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        task = asyncio.get_running_loop().create_task(work, context=Context())
        task.add_done_callback(self._ended)
        return task

    async def _after(self, running: "asyncio.Future[T]", work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await work()

    def _ended(self, task: "asyncio.Future[T]") -> None:
        if self._running is task and self._next is None:
            self._running = None
        if not task.cancelled():
            task.exception()  # no caller may be left to retrieve it


async def _every(seconds: float, act: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        act()


#: The actor of the current task; empty if the broker acts by itself.
CURRENT_ACTOR: ContextVar[SupportsBytes] = ContextVar("CURRENT_ACTOR", default=b"")


class EpochEndedError(Exception):
    """The store failed while an act waited; not an error of the broker, so that no act handles it as one."""


class Epoch:
    """The current epoch; `end` begins the next one."""

    def __init__(self) -> None:
        self._number = 0

    def end(self) -> None:
        """End the epoch: abort every act in progress, because memory is dropped and read again."""
        self._number += 1

    async def repeat(self, begin: Callable[[], _Act[T]]) -> T:
        """Return the result of an act that changes nothing before it returns; run it again if the epoch ends."""
        while True:
            ended = EpochEndedError()
            try:
                return await self._within(begin(), ended)
            except EpochEndedError as exc:
                if exc is not ended:
                    raise  # It belongs to an outer act, of which this act is a part.

    async def once(self, act: _Act[T]) -> T:
        """Return the result of an act; raises BrokenOffError if the epoch ends first."""
        ended = EpochEndedError()
        try:
            return await self._within(act, ended)
        except EpochEndedError as exc:
            if exc is not ended:
                raise
            raise BrokenOffError from exc

    def background(self, act: _Act[None]) -> _Act[None]:
        """Return a coroutine that runs an act until the act ends or the current epoch ends.

        If the epoch ends before the coroutine begins, the act never begins, and none of its `finally` blocks runs.
        """
        return self._in_background(act, self._number)

    async def _in_background(self, act: _Act[None], number: int) -> None:
        if self._number != number:
            act.close()
            return
        with suppress(EpochEndedError):
            await self._within(act, EpochEndedError())

    @types.coroutine
    def _within(self, act: _Act[T], ended: EpochEndedError) -> Generator[Any, None, T]:
        """Run an act; whenever it continues in another epoch, raise `ended` at the await, once per epoch."""
        number = self._number
        fault: BaseException | None = None
        try:
            while True:
                try:
                    awaited = act.send(None) if fault is None else act.throw(fault)
                except StopIteration as returned:
                    result: T = returned.value
                    return result
                fault = None
                try:
                    yield awaited
                except BaseException as exc:  # It is thrown into the act below.
                    fault = exc
                is_broken_off = isinstance(fault, asyncio.CancelledError | GeneratorExit | EpochEndedError)
                if self._number != number and not is_broken_off:
                    number, fault = self._number, ended
        finally:
            del fault  # Its traceback refers to this frame: a cycle, which would keep what a cancelled act has read.
