"""Ages of many topics, a few of which are read in each pass."""

import pytest

from miniqueue.broker.inspect import known_ages
from miniqueue.broker.inspect.known_ages import KnownAges
from miniqueue.core.options.start import Edge
from tests.fakes import START_MS


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(known_ages, "MAX_UNKNOWN", 2)
    monkeypatch.setattr(known_ages, "KNOWN_IN_TURN", 1)


async def one_pass(known, world):
    """Return the seconds from the start until the oldest message of each topic was published, as far as known."""
    known.begin_pass()
    engine = world.broker._engine
    ages = {}
    for name, topic in sorted(engine.topics.by_name.items()):
        if topic.id is not None and topic.depth:
            at_ms = await known.of(engine, topic, topic.id)
            ages[name.decode()] = None if at_ms is None else (at_ms - START_MS) // 1000
    return ages


async def published(world, *names):
    for name in names:
        await world.publish(name, b"x")
        world.clock.advance(60)


async def test_unknown_ages_are_read_a_few_at_a_time(world):
    await published(world, b"a", b"b", b"c", b"d", b"e")
    known = KnownAges()
    assert await one_pass(known, world) == {"a": 0, "b": 60, "c": None, "d": None, "e": None}
    assert await one_pass(known, world) == {"a": 0, "b": 60, "c": 120, "d": 180, "e": None}
    assert await one_pass(known, world) == {"a": 0, "b": 60, "c": 120, "d": 180, "e": 240}


async def test_a_group_that_goes_back_makes_the_oldest_message_older(world):
    await world.broker.admin.create(b"a", {"retention_seconds": 3600}).wait()
    await published(world, b"a", b"b")
    assert await world.drain(b"a") == [b"x"]
    await published(world, b"a", b"c")
    known = KnownAges()
    for _ in range(2):
        before = await one_pass(known, world)
    assert before == {"a": 120, "b": 60, "c": 180}
    await world.broker.groups.seek(b"a", b"default", Edge.EARLIEST)
    passes = [await one_pass(known, world) for _ in range(3)]
    assert passes[-1] == {"a": 0, "b": 60, "c": 180}


async def test_what_others_have_read_is_known(world):
    await published(world, b"a", b"b", b"a", b"c", b"d")
    known = KnownAges()
    for _ in range(2):
        await one_pass(known, world)
    await world.drain(b"a")
    await published(world, b"a")
    await world.broker.inspect.oldest_at_ms(b"a")
    assert (await one_pass(known, world))["a"] == 300


async def test_topics_that_are_gone_are_forgotten(world):
    await published(world, b"a", b"b")
    known = KnownAges()
    await one_pass(known, world)
    assert known.size_bytes
    await world.drain(b"a")
    await world.broker.delete_topic(b"b")
    assert await one_pass(known, world) == {}
    await one_pass(known, world)
    assert known.size_bytes == 0
