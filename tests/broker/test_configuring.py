"""Topics made and set by an operator: in one commit, read at the start, gone with the topic."""

import pytest

from miniqueue.broker.limits import BrokerLimits
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.receiving import ReceiveOptions
from miniqueue.core.topic_errors import InvalidSettingError, TopicExistsError, UnknownTopicError
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import FormatVersionError, LimitReachedError, TopicFullError
from miniqueue.storage import keys, sealing
from tests.broker.support import run
from tests.fakes import broker_on, settle_down


def settings_of(world, name: bytes = b"t") -> TopicSettings:
    return world.broker.configurator.settings_of(name)


def test_a_topic_is_there_when_it_was_made_and_after_a_restart():
    async def body(world):
        await world.broker.configurator.create(b"t", {"max_deliveries": 5}).wait()
        assert len(world.store.batches) == 1
        await world.restart()
        assert world.broker.topics() == [b"t"]
        assert settings_of(world) == TopicSettings(max_deliveries=5)
        await world.publish(b"t", b"a")
        assert await world.drain(b"t") == [b"a"]

    run(body)


def test_a_topic_is_made_once():
    async def body(world):
        await world.publish(b"t", b"a")
        with pytest.raises(TopicExistsError):
            world.broker.configurator.create(b"t", {})

    run(body)


def test_settings_are_changed_in_one_commit_and_survive_every_crash_behind_it():
    async def body(world):
        await world.publish(b"t", b"a")
        before = len(world.store.batches)
        await world.broker.configurator.change(b"t", {"max_deliveries": 5, "lease_seconds": 60}).wait()
        assert len(world.store.batches) == before + 1
        for batch_count, expected in ((before, DEFAULT_SETTINGS), (before + 1, settings_of(world))):
            broker = broker_on(await world.store.as_of(batch_count), world.clock)
            await broker.start()
            assert broker.configurator.settings_of(b"t") == expected
            await broker.stop()

    run(body)


def test_replacing_sets_all_that_is_not_told_back():
    async def body(world):
        configurator = world.broker.configurator
        commit, is_new = configurator.replace(b"t", {"max_deliveries": 5})
        assert is_new
        await commit.wait()
        commit, is_new = configurator.replace(b"t", {"lease_seconds": 60})
        assert not is_new
        await commit.wait()
        assert settings_of(world) == TopicSettings(lease_seconds=60.0)

    run(body)


def test_settings_at_their_default_are_not_stored_nor_kept():
    async def body(world):
        await world.broker.configurator.create(b"t", {"max_deliveries": 5}).wait()
        await world.broker.configurator.change(b"t", {"max_deliveries": None}).wait()
        assert settings_of(world) is DEFAULT_SETTINGS
        assert [key for key in world.store.pairs() if key[0] == 0x14] == []

    run(body)


def test_what_cannot_be_set_changes_nothing():
    async def body(world):
        configurator = world.broker.configurator
        with pytest.raises(InvalidSettingError):
            configurator.create(b"t", {"max_deliveries": -1})
        with pytest.raises(UnknownTopicError):
            configurator.change(b"t", {"max_deliveries": 1})
        with pytest.raises(UnknownTopicError):
            settings_of(world)
        assert world.broker.topics() == []
        assert world.store.batches == []

    run(body)


def test_a_topic_that_is_made_counts_as_one():
    async def body(world):
        await world.broker.configurator.create(b"t", {}).wait()
        with pytest.raises(LimitReachedError):
            world.broker.configurator.create(b"u", {})

    run(body, limits=BrokerLimits(max_topics=1))


def test_a_deleted_topic_takes_its_settings_along():
    async def body(world):
        await world.broker.configurator.create(b"t", {"max_deliveries": 5}).wait()
        await world.broker.delete_topic(b"t")
        await settle_down()
        assert [key for key in world.store.pairs() if key[0] == 0x14] == []
        await world.publish(b"t", b"a")
        assert settings_of(world) is DEFAULT_SETTINGS

    run(body)


def test_settings_of_a_newer_version_are_refused_at_the_start():
    async def body(world):
        await world.broker.configurator.create(b"t", {"max_deliveries": 5}).wait()
        store = await world.store.as_of(1)
        await store.write({keys.settings(1): sealing.seal(b"{}", version=b"\x02")})
        with pytest.raises(FormatVersionError, match="topic settings: format version 2 found"):
            await broker_on(store, world.clock).start()

    run(body)


def test_a_lease_lasts_as_long_as_the_topic_says_unless_the_consumer_does():
    async def body(world):
        await world.broker.configurator.create(b"t", {"lease_seconds": 5}).wait()
        await world.publish(b"t", b"a", b"b")
        for options in (ReceiveOptions(), ReceiveOptions(lease_seconds=50.0)):
            world.broker.leasing.receive(b"t", options, lambda _: None, lambda _: None)
        world.clock.advance(seconds=6)
        world.broker.tick()
        stats = world.broker.stats()[b"t"]
        assert (stats.ready, stats.leased) == (1, 1)

    run(body)


def test_a_topic_holds_what_its_settings_say_but_never_more_than_the_operator_allows():
    async def body(world):
        configurator = world.broker.configurator
        for name, settings in (
            (b"few", {"max_messages": 1}),
            (b"short", {"max_bytes": 3}),
            (b"any", {"max_messages": 0, "max_bytes": 0}),
            (b"more", {"max_messages": 100}),
        ):
            await configurator.create(name, settings).wait()
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
        await world.broker.configurator.change(b"few", {"max_messages": None}).wait()
        await world.publish(b"few", b"x", b"x")

    run(body, limits=BrokerLimits(max_topic_messages=3))


def test_a_topic_that_is_made_anew_holds_as_much_as_any():
    async def body(world):
        await world.broker.configurator.create(b"t", {"max_messages": 1}).wait()
        consumer = world.consumer(b"t")
        await world.broker.delete_topic(b"t")
        await world.publish(b"t", b"a")
        await world.publish(b"t", b"b")
        consumer.consumer.close()

    run(body)


def test_lowering_what_a_topic_holds_drops_the_oldest_with_the_next_publish():
    async def body(world):
        await world.publish(b"t", b"a", b"b", b"c")
        await world.broker.configurator.change(b"t", {"max_messages": 2}).wait()
        await world.publish(b"t", b"d")
        assert await world.drain(b"t") == [b"c", b"d"]

    run(body, limits=BrokerLimits(policy=LimitPolicy.DROP_OLDEST))
