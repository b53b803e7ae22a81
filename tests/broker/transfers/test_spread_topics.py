"""Messages that move to a spread topic, and from it: each enters the part of its key, in whichever shard that is."""

from itertools import chain

from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.core.settings.spreading import settings_of_part
from tests.broker.transfers.shards import COUNT, HERE, THERE, Shards
from tests.broker.transfers.test_transfers import assert_sound, reject_all

SPREAD = b"spread"
PARTS = [part_name(SPREAD, number) for number in range(4)]
KEYS = [b"key-%d" % number for number in range(12)]


async def spread(shards: Shards, part_count: int = len(PARTS), **settings: object) -> None:
    """Create a spread topic in both shards, with its parts."""
    whole = TopicSettings(spread=part_count, **settings)
    for shard in shards.both:
        await shard.broker.admin.assume(SPREAD, whole).wait()
    for part in PARTS[:part_count]:
        await shard_of(shards, part).broker.admin.assume(part, settings_of_part(whole)).wait()


def shard_of(shards: Shards, topic: bytes):
    return shards.both[Placing(0, COUNT).shard_of(topic)]


async def publish(shards: Shards, topic: bytes, *keys: bytes) -> None:
    """Publish a message of each key; to the spread topic, in the part of the key."""
    for key in keys:
        name = PARTS[part_for(key, len(PARTS))] if topic == SPREAD else topic
        await shard_of(shards, name).broker.publish_with(name, b"of " + key, PublishOptions(key=key)).commit.wait()


async def drained(shards: Shards) -> list[list[bytes]]:
    """Return what each part has."""
    return [await shard_of(shards, part).consumer(part).drain_all() for part in PARTS]


def by_part(*keys: bytes) -> list[list[bytes]]:
    return [[b"of " + key for key in keys if part_for(key, len(PARTS)) == number] for number in range(len(PARTS))]


async def test_dead_letters_for_a_spread_topic_enter_the_parts_of_their_keys():
    async with Shards() as shards:
        await spread(shards)
        await shards.both[0].broker.admin.create(HERE, {"dead_letter_topic": SPREAD.decode()}).wait()
        await publish(shards, HERE, *KEYS)
        assert await reject_all(shards.both[0], HERE) == len(KEYS)
        await shards.carry_all()
        assert await drained(shards) == by_part(*KEYS)
        assert_sound(shards)


async def test_dead_letters_of_a_spread_topic_return_from_another_topic_to_their_parts():
    async with Shards() as shards:
        await spread(shards, dead_letter_topic=THERE.decode())
        await publish(shards, SPREAD, *KEYS)
        for part in PARTS:
            await reject_all(shard_of(shards, part), part)
        await shards.carry_all()
        assert shards.both[1].broker.stats()[THERE].ready == len(KEYS)
        assert await shards.both[1].broker.redrive(THERE) == len(KEYS)
        await shards.carry_all()
        assert await drained(shards) == by_part(*KEYS)


async def test_dead_letters_are_redriven_to_a_spread_topic():
    async with Shards() as shards:
        await spread(shards)
        await publish(shards, HERE, *KEYS)
        await reject_all(shards.both[0], HERE)
        await shards.both[0].commit()
        assert await shards.both[0].broker.redrive(HERE + b".dlq", target=SPREAD) == len(KEYS)
        await shards.carry_all()
        assert await drained(shards) == by_part(*KEYS)


async def test_messages_without_keys_enter_the_parts_in_turn():
    async with Shards() as shards:
        await spread(shards)
        await shards.both[0].publish(HERE, *KEYS)
        await reject_all(shards.both[0], HERE)
        await shards.both[0].commit()
        assert await shards.both[0].broker.redrive(HERE + b".dlq", target=SPREAD) == len(KEYS)
        await shards.carry_all()
        assert [len(payloads) for payloads in await drained(shards)] == [3, 3, 3, 3]


async def test_messages_on_their_way_reach_a_topic_that_is_spread_or_deleted_meanwhile():
    async with Shards() as shards:
        await shards.both[0].broker.admin.create(HERE, {"dead_letter_topic": THERE.decode()}).wait()
        await publish(shards, HERE, *KEYS)
        await reject_all(shards.both[0], HERE)
        await shards.both[0].commit()
        parts = [part_name(THERE, number) for number in range(2)]
        for shard in shards.both:
            await shard.broker.admin.assume(THERE, TopicSettings(spread=2)).wait()
        for part in parts:
            await shard_of(shards, part).broker.admin.assume(part, TopicSettings()).wait()
        await shards.carry_all()
        received = [await shard_of(shards, part).consumer(part).drain_all() for part in parts]
        assert received == [[b"of " + key for key in KEYS if part_for(key, 2) == number] for number in range(2)]
        await publish(shards, HERE, *KEYS)
        await reject_all(shards.both[0], HERE)
        await shards.both[0].commit()
        for part in parts:
            await shard_of(shards, part).broker.delete_topic(part)
        for shard in shards.both:
            await shard.broker.delete_topic(THERE)
        await shards.carry_all()
        assert shards.both[1].broker.stats()[THERE].ready > 0
        assert_sound(shards)


async def delete(shards: Shards) -> None:
    """Delete the spread topic, with its parts."""
    for part in PARTS:
        await shard_of(shards, part).broker.delete_topic(part)
    for shard in shards.both:
        await shard.broker.delete_topic(SPREAD)


def carried_from(shard: int) -> list[bytes]:
    """Return the messages whose parts are in another shard; what was moved in this one was deleted with its part."""
    own = Placing(shard, COUNT)
    return sorted(b"of " + key for key in KEYS if not own.has(PARTS[part_for(key, len(PARTS))]))


async def test_messages_on_their_way_to_parts_that_a_new_topic_does_not_have_enter_others():
    async with Shards() as shards:
        await spread(shards)
        await shards.both[0].broker.admin.create(HERE, {"dead_letter_topic": SPREAD.decode()}).wait()
        await publish(shards, HERE, *KEYS)
        await reject_all(shards.both[0], HERE)
        await delete(shards)
        await spread(shards, 2)
        await shards.carry_all()
        assert [len(shard.broker.outbox) for shard in shards.both] == [0, 0]
        received = [await shard_of(shards, part).consumer(part).drain_all() for part in PARTS[:2]]
        assert sorted(chain.from_iterable(received)) == carried_from(0)
        assert_sound(shards)


async def test_dead_letters_that_come_home_to_a_part_that_a_new_topic_does_not_have_enter_that_of_their_key():
    async with Shards() as shards:
        await spread(shards, dead_letter_topic=THERE.decode())
        await publish(shards, SPREAD, *KEYS)
        for part in PARTS:
            await reject_all(shard_of(shards, part), part)
        await shards.carry_all()
        assert await shards.both[1].broker.redrive(THERE) == len(KEYS)
        await delete(shards)
        await spread(shards, 2)
        await shards.carry_all()
        assert [len(shard.broker.outbox) for shard in shards.both] == [0, 0]
        received = [await shard_of(shards, part).consumer(part).drain_all() for part in PARTS[:2]]
        assert sorted(chain.from_iterable(received)) == carried_from(1)
        assert_sound(shards)
