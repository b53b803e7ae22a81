"""Topics that are given more partitions: what is older goes first, where the order of a key is promised."""

import pytest

from miniqueue.core.group import growth
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.storage.format import log_ends
from tests.broker.consume.test_members import Reader, create
from tests.broker.support import World, started_world
from tests.fakes import settle_down


async def publish(world: World, key: bytes, *payloads: bytes, **options: object) -> None:
    for payload in payloads:
        world.broker.publish_with(b"t", payload, PublishOptions(key=key, **options))
    await world.commit()


async def grow(world: World, partitions: int) -> None:
    await world.broker.admin.change(b"t", {"partitions": partitions}).wait()


async def look(world: World) -> None:
    """Deliver messages that are held back, as far as that is allowed."""
    await settle_down()
    await world.commit()
    await settle_down()


def key_from(before: int, partitions: int, after: int, more: int) -> bytes:
    """Return a key that is in partition `before` of so many, and in `after` of more."""
    keys = (b"key-%d" % number for number in range(10_000))
    return next(key for key in keys if (partition_for(key, partitions), partition_for(key, more)) == (before, after))


async def test_what_is_published_after_a_growth_waits_for_what_is_older(world):
    await create(world, 2, ordered=True)
    key = key_from(0, 2, 2, 4)
    await publish(world, key, b"a", b"b")
    await grow(world, 4)
    await publish(world, key, b"c")
    holder = await world.holding(b"t")
    other = world.consumer(b"t")
    other.consumer.request()
    await look(world)
    assert (holder.payloads, other.payloads) == ([b"a"], [])
    holder.consumer.ack()
    await look(world)
    assert other.payloads == [b"b"]
    holder.consumer.refill()
    await look(world)
    assert holder.payloads == [b"a"]
    other.consumer.ack()
    await look(world)
    assert holder.payloads == [b"a", b"c"]


@pytest.mark.parametrize("act", ["nack", "back", "dack", "close"])
async def test_what_comes_back_is_waited_for_where_keys_are_ordered(act, world):
    await create(world, 1, ordered=True)
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a")
    await grow(world, 2)
    await publish(world, key, b"b")
    holder = await world.holding(b"t")
    getattr(holder.consumer, act)(*([60] if act == "dack" else []))
    await look(world)
    other = world.consumer(b"t")
    other.consumer.request()
    await look(world)
    assert other.payloads == ([] if act == "dack" else [b"a"])
    await world.restart()
    world.clock.advance(61)
    world.broker.tick()
    assert await drained(world) == [b"a", b"b"]


async def drained(world: World) -> list[bytes]:
    """Take and acknowledge everything, one at a time, also what is held back at first."""
    consumer, count = world.consumer(b"t"), -1
    consumer.consumer.request()
    while count < len(consumer.leases):
        count = len(consumer.leases)
        await look(world)
        while not consumer.consumer.is_waiting:
            consumer.consumer.ack()
            consumer.consumer.refill()
    consumer.consumer.close()
    return consumer.payloads


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("counts", [(1, 2), (2, 3), (3, 5, 7), (1, 2, 4, 8), (4, 6)])
async def test_the_order_of_each_key_holds_through_any_growths(counts, is_restarted, world):
    await create(world, counts[0], ordered=True)
    keys = [b"key-%d" % number for number in range(8)]
    published = []
    for count in counts:
        await grow(world, count)
        for number in range(3):
            for key in keys:
                published.append(b"%b %d-%d" % (key, count, number))
                await publish(world, key, published[-1])
    if is_restarted:
        await world.restart()
    by_key: dict[bytes, list[bytes]] = {key: [] for key in keys}
    for payload in await drained(world):
        by_key[payload.split()[0]].append(payload)
    assert by_key == {key: [one for one in published if one.split()[0] == key] for key in keys}


async def test_members_read_what_is_older_first_and_others_need_not(world):
    await create(world, 1)
    key = key_from(0, 1, 1, 2)
    await world.broker.groups.create(b"t", b"free")
    await publish(world, key, b"a")
    await grow(world, 2)
    await publish(world, key, b"b")
    one, two = Reader(world, b"m1"), Reader(world, b"m2")
    await look(world)
    assert (one.payloads, two.payloads) == ([b"a"], [])
    one.settle()
    await look(world)
    assert two.payloads == [b"b"]
    first = world.broker.consumer(b"t", (taken := []).extend, taken.append, 10, b"free")
    first.request()
    await settle_down()
    assert sorted(payload for lease in taken for payload in lease.payloads) == [b"a", b"b"]
    first.close()


async def test_members_do_not_wait_for_what_is_delayed(world):
    await create(world, 1)
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a")
    await grow(world, 2)
    await publish(world, key, b"b")
    one, two = Reader(world, b"m1"), Reader(world, b"m2")
    await look(world)
    one.consumer.dack(3600)
    one.consumer.refill()
    await look(world)
    assert two.payloads == [b"b"]


async def test_what_is_held_back_goes_on_when_the_last_member_has_left(world):
    await create(world, 1)
    await publish(world, b"k", b"a")
    await grow(world, 2)
    await publish(world, key_from(0, 1, 1, 2), b"b")
    one = Reader(world, b"m1")
    one.consumer.close()
    await look(world)
    holders = [await world.holding(b"t"), await world.holding(b"t")]
    assert sorted(holders[0].payloads + holders[1].payloads) == [b"a", b"b"]


async def test_partitions_that_are_doubled_hold_nothing_back_of_those_that_were_there(world):
    await create(world, 2, ordered=True)
    stays, moves = key_from(1, 2, 1, 4), key_from(0, 2, 2, 4)
    await publish(world, moves, b"a")
    await grow(world, 4)
    await publish(world, moves, b"b")
    await publish(world, stays, b"c")
    holder = await world.holding(b"t")
    assert holder.payloads == [b"a"]
    assert (await world.broker.groups.figures_of(b"t", b"default")).held_back == [2]
    assert (await world.holding(b"t")).payloads == [b"c"]
    holder.consumer.ack()
    await look(world)
    assert (await world.broker.groups.figures_of(b"t", b"default")).held_back == []


async def test_a_lane_waits_for_lanes_of_its_own_priority_only(world):
    await create(world, 1, ordered=True)
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"low", priority=Priority.LOW)
    await grow(world, 2)
    await publish(world, key, b"high", priority=Priority.HIGH)
    await publish(world, key, b"low-2", priority=Priority.LOW)
    assert await drained(world) == [b"high", b"low", b"low-2"]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_group_that_begins_at_the_start_later_has_the_same_order(is_restarted, world):
    await create(world, 1, ordered=True, retention="forever")
    key = key_from(0, 1, 2, 3)
    await publish(world, key, b"a", b"b")
    await grow(world, 3)
    await publish(world, key, b"c")
    assert await drained(world) == [b"a", b"b", b"c"]
    if is_restarted:
        await world.restart()
    await world.broker.groups.create(b"t", b"late", Edge.EARLIEST)
    late = world.broker.consumer(b"t", (taken := []).extend, taken.append, 10, b"late")
    late.request()
    await look(world)
    assert [payload for lease in taken for payload in lease.payloads] == [b"a"]
    late.ack([taken[0].receipt])
    late.refill()
    await look(world)
    late.ack([taken[1].receipt])
    late.refill()
    await look(world)
    assert [payload for lease in taken for payload in lease.payloads] == [b"a", b"b", b"c"]
    late.close()


async def test_a_group_that_goes_back_has_the_same_order(world):
    await create(world, 1, ordered=True, retention="forever")
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a", b"b")
    await grow(world, 2)
    await publish(world, key, b"c")
    assert await drained(world) == [b"a", b"b", b"c"]
    await world.broker.groups.seek(b"t", b"default", Edge.EARLIEST)
    assert await drained(world) == [b"a", b"b", b"c"]


async def test_a_topic_that_is_full_gives_up_what_is_held_back_too(world):
    await create(world, 1, ordered=True, max_messages=3, limit_policy="drop-oldest")
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a")
    holder = await world.holding(b"t")
    await grow(world, 2)
    for number in range(5):
        await publish(world, key, b"%d" % number)
    assert world.broker.stats()[b"t"].ready == 2
    holder.consumer.ack()
    holder.consumer.close()
    assert await drained(world) == [b"3", b"4"]


def growths_stored(world: World) -> list[int]:
    start, stop = log_ends.growths(1)
    return [log_ends.partition_count(key) for key in sorted(world.store.pairs()) if start <= key < stop]


async def test_a_growth_is_stored_where_something_is_older_and_forgotten_with_the_next_when_nothing_is(world):
    await create(world, 1, ordered=True)
    await grow(world, 2)
    assert growths_stored(world) == []
    await publish(world, b"k", b"a")
    await grow(world, 3)
    await publish(world, b"k", b"b")
    await grow(world, 4)
    assert growths_stored(world) == [2, 3]
    assert await drained(world) == [b"a", b"b"]
    await world.commit()
    await publish(world, b"k", b"c")
    await grow(world, 5)
    assert growths_stored(world) == [4]
    await world.restart()
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert growths_stored(world) == []


async def test_of_too_many_growths_the_first_are_forgotten(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.engine.lanes.MAX_GROWTHS", 2)

    async with started_world() as world:
        await create(world, 1)
        await publish(world, b"k", b"a")
        for count in (2, 3, 4):
            await grow(world, count)
        assert growths_stored(world) == [2, 3]
    assert growth.MAX_GROWTHS == 64


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_growth_that_fails_is_as_the_store_has_it(is_applied, world):
    await create(world, 1, ordered=True)
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a")
    world.store.fail_writes.add(world.store.write_count + 1)
    world.store.applies_failed = is_applied
    with pytest.raises(Exception, match="may or may not"):
        await grow(world, 2)
    await settle_down()
    await grow(world, 2)
    await publish(world, key, b"b")
    assert growths_stored(world) == [1]
    assert await drained(world) == [b"a", b"b"]


async def test_what_is_appended_in_the_commit_of_a_growth_is_on_its_own_side(world):
    await create(world, 2, ordered=True)
    key, turned = key_from(0, 2, 1, 3), key_from(1, 2, 0, 3)
    for one, payload in ((key, b"k1"), (turned, b"t1")):
        world.broker.publish_with(b"t", payload, PublishOptions(key=one))
    commit = world.broker.admin.change(b"t", {"partitions": 3})
    for one, payload in ((key, b"k2"), (turned, b"t2")):
        world.broker.publish_with(b"t", payload, PublishOptions(key=one))
    await commit.wait()
    holders = [await world.holding(b"t"), await world.holding(b"t")]
    assert sorted(holder.payloads[0] for holder in holders) == [b"k1", b"t1"]
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    await look(world)
    assert waiting.payloads == []
    for holder in holders:
        holder.consumer.ack()
        holder.consumer.close()
    waiting.consumer.close()
    assert sorted(await drained(world)) == [b"k2", b"t2"]


async def test_what_is_published_in_the_commit_of_a_growth_is_waited_for_though_all_before_it_is_settled(world):
    await create(world, 1, ordered=True)
    key = key_from(0, 1, 1, 2)
    await publish(world, key, b"a")
    assert await drained(world) == [b"a"]
    await world.commit()
    world.broker.publish_with(b"t", b"b", PublishOptions(key=key))
    commit = world.broker.admin.change(b"t", {"partitions": 2})
    world.broker.publish_with(b"t", b"c", PublishOptions(key=key))
    await commit.wait()
    holder, other = await world.holding(b"t"), world.consumer(b"t")
    other.consumer.request()
    await look(world)
    assert (holder.payloads, other.payloads) == ([b"b"], [])
    holder.consumer.ack()
    await look(world)
    assert other.payloads == [b"c"]


async def test_a_partition_with_nothing_left_is_not_waited_for_after_a_restart(world):
    await create(world, 2, ordered=True, retention="forever")
    for number in range(2):
        await publish(world, key_from(number, 2, 2, 3), b"old-%d" % number)
    await grow(world, 3)
    assert len(await drained(world)) == 2
    await world.commit()
    await world.restart()
    await publish(world, key_from(0, 2, 2, 3), b"new")
    assert await drained(world) == [b"new"]


async def order(world: World, *, is_ordered: bool) -> None:
    await world.broker.admin.change(b"t", {"ordered": is_ordered, "fair": not is_ordered}).wait()
    await look(world)


@pytest.mark.parametrize("act", ["nack", "back", "dack", "close"])
async def test_what_came_back_waits_for_what_is_older_when_its_topic_is_ordered_from_now_on(act, world):
    await create(world, 2, fair=True)
    key = key_from(0, 2, 2, 4)
    await publish(world, key, b"a")
    await grow(world, 4)
    await publish(world, key, b"b")
    older, newer = await world.holding(b"t"), await world.holding(b"t")
    assert (older.payloads, newer.payloads) == ([b"a"], [b"b"])
    older.consumer.dack(60)
    getattr(newer.consumer, act)(*([1] if act == "dack" else []))
    await order(world, is_ordered=True)
    world.clock.advance(2)
    world.broker.tick()
    other = world.consumer(b"t")
    other.consumer.request()
    await look(world)
    assert other.payloads == []
    world.clock.advance(60)
    world.broker.tick()
    await look(world)
    assert other.payloads == [b"a"]
    other.consumer.ack()
    other.consumer.refill()
    await look(world)
    assert other.payloads == [b"a", b"b"]


@pytest.mark.parametrize("is_ordered", [False, True], ids=["until it is not", "for good"])
async def test_what_is_left_of_a_chunk_waits_when_its_topic_is_ordered_from_now_on(is_ordered, world):
    await create(world, 2, fair=True)
    keys = [b"key-%d" % n for n in range(100) if partition_for(b"key-%d" % n, 4) == 2][:2]
    for key in keys:
        await publish(world, key_from(0, 2, 2, 4), b"old " + key)
    await grow(world, 4)
    for key in keys:
        world.broker.publish_with(b"t", key, PublishOptions(key=key))
    await world.commit()
    holders = [await world.holding(b"t") for _ in range(3)]
    for holder in holders[:2]:
        holder.consumer.dack(60)
    await order(world, is_ordered=True)
    other = world.consumer(b"t")
    other.consumer.request()
    await look(world)
    assert other.payloads == []
    if not is_ordered:
        await order(world, is_ordered=False)
        assert other.payloads == [keys[1]]
