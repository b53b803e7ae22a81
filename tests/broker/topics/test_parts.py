"""Parts of spread topics in one shard: their partitions, ids, receipts, and dead letters carry the part."""

import pytest

from miniqueue.broker.leases.receive import ReceiveResult
from miniqueue.core.message.parts import part_name, part_of_id
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.settle import PLAIN_NACK
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import CrossShardError, InvalidSettingError, SpreadTopicError
from tests.fakes import settle_down

SHARDS = Placing(0, 2)
#: A name of shard 0, whose even parts are in shard 0, too.
TOPIC = next(name for name in (b"orders-%d" % number for number in range(9)) if SHARDS.shard_of(name) == 0)
PART = part_name(TOPIC, 2)
FIRST = 2 << 10


@pytest.fixture
def shard(world):
    world.broker.place(SHARDS)
    return world


async def ids_of(world, *keys: bytes, **options) -> list[bytes]:
    accepted = [world.broker.publish_with(PART, key, PublishOptions(key=key, **options)) for key in keys]
    for each in accepted:
        await each.commit.wait()
    return [each.message_id for each in accepted]


async def test_partitions_of_a_part_are_numbered_from_its_own_first_one_on(shard):
    await shard.broker.admin.assume(PART, TopicSettings(partitions=3)).wait()
    ids = await ids_of(shard, *(b"%d" % number for number in range(20)), b"")
    assert {int(message_id.partition(b"-")[0]) for message_id in ids} == {FIRST, FIRST + 1, FIRST + 2}
    assert {part_of_id(message_id) for message_id in ids} == {2}
    await shard.restart()
    bounds = await shard.broker.inspect.log.partitions(PART)
    assert [each.partition for each, _ in bounds] == [FIRST, FIRST + 1, FIRST + 2]
    assert len(await shard.drain(PART)) == 21


async def test_a_part_grows_and_keeps_the_order_of_keys(shard):
    await shard.broker.admin.assume(PART, TopicSettings()).wait()
    await ids_of(shard, b"a", b"b", b"a")
    await shard.broker.admin.assume(PART, TopicSettings(partitions=4)).wait()
    assert {message_id[:4] for message_id in await ids_of(shard, b"a", b"b", b"c", b"d", b"e")} <= {
        b"%d" % (FIRST + number) for number in range(4)
    }
    await shard.restart()
    assert (await shard.drain(PART))[:3] == [b"a", b"b", b"a"]


async def test_delayed_messages_of_a_part_become_due_in_their_lane(shard):
    await shard.broker.admin.assume(PART, TopicSettings()).wait()
    accepted = shard.broker.publish_with(PART, b"later", PublishOptions(delay_seconds=1.0))
    await accepted.commit.wait()
    assert part_of_id(accepted.message_id) == 2
    await shard.restart()
    shard.clock.advance(2.0)
    shard.broker.tick()
    await settle_down()
    assert await shard.drain(PART) == [b"later"]


async def test_no_part_is_created_without_shards(world):
    with pytest.raises(InvalidTopicError):
        await world.publish(PART, b"x")
    with pytest.raises(InvalidSettingError, match="shards"):
        world.broker.admin.create(TOPIC, {"spread": 2})


async def test_a_spread_topic_accepts_no_messages_itself(shard):
    await shard.broker.admin.create(TOPIC, {"spread": 2}).wait()
    assert shard.broker.spread_of(TOPIC) == shard.broker.spread_of(TOPIC + b".dlq") == 2
    for options in (PublishOptions(), PublishOptions(delay_seconds=5.0)):
        with pytest.raises(SpreadTopicError):
            shard.broker.publish_with(TOPIC, b"x", options)
    with pytest.raises(SpreadTopicError):
        await shard.publish(TOPIC, b"x")
    await shard.restart()
    assert shard.broker.spread_topics == {TOPIC: 2}
    await shard.broker.delete_topic(TOPIC)
    assert shard.broker.spread_of(TOPIC) == 0


async def test_the_spread_of_a_topic_is_decided_when_it_is_created_and_only_grows(shard):
    admin = shard.broker.admin
    await admin.create(TOPIC, {"spread": 2}).wait()
    await admin.change(TOPIC, {"spread": 3}).wait()
    with pytest.raises(InvalidSettingError, match="at least the 3 parts"):
        admin.change(TOPIC, {"spread": 2})
    await shard.publish(b"{%b}plain" % TOPIC, b"x")
    with pytest.raises(InvalidSettingError, match="created without it"):
        admin.change(b"{%b}plain" % TOPIC, {"spread": 2})
    with pytest.raises(InvalidSettingError, match="like their topic"):
        admin.create(b"{%b}.dlq" % TOPIC, {"spread": 2})
    commit, is_new = admin.replace(TOPIC, {"max_deliveries": 3})
    await commit.wait()
    assert not is_new
    assert admin.settings_of(TOPIC).spread == 3


async def test_every_shard_has_a_spread_topic_and_no_other_one_of_another_shard(shard):
    shard.broker.place(Placing(1, 2))
    await shard.broker.admin.assume(TOPIC, TopicSettings(spread=2)).wait()
    assert shard.broker.spread_of(TOPIC) == 2
    with pytest.raises(CrossShardError):
        await shard.broker.admin.assume(b"{%b}" % TOPIC, TopicSettings()).wait()


async def test_dead_letters_of_a_part_name_the_topic_and_return_to_the_part(shard):
    await shard.broker.admin.assume(TOPIC, TopicSettings(spread=3)).wait()
    await shard.broker.admin.assume(PART, TopicSettings(max_deliveries=1)).wait()
    await ids_of(shard, b"a")
    answers: list[ReceiveResult] = []
    shard.broker.leases.receive(PART, ReceiveOptions(), answers.append, answers.append)
    [received] = answers
    [(_, lease)] = received.leases
    shard.broker.leases.settle(
        PART, [b"%b%d" % (received.prefix, lease.receipt)], shard.broker.leases.nacking(PLAIN_NACK)
    )
    letters = part_name(TOPIC + b".dlq", 2)
    assert shard.broker.topics() == sorted([TOPIC, PART, letters])
    assert await shard.broker.redrive(letters) == 1
    assert await shard.drain(PART) == [b"a"]
