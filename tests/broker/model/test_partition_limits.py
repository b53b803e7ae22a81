"""The partitions of all topics are limited together, each counted once for each group, and charged to the process."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import LimitReachedError, ShareLimitError
from tests.broker.support import world_with
from tests.fakes import FakeConsumer, settle_down

LIMITED = world_with(limits=BrokerLimits(max_partitions=10))


def counted(world) -> int:
    return world.broker._engine.limits.partition_count()


def charged_bytes(world) -> int:
    return world.broker.memory.amounts().get(Purpose.TOPICS, 0)


@LIMITED
async def test_topics_share_the_limit(world):
    world.broker.admin.create(b"a", {"partitions": 8})
    with pytest.raises(LimitReachedError, match=r"8 and 3 more.*-max-partitions 10"):
        world.broker.admin.create(b"b", {"partitions": 3})
    assert world.broker.topics() == [b"a"]
    world.broker.admin.create(b"b", {"partitions": 2})
    with pytest.raises(LimitReachedError):
        world.broker.publish(b"c", [b"x"])
    assert counted(world) == 10
    assert world.broker.limit_counts.counts[Limit.PARTITIONS] == 2
    await world.broker.delete_topic(b"a")
    assert counted(world) == 2
    world.broker.publish(b"c", [b"x"])


@LIMITED
async def test_partitions_that_are_added_count(world):
    world.broker.admin.create(b"a", {"partitions": 4})
    with pytest.raises(LimitReachedError):
        world.broker.admin.change(b"a", {"partitions": 11})
    assert world.broker.admin.settings_of(b"a").partitions == 4
    world.broker.admin.change(b"a", {"partitions": 10})
    assert counted(world) == 10


@LIMITED
async def test_each_group_counts_the_partitions_of_its_topic(world):
    world.broker.admin.create(b"a", {"partitions": 4})
    await world.broker.groups.create(b"a", b"one")
    assert counted(world) == 8
    with pytest.raises(LimitReachedError):
        await world.broker.groups.create(b"a", b"two")
    await world.broker.groups.delete(b"a", b"one")
    await settle_down()
    assert counted(world) == 4
    await world.broker.groups.create(b"a", b"two")


async def test_the_count_is_the_same_at_rest_after_a_restart_and_after_a_fault(world):
    world.broker.admin.create(b"a", {"partitions": 4})
    await world.broker.groups.create(b"a", b"one")
    await world.publish(b"b", b"x")
    assert counted(world) == 9
    awake_bytes = charged_bytes(world)
    world.broker.tick()
    await settle_down()
    assert counted(world) == 9
    assert 0 < charged_bytes(world) < awake_bytes / 2
    await world.restart()
    at_rest_bytes = charged_bytes(world)
    assert counted(world) == 9
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish(b"b", [b"y"])
    await settle_down()
    await world.broker.inspect.stats(b"b")
    world.broker.tick()
    await settle_down()
    assert (counted(world), charged_bytes(world)) == (9, at_rest_bytes)


async def test_deleted_topics_are_charged_no_more(world):
    for name in (b"a", b"b"):
        world.broker.admin.create(name, {"partitions": 3})
    await world.broker.delete_topic(b"a")
    world.broker.tick()
    await settle_down()
    await world.broker.delete_topic(b"b")
    assert (counted(world), charged_bytes(world)) == (0, 0)


@world_with(limits=BrokerLimits(max_partitions=8, has_users=True))
async def test_one_user_may_have_three_quarters_of_the_partitions(world):
    limits = world.broker._engine.limits
    world.broker.admin.create(b"a", {"partitions": 4, "owner": "ada"})
    limits.admit_partitions(2, "ada")
    with pytest.raises(ShareLimitError, match=r"ada.*6.*three quarters of -max-partitions"):
        limits.admit_partitions(3, "ada")
    limits.admit_partitions(4, "bob")
    world.broker.admin.change(b"a", {"owner": "bob"})
    assert (limits.partition_count("ada"), limits.partition_count("bob")) == (0, 4)


@LIMITED
async def test_lanes_count(world):
    world.broker.admin.create(b"a", {"partitions": 9})
    high, low = PublishOptions(priority=Priority.HIGH), PublishOptions(priority=Priority.LOW)
    world.broker.publish_with(b"a", b"x", high)
    with pytest.raises(LimitReachedError, match=r"10 and 1 more"):
        world.broker.publish_with(b"a", b"x", low)
    await world.commit()
    world.broker.publish_with(b"a", b"x", PublishOptions())
    assert counted(world) == 10


@LIMITED
async def test_groups_in_which_consumers_wait_for_a_topic_count(world):
    for number in range(6):
        FakeConsumer(world.broker, b"a", b"group-%d" % number).consumer.request()
    with pytest.raises(LimitReachedError, match=r"0 and 12 more"):
        world.broker.admin.create(b"a", {"partitions": 2})
    for number in range(5):
        FakeConsumer(world.broker, b"b", b"group-%d" % number).consumer.request()
    world.broker.admin.create(b"b", {"partitions": 2})
    assert counted(world) == 10
    with pytest.raises(LimitReachedError, match=r"10 and 6 more"):
        world.broker.publish(b"a", [b"x"])


@LIMITED
async def test_groups_that_begin_at_the_same_time_count(world):
    world.broker.admin.create(b"a", {"partitions": 4})
    consumers = [FakeConsumer(world.broker, b"a", b"group-%d" % number) for number in range(4)]
    for each in consumers:
        each.consumer.request()
    await settle_down()
    assert counted(world) == 8
    assert [type(error) for each in consumers for error in each.errors] == [LimitReachedError] * 3


async def test_a_consumer_may_wait_for_a_topic_while_those_without_an_owner_exceed_their_share(world):
    world.broker.admin.create(b"a", {"partitions": 8})
    await world.commit()
    world.options["limits"] = BrokerLimits(max_partitions=9, has_users=True)
    await world.restart()
    consumer = FakeConsumer(world.broker, b"b", b"one")
    consumer.consumer.request()
    assert consumer.consumer.is_waiting
