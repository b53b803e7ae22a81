"""Background work that is spawned in the turn of the loop in which the store fails."""

import asyncio

import pytest

from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors import StorageError
from tests.broker.support import World
from tests.fakes import FakeConsumer, settle_down

T = b"t"


async def hold_write(world: World) -> "asyncio.Future[None]":
    """Begin a write that ends when the future returned is done."""
    written, write = asyncio.get_running_loop().create_future(), world.store.write

    def hold(_batch, *, is_synced):
        world.store.write = write
        return written

    world.store.write = hold
    world.broker.publish(b"other", [b"x"])
    await settle_down()
    return written


async def fail_as(world: World, spawn) -> None:
    """Make the store fail; call `spawn` right before the broker notices."""
    written = await hold_write(world)
    written.set_exception(StorageError())
    spawn()
    await settle_down()
    assert world.broker.refusal is None


async def test_a_consumer_whose_group_was_to_be_made_as_the_store_failed_is_not_refused(world):
    await world.publish(T, b"1")
    consumer = FakeConsumer(world.broker, T, b"new")
    await fail_as(world, consumer.consumer.request)
    assert (consumer.payloads, consumer.errors) == ([b"1"], [])


async def test_a_consumer_for_which_was_to_be_read_as_the_store_failed_is_not_refused(world):
    await world.publish(T, b"1")
    await world.restart()  # so that nothing is in memory
    consumer = FakeConsumer(world.broker, T)
    await fail_as(world, consumer.consumer.request)
    assert (consumer.payloads, consumer.errors) == ([b"1"], [])


async def schedule(world: World) -> None:
    commit, _ = world.broker.scheduler.set(b"s", Schedule(T, b"x", every_ms=60_000))
    await commit.wait()
    world.clock.advance(60)


async def delay(world: World) -> None:
    await world.broker.publish_with(T, b"x", PublishOptions(delay_seconds=60)).commit.wait()
    world.clock.advance(60)


@pytest.mark.parametrize("prepare", [schedule, delay])
async def test_what_was_due_as_the_store_failed_is_published_by_the_next_tick(prepare, world):
    await prepare(world)
    await fail_as(world, world.broker.tick)
    world.broker.tick()
    await settle_down()
    assert await world.drain(T) == [b"x"]


async def test_what_had_expired_as_the_store_failed_is_dropped_by_later_ticks(world):
    await world.broker.admin.create(T, {"ttl_seconds": 5}).wait()
    await world.publish(T, b"x")
    world.broker.tick()
    world.clock.advance(10)
    await fail_as(world, world.broker.tick)
    for _ in range(3):
        world.broker.tick()
        await settle_down()
    assert (await world.broker.inspect.stats(T))["depth"] == 0


async def test_what_was_to_be_trimmed_as_the_store_failed_is_trimmed_by_the_next_tick(world):
    await world.broker.admin.create(T, {"retention_seconds": 5}).wait()
    await world.publish(T, b"x")
    await world.drain(T)
    await world.commit()
    world.clock.advance(10)
    await fail_as(world, world.broker.tick)
    world.broker.tick()
    await settle_down()
    assert (await world.broker.inspect.stats(T))["retained"] == 0


async def test_what_was_to_be_purged_as_the_store_failed_is_purged_by_the_next_tick(world):
    await world.publish(T, b"payload")
    world.store.fail_scans = {world.store.scan_count + 1}
    await world.broker.delete_topic(T)
    await settle_down()
    await fail_as(world, world.broker.tick)
    world.broker.tick()
    await settle_down()
    assert not any(b"payload" in value for value in world.store.pairs().values())
