"""The wall clock is set, by whatever: delays follow it, and nothing else does."""

import pytest

from tests.broker.support import World

HOUR_SECONDS = 3600
YEAR_SECONDS = 365 * 24 * HOUR_SECONDS


class Queue(World):
    """A broker with a topic of some messages, and a consumer that has the first."""

    def __init__(self, *payloads):
        super().__init__()
        self.payloads = payloads

    async def __aenter__(self):
        await self.start()
        await self.publish(b"t", *self.payloads)
        self.one = await self.holding(b"t")
        return self

    async def __aexit__(self, *_):
        await self.broker.stop()

    async def what_comes(self):
        """Tick, and return all that there is now."""
        self.broker.tick()
        return await self.drain(b"t")


@pytest.mark.parametrize("step_seconds", [-HOUR_SECONDS, -YEAR_SECONDS, HOUR_SECONDS, YEAR_SECONDS])
async def test_a_delay_that_begins_after_a_step_is_not_changed_by_it(step_seconds):
    """Even when there was no tick in between, which would have set the horizon back."""
    async with Queue(b"a") as queue:
        queue.clock.advance(step_seconds)
        queue.one.consumer.dack(5)
        queue.clock.advance(4.999)
        early = await queue.what_comes()
        queue.clock.advance(0.001)
        assert (early, await queue.what_comes()) == ([], [b"a"])


@pytest.mark.parametrize("step_seconds", [-HOUR_SECONDS, -YEAR_SECONDS])
async def test_a_step_back_makes_a_delay_longer_by_as_much(step_seconds):
    async with Queue(b"a") as queue:
        queue.one.consumer.dack(5)
        queue.clock.advance(step_seconds)
        queue.clock.advance(5 - 0.001 - step_seconds)
        early = await queue.what_comes()
        queue.clock.advance(0.001)
        assert (early, await queue.what_comes()) == ([], [b"a"])


async def test_a_step_forward_makes_a_delay_shorter_by_as_much_and_no_more():
    async with Queue(b"a") as queue:
        queue.one.consumer.dack(HOUR_SECONDS + 5)
        queue.clock.advance(HOUR_SECONDS)
        early = await queue.what_comes()
        queue.clock.advance(5)
        assert (early, await queue.what_comes()) == ([], [b"a"])


@pytest.mark.parametrize("step_seconds", [-YEAR_SECONDS, YEAR_SECONDS])
async def test_the_order_of_the_log_is_that_of_publishing(step_seconds):
    async with Queue(b"a", b"b") as queue:
        queue.one.consumer.ack()
        queue.clock.advance(step_seconds)
        await queue.publish(b"t", b"c")
        queue.clock.advance(-step_seconds)
        await queue.publish(b"t", b"d")
        assert await queue.what_comes() == [b"b", b"c", b"d"]


async def test_what_is_due_and_waits_is_not_lost_by_a_step_back():
    async with Queue(b"a") as queue:
        queue.one.consumer.dack(5)
        queue.clock.advance(6)
        queue.broker.tick()
        queue.clock.advance(-HOUR_SECONDS)
        put_off = await queue.what_comes()
        queue.clock.advance(HOUR_SECONDS)
        assert (put_off, await queue.what_comes()) == ([], [b"a"])
