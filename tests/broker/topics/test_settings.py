"""Topics made and set by an operator: in one commit, read at the start, gone with the topic."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import (
    CorruptionError,
    FormatVersionError,
    LimitReachedError,
    PayloadTooLargeError,
    TopicFullError,
)
from miniqueue.errors.requests import InvalidSettingError, TopicExistsError, UnknownTopicError
from miniqueue.storage.format import keys, values
from tests.broker.support import world_with
from tests.fakes import FaultyStore, ManualClock, broker_on, settle_down


def settings_of(world, name: bytes = b"t") -> TopicSettings:
    return world.broker.admin.settings_of(name)


async def test_a_topic_is_there_when_it_was_made_and_after_a_restart(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 5}).wait()
    assert len(world.store.batches) == 1
    await world.restart()
    assert world.broker.topics() == [b"t"]
    assert settings_of(world) == TopicSettings(max_deliveries=5)
    await world.publish(b"t", b"a")
    assert await world.drain(b"t") == [b"a"]


async def test_a_topic_is_made_once(world):
    await world.publish(b"t", b"a")
    with pytest.raises(TopicExistsError):
        world.broker.admin.create(b"t", {})


async def test_settings_are_changed_in_one_commit_and_survive_every_crash_behind_it(world):
    await world.publish(b"t", b"a")
    before = len(world.store.batches)
    await world.broker.admin.change(b"t", {"max_deliveries": 5, "lease_seconds": 60}).wait()
    assert len(world.store.batches) == before + 1
    for batch_count, expected in ((before, DEFAULT_SETTINGS), (before + 1, settings_of(world))):
        broker = broker_on(await world.store.as_of(batch_count), world.clock)
        await broker.start()
        assert broker.admin.settings_of(b"t") == expected
        await broker.stop()


async def test_replacing_sets_all_that_is_not_told_back(world):
    admin = world.broker.admin
    commit, is_new = admin.replace(b"t", {"max_deliveries": 5})
    assert is_new
    await commit.wait()
    commit, is_new = admin.replace(b"t", {"lease_seconds": 60})
    assert not is_new
    await commit.wait()
    assert settings_of(world) == TopicSettings(lease_seconds=60.0)


async def test_settings_at_their_default_are_not_stored_nor_kept(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 5}).wait()
    await world.broker.admin.change(b"t", {"max_deliveries": None}).wait()
    assert settings_of(world) is DEFAULT_SETTINGS
    assert [key for key in world.store.pairs() if key[0] == 0x14] == []


async def test_what_cannot_be_set_changes_nothing(world):
    admin = world.broker.admin
    with pytest.raises(InvalidSettingError):
        admin.create(b"t", {"max_deliveries": -1})
    with pytest.raises(UnknownTopicError):
        admin.change(b"t", {"max_deliveries": 1})
    with pytest.raises(UnknownTopicError):
        settings_of(world)
    assert world.broker.topics() == []
    assert world.store.batches == []


@world_with(limits=BrokerLimits(max_topics=1))
async def test_a_topic_that_is_made_counts_as_one(world):
    await world.broker.admin.create(b"t", {}).wait()
    with pytest.raises(LimitReachedError):
        world.broker.admin.create(b"u", {})


async def test_a_deleted_topic_takes_its_settings_along(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 5}).wait()
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert [key for key in world.store.pairs() if key[0] == 0x14] == []
    await world.publish(b"t", b"a")
    assert settings_of(world) is DEFAULT_SETTINGS


async def test_settings_of_a_newer_version_are_refused_at_the_start(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 5}).wait()
    store = await world.store.as_of(1)
    await store.write({keys.settings(1): values.seal(b"{}", version=b"\x02")})
    with pytest.raises(FormatVersionError, match="topic settings: format version 2 found"):
        await broker_on(store, world.clock).start()


async def test_a_lease_lasts_as_long_as_the_topic_says_unless_the_consumer_does(world):
    await world.broker.admin.create(b"t", {"lease_seconds": 5}).wait()
    await world.publish(b"t", b"a", b"b")
    for options in (ReceiveOptions(), ReceiveOptions(lease_seconds=50.0)):
        world.broker.leases.receive(b"t", options, lambda _: None, lambda _: None)
    world.clock.advance(seconds=6)
    world.broker.tick()
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.leased) == (1, 1)


@world_with(limits=BrokerLimits(max_topic_messages=3))
async def test_a_topic_holds_what_its_settings_say_but_never_more_than_the_operator_allows(world):
    admin = world.broker.admin
    for name, settings in (
        (b"few", {"max_messages": 1}),
        (b"short", {"max_bytes": 3}),
        (b"any", {"max_messages": 0, "max_bytes": 0}),
        (b"more", {"max_messages": 100}),
    ):
        await admin.create(name, settings).wait()
    await world.restart()
    await world.publish(b"few", b"long")
    for name in (b"any", b"more"):
        await world.publish(name, *[b"x"] * 3)
        with pytest.raises(TopicFullError, match=r"\(-max-topic-messages\)"):
            world.broker.publish(name, [b"x"])
    with pytest.raises(TopicFullError, match=r"as many messages as it may \(max_messages of the topic\)"):
        world.broker.publish(b"few", [b"x"])
    with pytest.raises(TopicFullError, match=r"as many bytes of messages as it may \(max_bytes of the topic\)"):
        world.broker.publish(b"short", [b"long"])
    with pytest.raises(TopicFullError, match=r"\(-max-topic-messages\)"):
        world.broker.publish(b"other", [b"x"] * 4)
    await world.broker.admin.change(b"few", {"max_messages": None}).wait()
    await world.publish(b"few", b"x", b"x")


async def test_a_topic_that_is_made_anew_holds_as_much_as_any(world):
    await world.broker.admin.create(b"t", {"max_messages": 1}).wait()
    consumer = world.consumer(b"t")
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"a")
    await world.publish(b"t", b"b")
    consumer.consumer.close()


@world_with(limits=BrokerLimits(policy=LimitPolicy.DROP_OLDEST))
async def test_lowering_what_a_topic_holds_drops_the_oldest_with_the_next_publish(world):
    await world.publish(b"t", b"a", b"b", b"c")
    await world.broker.admin.change(b"t", {"max_messages": 2}).wait()
    await world.publish(b"t", b"d")
    assert await world.drain(b"t") == [b"c", b"d"]


async def test_a_topic_refuses_messages_over_its_size_by_whatever_way(world):
    admin = world.broker.admin
    admin.create(b"t", {"max_message_bytes": 3, "partitions": 2})
    refusal = r"message of 4 bytes is over the limit of 3 \(max_message_bytes of the topic\)"
    publish = world.broker.publish
    await publish(b"t", [b"abc", b""]).commit.wait()
    keyed = BatchOptions([b"k", b"l"], {0: PublishOptions(key=b"k")})
    for act in (
        lambda: publish(b"t", [b"abc", b"abcd", b"x"]),
        lambda: world.broker.publish_with(b"t", b"abcd", PublishOptions(key=b"k")),
        lambda: world.broker.publish_with(b"t", b"abcd", PublishOptions(delay_seconds=60)),
        lambda: world.broker.publish_batch(b"t", [b"abcd", b"x"], b"id"),
        lambda: world.broker.publish_batch(b"t", [b"abcd", b"x"], b"id", keyed),
    ):
        with pytest.raises(PayloadTooLargeError, match=refusal):
            act()
    with pytest.raises(PayloadTooLargeError, match=refusal):
        await world.broker.publish_unique(b"t", b"abcd", PublishOptions(unique_key=b"u"))
    assert world.broker.stats()[b"t"].published == 2
    await world.restart()
    with pytest.raises(PayloadTooLargeError, match=refusal):
        world.broker.publish(b"t", [b"abcd"])
    world.broker.admin.change(b"t", {"max_message_bytes": None})
    await world.publish(b"t", b"abcd")


async def test_what_is_in_the_topic_and_what_is_moved_to_it_is_taken_whatever_its_size(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 1}).wait()
    await world.publish(b"t", b"long")
    holder = await world.holding(b"t")
    world.broker.admin.change(b"t", {"max_message_bytes": 1})
    world.broker.admin.create(b"t.dlq", {"max_message_bytes": 1})
    holder.consumer.nack()
    await world.commit()
    assert world.broker.stats()[b"t.dlq"].ready == 1
    assert (await world.broker.redrive_report(b"t.dlq", None, None, None, lambda: True)).moved == 1
    assert await world.drain(b"t") == [b"long"]


async def test_a_topic_that_allows_more_than_the_broker_changes_nothing():
    broker = broker_on(FaultyStore(), ManualClock(), max_message_bytes=2)
    await broker.start()
    broker.admin.create(b"t", {"max_message_bytes": 5})
    with pytest.raises(PayloadTooLargeError, match=r"limit of 2 \(-max-message-size\)"):
        broker.publish(b"t", [b"abc"])
    await broker.stop()


async def test_a_setting_that_this_version_does_not_know_is_refused_at_the_start(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 5}).wait()
    store = await world.store.as_of(1)
    await store.write({keys.settings(1): values.seal(b'{"of_a_later_version":1}')})
    with pytest.raises(CorruptionError, match="topic settings"):
        await broker_on(store, world.clock).start()
