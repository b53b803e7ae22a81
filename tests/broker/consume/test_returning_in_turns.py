"""Very many messages return in turns and in their order when a stream ends, or leases do; interrupted in between."""

import asyncio
from collections.abc import Callable

import pytest

from miniqueue.broker.consume.dispatcher import MAX_RETURNED
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import InternalError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.support import World
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of

T = b"t"
COUNT = 4 * MAX_RETURNED + 20
PAYLOADS = [b"%d" % number for number in range(COUNT)]


def consumer(world: World, prefetch: int = COUNT):
    """Return a consumer, and the leases that it gets."""
    leases: list = []
    return world.broker.consumer(T, leases.extend, pytest.fail, prefetch), leases


def stream_ends(world: World) -> Callable[[], None]:
    holding, _ = consumer(world)
    holding.request()
    return holding.close


def receive_is_taken_back(world: World) -> Callable[[], None]:
    answers: list = []
    return world.broker.leases.receive(T, ReceiveOptions(COUNT), answers.append, pytest.fail).take_back


def receive_expires(world: World) -> Callable[[], None]:
    answers: list = []
    world.broker.leases.receive(T, ReceiveOptions(COUNT, lease_seconds=1), answers.append, pytest.fail)

    def expire() -> None:
        world.clock.advance(1)
        world.broker.tick()

    return expire


WAYS = pytest.mark.parametrize("way", [stream_ends, receive_is_taken_back, receive_expires])


async def begun(world: World, way: Callable[[World], Callable[[], None]]) -> None:
    """Hold as many messages as return in some turns, and return the first of them."""
    for part in (PAYLOADS[:30], PAYLOADS[30:]):
        await world.publish(T, *part)
    act = way(world)
    await world.publish(T, b"next")
    assert world.broker.stats()[T].leased == COUNT
    act()
    assert COUNT - 2 * MAX_RETURNED < world.broker.stats()[T].leased < COUNT


async def drained(world: World) -> list[bytes]:
    found: list[bytes] = []
    while world.broker.stats()[T].ready:
        found += await world.drain(T)
    return found


@WAYS
@pytest.mark.parametrize("restarts", [False, True])
async def test_many_that_return_are_at_the_front_in_their_order(restarts, way, world):
    await begun(world, way)
    await settle_down()
    assert world.broker.stats()[T].leased == 0
    if restarts:
        await world.commit()
        assert problems_of(world.store.pairs()) == []
        await world.restart()
    assert await drained(world) == [*PAYLOADS, b"next"]


@WAYS
async def test_a_waiting_consumer_gets_the_first_before_the_last_has_returned(way, world):
    await begun(world, way)
    assert (await world.holding(T)).payloads == [b"0"]


@WAYS
async def test_if_the_store_is_reopened_meanwhile_nothing_is_lost(way, world):
    await begun(world, way)
    world.broker._engine.journal.distrust(InternalError("a bug"))
    await settle_down()
    while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
        await asyncio.sleep(0.01)
    assert sorted(await drained(world)) == sorted([*PAYLOADS, b"next"])


@WAYS
async def test_if_the_broker_stops_meanwhile_nothing_is_lost(way, world):
    await begun(world, way)
    await world.restart()
    assert sorted(await drained(world)) == sorted([*PAYLOADS, b"next"])


@WAYS
async def test_if_the_topic_is_recreated_meanwhile_the_new_one_is_not_touched(way, world):
    await begun(world, way)
    deleting = asyncio.ensure_future(world.broker.delete_topic(T))
    await asyncio.sleep(0)
    await world.publish(T, b"new")
    await deleting
    await settle_down()
    assert await drained(world) == [b"new"]


@WAYS
async def test_if_the_group_is_moved_meanwhile_each_message_comes_once(way, world):
    await begun(world, way)
    await world.broker.groups.seek(T, b"default", Edge.EARLIEST)
    await settle_down()
    assert world.broker.stats()[T].leased == 0
    found = await drained(world)
    assert len(found) == len(set(found))


async def test_memory_is_charged_until_the_last_message_has_returned(world):
    account = world.broker.memory.connect("10.0.0.1")
    CURRENT_ACTOR.set(Actor(account=account))
    for _ in range(4):
        await world.publish(T, *[b"x" * 1000] * MAX_RETURNED)
    holding, _ = consumer(world)
    holding.request()
    charged_bytes = account.owner.amounts()[Purpose.LEASES]
    assert charged_bytes > 128 << 10
    owner = account.owner
    holding.close()
    account.close()
    assert world.broker.stats()[T].leased == 3 * MAX_RETURNED
    assert owner.amounts()[Purpose.LEASES] == charged_bytes
    await settle_down()
    owner.count_leases()
    assert owner.amounts() == {}
    assert owner.used_bytes == 0
