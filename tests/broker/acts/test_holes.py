"""Holes: how many a cursor may have, and who is charged for their memory until reading has passed them."""

import pytest

from miniqueue.broker.acts import holes
from miniqueue.broker.acts.holes import COUNT_SECONDS, HOLE_BYTES
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import LimitReachedError, MemoryLimitError
from tests.broker.support import world_with
from tests.fakes import settle_down

T = b"t"


def keyed(number, **options):
    return PublishOptions(unique_key=b"%d" % number, **options)


async def publish_pairs(world, count):
    """Publish messages with unique keys, each in a chunk of its own, after one without."""
    for number in range(count):
        await world.publish(T, b"plain")
        await (await world.broker.publish_unique(T, b"old", keyed(number))).commit.wait()


async def replace(world, number):
    """Make a hole: what replaces the message is not in the log."""
    accepted = await world.broker.publish_unique(T, b"new", keyed(number, is_replacing=True, delay_seconds=3600))
    await accepted.commit.wait()
    assert not accepted.is_duplicate


def charged(world):
    return world.broker.memory.amounts().get(Purpose.TOPICS, 0)


async def count_again(world):
    world.clock.advance(COUNT_SECONDS)
    world.broker.tick()
    await settle_down()


async def test_neither_a_publisher_nor_an_administrator_makes_more_holes_than_a_cursor_may_have(world, monkeypatch):
    monkeypatch.setattr(holes, "MAX_HOLES", 3)
    await publish_pairs(world, 5)
    for number in range(3):
        await replace(world, number)
    with pytest.raises(LimitReachedError, match="3 chunks of the topic are partly settled"):
        await replace(world, 3)
    with pytest.raises(LimitReachedError, match="3 chunks of the topic are partly settled"):
        await world.broker.by_id.act(T, (0, 9), Order(MessageAct.DELETE))
    assert (await world.broker.publish_unique(T, b"new", keyed(3))).is_duplicate
    assert await world.drain(T) == [b"plain"] * 4 + [b"old", b"plain", b"old"]
    await publish_pairs(world, 6)
    await replace(world, 5)


async def test_holes_are_charged_until_reading_has_passed_them(world):
    await publish_pairs(world, 4)
    before = charged(world)
    for number in range(3):
        await replace(world, number)
    assert charged(world) == before + 3 * HOLE_BYTES
    await world.restart()
    assert charged(world) == before + 3 * HOLE_BYTES
    await world.broker.by_id.act(T, (0, 7), Order(MessageAct.DELETE))
    assert charged(world) == before + 4 * HOLE_BYTES
    assert len(await world.drain(T)) == 4
    await count_again(world)
    assert charged(world) == before


async def test_the_bitmap_of_a_hole_is_counted_too(world):
    await world.publish(T, *[b"plain"] * 800)
    before = charged(world)
    await world.broker.by_id.act(T, (0, 799), Order(MessageAct.DELETE))
    await count_again(world)
    assert charged(world) == before + HOLE_BYTES + 100


async def test_a_deleted_topic_gives_back_the_memory_of_its_holes(world):
    await publish_pairs(world, 2)
    await replace(world, 0)
    await world.broker.delete_topic(T)
    await count_again(world)
    assert charged(world) == 0


@world_with(limits=BrokerLimits(has_users=True, max_memory_bytes=1 << 30))
async def test_the_owner_of_the_topic_is_charged_and_nobody_makes_holes_beyond_its_limit(world):
    await world.broker.admin.create(T, {"owner": "ada"}).wait()
    await publish_pairs(world, 5)
    for number in range(2):
        await replace(world, number)
    ada = world.broker.memory.of_user("ada")
    assert ada.used_bytes == 2 * HOLE_BYTES
    ada.set_limit(2 * HOLE_BYTES, "max_memory_bytes")
    ada.add(Purpose.INPUT, 1)
    with pytest.raises(MemoryLimitError, match="user ada"):
        await replace(world, 2)
    assert (await world.broker.publish_unique(T, b"new", keyed(2))).is_duplicate
    await world.drain(T)
    await publish_pairs(world, 3)
    await replace(world, 2)
