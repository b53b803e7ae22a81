"""Partitions in the tools: check finds nothing wrong after any commit, and what is missing; export keeps all."""

import random

import orjson
import pytest

from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import CorruptionError, InvalidLineError
from miniqueue.storage.format import keys, log_ends
from miniqueue.storage.format.log_ends import encode_growth
from miniqueue.storage.memory import MemoryStore
from miniqueue.tools.importing.importer import Importer, import_all
from tests.broker.consume.test_partitions import KEYS, create, partitions_of, publish
from tests.broker.support import World
from tests.fakes import START_MS
from tests.tools.test_lanes_and_groups import lines_of, problems_in


async def walk(world: World, seed: int) -> None:
    """Do anything to a topic of several partitions."""
    chance = random.Random(seed)
    await create(world, 3)
    for _ in range(60):
        act = chance.randrange(6)
        if act < 3:
            options = PublishOptions(key=chance.choice([b"", *KEYS]), priority=chance.choice(list(Priority)))
            world.broker.publish_with(b"t", b"%d" % chance.randrange(1000), options)
        elif act == 3:
            count = world.broker.admin.settings_of(b"t").partitions + chance.randrange(2)
            world.broker.admin.change(b"t", {"partitions": count})
        elif act == 4:
            consumer = world.consumer(b"t")
            consumer.consumer.request()
            if not consumer.consumer.is_waiting:
                getattr(consumer.consumer, chance.choice(["ack", "nack", "back"]))()
            consumer.consumer.close()
        else:
            await world.commit()
    await world.commit()


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_is_wrong_after_any_commit(seed, world):
    await walk(world, seed)
    for count in range(1, len(world.store.batches) + 1):
        assert problems_in((await world.store.as_of(count)).pairs()) == [], count


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_exported_is_imported_again(seed, world):
    await walk(world, seed)
    lines = lines_of(world.store.pairs())
    fresh = World()
    importer = await Importer.begin(fresh.store, START_MS)
    await import_all([importer], lines)
    assert problems_in(fresh.store.pairs()) == []
    await fresh.start()
    assert lines_of(fresh.store.pairs()) == lines
    assert [number for number in partitions_of(fresh) if number < 1024] == [
        number for number in partitions_of(world) if number < 1024
    ]
    assert sorted(await fresh.drain(b"t")) == sorted(await world.drain(b"t"))
    await fresh.broker.stop()


async def test_messages_that_say_their_partition_make_those_in_front_of_it(world):
    await world.broker.stop()
    line = orjson.dumps({"topic": "t", "id": "3-7", "state": "waiting", "published_at": START_MS, "text": "x"})
    importer = await Importer.begin(world.store, START_MS)
    await import_all([importer], [line])
    assert problems_in(world.store.pairs()) == []
    await world.start()
    assert partitions_of(world) == [0, 1, 2, 3]
    assert world.broker.admin.settings_of(b"t").partitions == 4
    assert await world.drain(b"t") == [b"x"]


async def test_there_are_no_more_partitions_than_a_topic_may_have(world):
    line = orjson.dumps({"topic": "t", "id": "1024-7", "state": "waiting", "published_at": START_MS, "text": "x"})
    importer = await Importer.begin(MemoryStore(), START_MS)
    with pytest.raises(InvalidLineError, match="1024 partitions"):
        await import_all([importer], [line])


async def test_a_partition_that_is_missing_is_found(world):
    await create(world, 3)
    await publish(world, b"", b"x")
    await world.store.write({keys.cursor(1, 1, 0): None})
    assert problems_in(world.store.pairs())[0].endswith("of 3 partitions there are [0, 2]")
    await world.broker.stop()
    with pytest.raises(CorruptionError, match=r"of 3 partitions there are \[0, 2\]"):
        await world.start()
    await world.store.write({keys.cursor(1, 1, 0): world.store.pairs()[keys.cursor(1, 2, 0)]})
    await world.start()


async def test_a_growth_that_cannot_have_been_is_a_problem(world):
    await create(world, 2)
    await publish(world, KEYS[0], b"x")
    await world.broker.admin.change(b"t", {"partitions": 3}).wait()
    pairs = world.store.pairs()
    assert problems_in(pairs) == []
    assert log_ends.growth(1, 2) in pairs
    for count, ends, cause in ((3, {0: 1}, "cannot have grown from 3"), (2, {2: 1}, "does not belong to 2 partitions")):
        (problem,) = problems_in(pairs | {log_ends.growth(1, count): encode_growth(ends)})
        assert cause in problem
