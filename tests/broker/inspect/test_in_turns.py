"""What is inspected in turns survives what happens between them: the topic or the store goes, or the caller does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from miniqueue.broker.inspect import ages, log
from miniqueue.errors import UnavailableError
from miniqueue.errors.requests import OutcomeUnknownError, UnknownTopicError
from tests.broker.consume.test_partitions import KEYS, create, publish
from tests.broker.support import World
from tests.fakes import settle_down

Act = Callable[[World], Awaitable[object]]


async def stats(world: World) -> list[object]:
    figures = await world.broker.inspect.stats(b"t")
    return [figures["depth"], figures["oldest_seconds"], figures["retained"]]


async def partitions(world: World) -> list[object]:
    return [earliest_at_ms for bounds, earliest_at_ms in await world.broker.inspect.log.partitions(b"t")]


acts = pytest.mark.parametrize("act", [stats, partitions])


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch):
    monkeypatch.setattr(ages, "CURSORS_IN_TURN", 1)
    monkeypatch.setattr(log, "PARTITIONS_IN_TURN", 1)


async def begin(world: World, act: Act) -> asyncio.Task[object]:
    """Begin an act on a topic of many partitions, each with messages, and return it after some of its turns."""
    await create(world, 64, retention_seconds=3600)
    for key in KEYS * 3:
        await publish(world, key, key)
    world.clock.advance(60)
    task = asyncio.create_task(act(world))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_topic_that_is_made_again_is_inspected_instead(world):
    task = await begin(world, stats)
    removal = asyncio.create_task(world.broker.delete_topic(b"t"))
    await asyncio.sleep(0)  # the next turn finds the new topic
    creation = world.broker.admin.create(b"t", {"partitions": 64, "retention_seconds": 3600})
    world.broker.publish(b"t", [b"x"])
    await asyncio.gather(removal, creation.wait())
    assert await task == [1, 0.0, 1]


@acts
async def test_a_topic_that_is_deleted_is_unknown(world, act):
    task = await begin(world, act)
    await world.broker.delete_topic(b"t")
    with pytest.raises(UnknownTopicError):
        await task


@acts
async def test_nothing_is_shown_while_the_store_is_opened_again(world, act):
    task = await begin(world, act)
    world.store.fail_writes.add(world.store.write_count + 1)
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"x")
    with pytest.raises(UnavailableError):
        await task
    await settle_down()
    assert await act(world)


async def test_a_broker_that_stops_shows_nothing(world):
    task = await begin(world, stats)
    await world.broker.stop()
    with pytest.raises(UnavailableError):
        await task


@acts
async def test_a_caller_that_leaves_keeps_nobody_from_the_next_turn(world, act):
    task = await begin(world, act)
    task.cancel()
    await settle_down()
    assert task.cancelled()
    assert await act(world)
