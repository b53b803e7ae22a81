"""Partitions were added, and messages that are held back are removed: the rest is delivered no earlier."""

import pytest

from miniqueue.core.options.publish import PublishOptions
from tests.broker.consume.test_members import Reader, create
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.support import World
from tests.broker.topics.test_growing import drained, grow, key_from, look, publish
from tests.fakes import settle_down

KEY = key_from(0, 1, 1, 2)


async def purge_older(world: World) -> None:
    await world.broker.purge(b"t", older_seconds=5)


async def expire(world: World) -> None:
    for _ in range(3):  # the first look finds when something is over
        world.broker.tick()
        await settle_down()


async def fill_up(world: World) -> None:
    await world.broker.admin.change(b"t", {"max_messages": 4, "limit_policy": "drop-oldest"}).wait()
    await publish(world, KEY, b"d")


async def drop_unread(world: World) -> None:
    await world.broker.admin.change(b"t", {"retention_seconds": 5, "retention_drops_unread": True}).wait()
    await expire(world)


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "members"])
@pytest.mark.parametrize("remove", [purge_older, expire, fill_up, drop_unread])
async def test_what_is_behind_something_that_is_removed_is_held_back_still(remove, is_ordered, world):
    await create(world, 1, ordered=is_ordered)
    await publish(world, KEY, b"a")
    holder = Reader(world, b"m1")
    await settle_down()
    await grow(world, 2)
    world.broker.publish_with(b"t", b"gone", PublishOptions(key=KEY, ttl_seconds=5))
    await world.commit()
    world.clock.advance(6)
    await publish(world, KEY, b"b", b"c")
    await remove(world)
    other = Reader(world, b"m1" if is_ordered else b"m2")
    await look(world)
    assert (holder.payloads, other.payloads) == ([b"a"], [])
    holder.consumer.ack()
    other.consumer.close()
    holder.consumer.close()
    await look(world)
    assert await drained(world) == ([b"b", b"c", b"d"] if remove is fill_up else [b"b", b"c"])


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "members"])
async def test_a_purge_that_finds_nothing_old_enough_lets_nothing_go(is_ordered, world):
    await create(world, 1, ordered=is_ordered)
    await publish(world, KEY, b"a")
    holder = Reader(world, b"m1")
    await settle_down()
    await grow(world, 2)
    await publish(world, KEY, b"b", b"c")
    assert await world.broker.purge(b"t", older_seconds=5) == 0
    other = Reader(world, b"m1" if is_ordered else b"m2")
    await look(world)
    assert (holder.payloads, other.payloads) == ([b"a"], [])


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "members"])
async def test_what_was_looked_at_while_there_was_no_order_is_held_back(is_ordered, world):
    await create(world, 1)
    await publish(world, KEY, b"a")
    await grow(world, 2)
    world.broker.publish_with(b"t", b"gone", PublishOptions(key=KEY, ttl_seconds=5))
    await world.commit()
    await publish(world, KEY, b"b")
    world.clock.advance(6)
    await expire(world)
    await world.broker.admin.change(b"t", {"ordered": is_ordered}).wait()
    one, two = [Reader(world, b"" if is_ordered else name) for name in (b"m1", b"m2")]
    await look(world)
    assert (one.payloads, two.payloads) == ([b"a"], [])
    one.settle()
    await look(world)
    assert [*one.payloads, *two.payloads] == [b"a", b"b"]


@pytest.mark.parametrize("settle", ["ack", "close"])
async def test_what_is_left_of_a_chunk_that_others_competed_for_waits_when_members_come(settle, world):
    await create(world, 1)
    await publish(world, KEY, b"a")
    await grow(world, 2)
    for payload in (b"b", b"c", b"d"):
        world.broker.publish_with(b"t", payload, PublishOptions(key=KEY))
    await world.commit()
    older, newer = await world.holding(b"t"), await world.holding(b"t")
    assert (older.payloads, newer.payloads) == ([b"a"], [b"b"])
    getattr(newer.consumer, settle)()
    newer.consumer.close()
    older.consumer.close()
    one, two = Reader(world, b"m1"), Reader(world, b"m2")
    await look(world)
    assert one.payloads == [b"a"]
    assert two.payloads == ([b"b"] if settle == "close" else [])
    two.settle()
    assert b"c" not in two.payloads
    one.settle()
    await look(world)
    two.settle()
    assert two.payloads == ([b"b"] if settle == "close" else []) + [b"c", b"d"]


async def test_what_is_left_of_a_chunk_and_waits_is_there_after_a_restart(world):
    await create(world, 1)
    await publish(world, KEY, b"a")
    await grow(world, 2)
    for payload in (b"b", b"c"):
        world.broker.publish_with(b"t", payload, PublishOptions(key=KEY))
    await world.commit()
    older, newer = await world.holding(b"t"), await world.holding(b"t")
    assert (older.payloads, newer.payloads) == ([b"a"], [b"b"])
    newer.consumer.close()
    older.consumer.close()
    await world.commit()  # so that nothing of the chunk is to be stored when it is given back
    one, two = Reader(world, b"m1"), Reader(world, b"m2")
    await look(world)
    assert (one.payloads, two.payloads) == ([b"a"], [b"b"])
    two.consumer.ack()
    await world.commit()
    assert_sound(world.store)
    await world.restart()
    assert await drained(world) == [b"a", b"c"]
