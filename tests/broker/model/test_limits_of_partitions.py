"""Limits of topics with many partitions, which are not all looked at with each publish."""

import random

import pytest

from miniqueue.broker.model.held import MANY_PARTITIONS
from miniqueue.broker.model.topic import Topic
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import TopicFullError
from tests.broker.consume.test_partitions import create
from tests.broker.support import World, started_world


def counted(monkeypatch) -> list[int]:
    """Return a list that grows with each time that all of a topic is counted."""
    found, held = [], Topic.held

    def count(topic):
        found.append(len(topic.partitions))
        return held(topic)

    monkeypatch.setattr(Topic, "held", count)
    return found


async def test_who_publishes_within_the_limits_does_not_count_what_there_is(monkeypatch):
    counts = counted(monkeypatch)

    async with started_world() as world:
        await create(world, 1024, max_messages=1000)
        for number in range(200):
            world.broker.publish_with(b"t", b"x", PublishOptions(key=b"%d" % number))
            if number % 20 == 0:
                await world.commit()
        assert len(counts) == 1


def put(world: World, count: int = 1, **options: object) -> bool:
    try:
        for _ in range(count):
            world.broker.publish_with(b"t", b"x", PublishOptions(**options))
    except TopicFullError:
        return False
    return True


async def test_a_full_topic_has_room_again_when_what_is_acknowledged_is_committed(monkeypatch, world):
    await create(world, MANY_PARTITIONS, max_messages=10)
    assert put(world, 10)
    assert not put(world)
    await world.commit()
    holder = await world.holding(b"t")
    holder.consumer.ack()
    await world.commit()
    assert put(world)
    counts = counted(monkeypatch)
    assert not any(put(world) for _ in range(50))
    assert len(counts) <= 1


async def test_a_group_that_goes_back_holds_more(world):
    await create(world, MANY_PARTITIONS, max_messages=10, retention="forever")
    assert put(world, 10)
    assert len(await world.drain(b"t")) == 10
    await world.commit()
    assert put(world, 4)
    await world.broker.groups.seek(b"t", b"default", Edge.EARLIEST)
    assert not put(world)


@pytest.mark.parametrize("policy", ["refuse", "drop-oldest"])
@pytest.mark.parametrize("seed", range(6))
async def test_no_limit_is_passed_and_what_has_room_is_taken(seed, policy, world):
    await create(world, MANY_PARTITIONS, max_messages=30, limit_policy=policy)
    chance = random.Random(seed)
    for _ in range(150):
        act = chance.randrange(6)
        if act < 3:
            delay = chance.choice([0.0, 0.0, 5.0])
            put(world, key=b"%d" % chance.randrange(50), delay_seconds=delay)
        elif act == 3:
            holder = world.consumer(b"t")
            holder.consumer.request()
            if not holder.consumer.is_waiting:
                getattr(holder.consumer, chance.choice(["ack", "nack", "back"]))()
            holder.consumer.close()
        elif act == 4:
            world.clock.advance(3)
            world.broker.tick()
        else:
            await world.commit()
            held = world.broker._engine.topics.by_name[b"t"].held()[0]
            assert held <= 30
            assert put(world) == (held < 30 or policy == "drop-oldest")
    await world.commit()
