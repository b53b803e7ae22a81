"""The settings of new topics: they apply to the first message, are stored, and stay when the defaults change."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.quotas import Quotas
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import (
    InvalidAttributesError,
    LimitReachedError,
    PayloadTooLargeError,
    RateLimitError,
    TopicFullError,
)
from miniqueue.errors.requests import InvalidOptionError, SchemaError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.support import world_with


def use(world, **members) -> None:
    world.broker.set_defaults(TopicDefaults({"*": members}))


def settings_of(world, name: bytes = b"t") -> TopicSettings:
    return world.broker.admin.settings_of(name)


async def test_every_way_to_create_a_topic_uses_them(world):
    use(world, max_deliveries=5)
    broker = world.broker
    broker.publish(b"published", [b"a"])
    broker.publish_batch(b"batch", [b"a"], b"")
    broker.publish_with(b"delayed", b"a", PublishOptions(delay_seconds=5))
    await broker.groups.create(b"group", b"g")
    await broker.admin.create(b"created", {}).wait()
    await broker.admin.replace(b"replaced", {})[0].wait()
    for name in (b"published", b"batch", b"delayed", b"group", b"created", b"replaced"):
        assert settings_of(world, name) == TopicSettings(max_deliveries=5)


async def test_a_topic_keeps_them_when_they_change_and_after_a_restart(world):
    use(world, max_deliveries=5)
    await world.publish(b"t", b"a")
    use(world, max_deliveries=9)
    assert settings_of(world) == TopicSettings(max_deliveries=5)
    await world.restart()
    assert settings_of(world) == TopicSettings(max_deliveries=5)
    await world.publish(b"u", b"a")
    assert settings_of(world, b"u") is DEFAULT_SETTINGS  # the new broker has no defaults


async def test_its_creator_wins_and_replacing_is_as_creating(world):
    use(world, max_deliveries=5, lease_seconds=60)
    for _ in range(2):
        world.broker.admin.replace(b"t", {"max_deliveries": 2})
        assert settings_of(world) == TopicSettings(max_deliveries=2, lease_seconds=60)
    world.broker.admin.change(b"t", {"lease_seconds": None})
    assert settings_of(world) == TopicSettings(max_deliveries=2)


async def test_the_first_message_with_a_key_goes_to_the_partition_of_the_key(world):
    use(world, partitions=4)
    keys = [b"a", b"b", b"c", b"d", b"e"]
    expected = [partition_for(key, 4) for key in keys]
    accepted = [
        world.broker.publish_with(b"t%d" % number, b"x", PublishOptions(key=key)) for number, key in enumerate(keys)
    ]
    assert [int(each.message_id.split(b"-")[0]) for each in accepted] == expected
    batch = world.broker.publish_batch(b"batch", [b"x"] * len(keys), b"", BatchOptions(keys))
    assert [int(each.split(b"-")[0]) for each in batch.message_id.split(b",")] == expected
    await world.restart()
    assert settings_of(world, b"t0").partitions == 4


async def test_a_topic_is_not_created_for_a_message_that_its_defaults_refuse(world):
    use(world, max_message_bytes=3, dedup_window_seconds=0, max_messages=2, partitions=2)
    broker = world.broker
    with pytest.raises(PayloadTooLargeError):
        broker.publish(b"t", [b"long"])
    with pytest.raises(TopicFullError):
        broker.publish(b"t", [b"x"] * 3)
    with pytest.raises(InvalidOptionError, match="dedup_window_seconds"):
        broker.publish_with(b"t", b"x", PublishOptions(dedup_id=b"id"))
    for options in (PublishOptions(key=b"k"), PublishOptions(delay_seconds=5), PublishOptions(priority=Priority.HIGH)):
        with pytest.raises(PayloadTooLargeError):
            broker.publish_with(b"t", b"long", options)
    with pytest.raises(InvalidAttributesError):
        broker.publish_with(b"t", b"x", PublishOptions(headers=((b"h", b"x" * (1 << 20)),)))
    with pytest.raises(InvalidOptionError, match="dedup_window_seconds"):
        broker.publish_batch(b"t", [b"x"], b"id")
    with pytest.raises(PayloadTooLargeError):
        broker.publish_batch(b"t", [b"x", b"long"], b"", BatchOptions([b"k", b"l"]))
    with pytest.raises(TopicFullError):
        broker.publish_batch(b"t", [b"x"] * 3, b"", BatchOptions([b"k"] * 3))
    with pytest.raises(PayloadTooLargeError):
        await broker.publish_unique(b"t", b"long", PublishOptions(unique_key=b"k"))
    assert broker.topics() == []
    await world.commit()
    await world.restart()
    assert world.broker.topics() == []


async def test_a_topic_is_not_created_for_a_message_that_does_not_fit_its_schema(world):
    use(world, schema={"type": "number"})
    for options in (PublishOptions(key=b"k"), PublishOptions(delay_seconds=5)):
        with pytest.raises(SchemaError):
            world.broker.publish_with(b"t", b"x", options)
    with pytest.raises(SchemaError):
        world.broker.publish(b"t", [b"1", b"x"])
    assert world.broker.topics() == []
    world.broker.publish(b"t", [b"1"])
    assert world.broker.topics() == [b"t"]


@world_with(limits=BrokerLimits(has_users=True))
async def test_a_topic_is_not_created_for_a_message_that_exceeds_the_rate_of_the_user(world):
    use(world, partitions=2)
    world.broker.set_quotas({"ann": Quotas(max_messages_per_second=1)})
    CURRENT_ACTOR.set(Actor("ann", 1, b"ann"))
    world.broker.publish_with(b"t", b"x", PublishOptions(key=b"k"))
    with pytest.raises(RateLimitError):
        world.broker.publish_with(b"u", b"x", PublishOptions(key=b"k"))
    assert world.broker.topics() == [b"t"]


@world_with(limits=BrokerLimits(max_partitions=3))
async def test_their_partitions_count(world):
    use(world, partitions=4)
    with pytest.raises(LimitReachedError):
        world.broker.publish(b"t", [b"x"])
    assert world.broker.topics() == []


async def test_a_dead_letter_topic_has_defaults_too_and_nothing_moves_twice(world):
    world.broker.set_defaults(TopicDefaults({"*": {"max_deliveries": 1}, "*.dlq": {"lease_seconds": 60}}))
    await world.publish(b"t", b"x")
    for topic in (b"t", b"t.dlq", b"t.dlq"):
        consumer = await world.holding(topic)
        assert consumer.payloads == [b"x"]
        consumer.consumer.nack()
        consumer.consumer.close()
        await world.commit()
    assert settings_of(world, b"t.dlq") == TopicSettings(max_deliveries=1, lease_seconds=60)
    assert world.broker.topics() == [b"t", b"t.dlq"]


async def test_one_dead_letter_topic_for_all_does_not_refer_to_itself(world):
    use(world, max_deliveries=1, dead_letter_topic="dead")
    await world.publish(b"t", b"x")
    (await world.holding(b"t")).consumer.nack()
    await world.commit()
    assert settings_of(world, b"dead") == TopicSettings(max_deliveries=1)
    assert await world.drain(b"dead") == [b"x"]
