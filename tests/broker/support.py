"""A broker over a store that outlives it, for tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from miniqueue.broker import Broker
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on, settle_down


class World:
    """A store, a clock, and the broker that runs on them now."""

    def __init__(self, **options: object) -> None:
        self.options = options
        self.store = FaultyStore()
        self.clock = ManualClock()
        self.broker: Broker

    async def start(self) -> Broker:
        self.broker = broker_on(self.store, self.clock, **self.options)
        await self.broker.start()
        await settle_down()
        return self.broker

    async def restart(self) -> Broker:
        """Stop the broker and start another on the same store."""
        await self.broker.stop()
        return await self.start()

    async def publish(self, topic: bytes, *payloads: bytes) -> None:
        """Publish in one commit."""
        await self.broker.publish(topic, list(payloads)).commit.wait()

    async def publish_each(self, topic: bytes, *payloads: bytes) -> None:
        """Publish in one commit each."""
        for payload in payloads:
            await self.publish(topic, payload)

    async def commit(self) -> None:
        """Make durable what was settled."""
        await self.broker._engine.journal.committer.flush()

    def consumer(self, topic: bytes) -> FakeConsumer:
        return FakeConsumer(self.broker, topic)

    async def holding(self, topic: bytes) -> FakeConsumer:
        """Return a consumer that holds the next message."""
        consumer = self.consumer(topic)
        consumer.consumer.request()
        await settle_down()
        assert consumer.leases, "nothing to hold"
        return consumer

    async def drain(self, topic: bytes) -> list[bytes]:
        """Take and acknowledge everything; return the payloads in order."""
        consumer = self.consumer(topic)
        payloads = await consumer.drain_all()
        consumer.consumer.close()
        return payloads


#: Mark a test with the options of its fixture `world`, which are those of `World`.
world_with = pytest.mark.world_with


@asynccontextmanager
async def started_world(**options: object) -> AsyncIterator[World]:
    """Yield a fresh world; stop its broker at the end of the block, where a store that was held up goes on."""
    world = World(**options)
    await world.start()
    try:
        yield world
    finally:
        world.store.go_on()
        await world.broker.stop()


def run(
    body: Callable[[World], Awaitable[None]],
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: object,
) -> World:
    """Run `body` in a fresh world, on a loop of its own."""

    async def main() -> World:
        async with started_world(**options) as world:
            await body(world)
        return world

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())
