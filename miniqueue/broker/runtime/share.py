"""Lets other work of the event loop go first, for some time after each slice of long work.

    slice ─▶ nothing else had work ───────────────────────────▶ the next slice, in the next iteration
      └────▶ iterations with other work, three times as long ─▶ the next slice

So long work has a quarter of the time, and whatever the others leave, however long one of its slices takes. Those who
ask for it have slices in rounds, one for each user; the broker, and the monitoring port, count as another user. An
iteration is as long as the slowest callback in it; a client that waits for a commit waits for several iterations. Those
in which its commit is gathered take almost no time, and are the others' nevertheless.

Not safe for use by several threads.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Final, TypeAlias, TypeVar

from miniqueue.broker.runtime.accounts import account_of
from miniqueue.broker.runtime.fair_lock import FairLock
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR

T = TypeVar("T")
ResultT = TypeVar("ResultT")

#: Work that yields when it has done enough for one event-loop iteration, and returns its result.
Work: TypeAlias = Generator[None, None, T]

#: After a slice, other work comes first for this many times as long as the slice took.
OTHERS_FACTOR: Final = 3
#: A slice counts as at most this long: in a longer one, the process was stopped, or its machine was.
MAX_COUNTED_SECONDS: Final = 1.0
#: A slice of `in_turns` counts as at most this long: it may wait for the store, and others work meanwhile.
MAX_SLICE_SECONDS: Final = 0.003
#: An iteration that takes less had nothing else to do.
IDLE_SECONDS: Final = 0.00003


def at_once(work: Work[T]) -> T:
    """Do all of some work in this event-loop iteration; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(slots=True, eq=False)  # it is one thing that several know
class Others:
    """What long work cannot see of others.

    Attributes:
      are_waiting: whether a client has sent a single command or request; set by the connection that receives it.
    """

    are_waiting: bool = False


class TimeShare:
    """Measures the slices of long work, and what others have had since.

    Args:
      clock: a clock that never goes back, in seconds.
      is_busy: whether others are busy, see `is_for_others`; for `in_turns` and what is based on it.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self.clock = clock
        self._is_busy = is_busy
        self._left_at = 0.0
        self._owed_seconds = 0.0
        self._gate = FairLock()

    def used(self, begun_at: float, max_seconds: float = MAX_COUNTED_SECONDS) -> None:
        """Record a slice that began at this time and ends now."""
        self._left_at = self.clock()
        self._owed_seconds = OTHERS_FACTOR * min(self._left_at - begun_at, max_seconds)

    def is_for_others(self, *, is_busy: bool = False) -> bool:
        """Whether others have work, and have not had their time since the last slice; called once per iteration.

        Others that are busy have work, even if the iteration has taken almost no time.
        """
        now = self.clock()
        others_seconds, self._left_at = now - self._left_at, now
        self._owed_seconds -= others_seconds
        return self._owed_seconds > 0 and (others_seconds > IDLE_SECONDS or is_busy)

    async def turn(self) -> None:
        """Return when a slice may begin that others carry out; it counts until what is ready has been carried out.

        That may include other work, so the slice may be shorter than it counts.
        """
        await self._gate.acquire(_asker())
        try:
            await self._let_others_go_first()
        except asyncio.CancelledError:
            self._gate.release()
            raise
        asyncio.get_running_loop().call_soon(self._end, self.clock())

    def _end(self, begun_at: float) -> None:
        self.used(begun_at, MAX_SLICE_SECONDS)
        self._gate.release()

    async def in_turns(self, items: Iterable[T], count: int, *, is_for_all: bool = False) -> AsyncGenerator[T, None]:
        """Yield `items`, `count` of them in a slice; at most one slice begins in an iteration, whoever asks.

        Work that is for all, because others may wait for its end, has the slices of the broker: it does not wait for
        whatever else its user has asked for.
        """
        remaining = iter(items)
        while some := list(islice(remaining, count)):
            await self._wait(None if is_for_all else _asker())
            begun_at = self.clock()
            for item in some:
                yield item
            self.used(begun_at, MAX_SLICE_SECONDS)

    def pauses(self, *, is_for_all: bool = False) -> AsyncGenerator[None, None]:
        """Yield at the beginning of each slice: what the caller does until it asks for the next is in that slice."""
        return self.in_turns(repeat(None), 1, is_for_all=is_for_all)

    async def finish(self, work: Work[T]) -> T:
        """Do all of some work, the first slice at once and each of the others in a turn; return its result.

        Between the slices, anything can happen: the work must not depend on what others change. It is for all.
        """
        async with aclosing(self.pauses(is_for_all=True)) as pauses:
            while True:
                try:
                    next(work)
                except StopIteration as end:
                    result: T = end.value
                    return result
                await anext(pauses)

    async def each(self, act: Callable[[T], ResultT], items: Sequence[T], count: int) -> list[ResultT]:
        """Return what `act` returns for each item: `count` of them at once, and as many in each turn; see `finish`."""
        results = [*map(act, items[:count])]
        async with aclosing(self.in_turns(range(count, len(items), count), 1)) as starts:
            async for start in starts:
                results += map(act, items[start : start + count])
        return results

    async def in_turns_as_read(self, items: AsyncIterator[T], count: int) -> AsyncGenerator[T, None]:
        """Yield items as `in_turns` does, each as soon as it has been read: they may be long."""
        while True:
            await self._wait(_asker())
            begun_at = self.clock()
            for _ in range(count):
                item = await anext(items, None)
                if item is None:
                    return
                yield item
            self.used(begun_at, MAX_SLICE_SECONDS)

    async def _wait(self, asker: object) -> None:
        """Return when the next slice may begin."""
        await self._gate.acquire(asker)
        try:
            await self._let_others_go_first()
        finally:
            self._gate.release()

    async def _let_others_go_first(self) -> None:
        await asyncio.sleep(0)
        while self.is_for_others(is_busy=self._is_busy()):  # noqa: ASYNC110 - each iteration is measured
            await asyncio.sleep(0)


def _asker() -> object:
    """Return who asks for a slice: the account of a user, or of an address; None: the broker itself."""
    account = account_of(CURRENT_ACTOR.get())
    return account if account is None or account.key else account.owner
