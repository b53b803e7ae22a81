"""A lock that is given to keys in rounds."""

import asyncio

from miniqueue.broker.runtime.fair_lock import FairLock
from tests.fakes import settle_down


class Waiters:
    """Tasks that take a lock, note it, and keep it until `go_on`."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self.had: list[str] = []
        self._may_go_on = asyncio.Semaphore(0)

    async def begin(self, *names: str) -> list[asyncio.Task[None]]:
        """Start a task for each name; the first letter of the name is its key."""
        tasks = [asyncio.create_task(self._take(name)) for name in names]
        await settle_down()
        return tasks

    async def _take(self, name: str) -> None:
        await self.lock.acquire(name[0])
        try:
            self.had.append(name)
            await self._may_go_on.acquire()
        finally:
            self.lock.release()

    async def go_on(self, count: int) -> None:
        for _ in range(count):
            self._may_go_on.release()
        await settle_down()


async def test_each_key_has_its_turn_and_each_waiter_of_a_key_in_order():
    waiters = Waiters()
    await waiters.begin("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    await waiters.go_on(7)
    assert waiters.had == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_whoever_is_cancelled_while_it_waits_is_passed_over():
    waiters = Waiters()
    _, second, third, _ = await waiters.begin("a1", "a2", "b1", "a3")
    second.cancel()
    third.cancel()
    await waiters.go_on(2)
    assert waiters.had == ["a1", "a3"]
    await waiters.begin("c1")
    assert waiters.had == ["a1", "a3", "c1"]


async def test_whoever_is_cancelled_when_it_gets_the_lock_passes_it_on():
    waiters = Waiters()
    first, second, _ = await waiters.begin("a1", "a2", "b1")
    first.cancel()
    await asyncio.sleep(0)  # the first has passed it on, and the second has not run since
    second.cancel()
    await settle_down()
    assert waiters.had == ["a1", "b1"]
