"""Topics that come to rest in the middle of an act, or while the store is read again, lose nothing."""

from miniqueue.core.options.publish import PublishOptions
from tests.broker.topics.resting import reopen, tick, topic_of
from tests.fakes import FakeConsumer, settle_down


async def test_a_receipt_from_before_a_fault_names_no_later_message(world):
    await world.publish(b"t", b"a")
    consumer = await world.holding(b"t")
    consumer.consumer.ack()
    await world.commit()
    await reopen(world)
    await world.publish(b"t", b"b")
    consumer.consumer.request()
    await settle_down()
    before, after = consumer.leases
    assert after.receipt > before.receipt


async def test_counts_since_the_start_outlive_a_fault(world):
    world.broker.admin.create(b"t", {"ttl_seconds": 1, "dedup_window_seconds": 1})
    options = PublishOptions(dedup_id=b"i")
    world.broker.publish_with(b"t", b"a", options)
    assert world.broker.publish_with(b"t", b"a", options).is_duplicate
    await world.commit()
    for _ in range(3):
        world.clock.advance(5)
        await tick(world)
        await world.commit()
    counts = world.broker.stats()[b"t"]
    assert (counts.expired, counts.duplicates, topic_of(world).at_rest is not None) == (1, 1, True)
    await reopen(world)
    assert (world.broker.stats()[b"t"], topic_of(world).at_rest is not None) == (counts, True)


async def test_a_list_of_groups_has_those_of_a_topic_that_comes_to_rest(world):
    for name in (b"a", b"b"):
        await world.broker.groups.create(b"t", name)
    listed, rests = [], 0
    async for figures in world.broker.groups.figures(b"t"):
        listed.append(figures.name)
        await tick(world)
        rests += topic_of(world).at_rest is not None
    assert (listed, rests > 0) == ([b"a", b"b"], True)


async def test_the_key_of_a_deleted_group_is_freed_while_the_topic_comes_to_rest(world):
    await world.broker.groups.create(b"t", b"one")
    await world.broker.groups.create(b"t", b"two")
    options = PublishOptions(unique_key=b"k")
    await world.broker.publish_unique(b"t", b"x", options)
    two = FakeConsumer(world.broker, b"t", b"two")
    await two.drain_all()
    two.consumer.close()
    for _ in range(3):  # nothing of the key is in memory any more
        await world.commit()
        await tick(world)
    world.store.may_scan.clear()
    await world.broker.groups.delete(b"t", b"one")  # which frees the key of the message that it had
    await settle_down()
    ticks_at_rest = tick_count = 0
    while not ticks_at_rest or tick_count < 10:  # each scan of the store waits, and the topic comes to rest meanwhile
        await tick(world)
        tick_count += 1
        ticks_at_rest += topic_of(world).at_rest is not None
        world.store.may_scan.set()
        world.store.may_scan.clear()
    world.store.may_scan.set()
    await settle_down()
    assert not (await world.broker.publish_unique(b"t", b"y", options)).is_duplicate
