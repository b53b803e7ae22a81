"""What looks into topics, cleans them up and limits them knows all of their partitions."""

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.ids import DelayedId, parse_message_id
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.options.start import Edge, FromMessage
from miniqueue.errors import TopicFullError
from tests.broker.consume.test_partitions import KEYS, create, publish
from tests.broker.support import World, started_world
from tests.fakes import settle_down


async def all_seen(world: World, state: State, count: int = 3) -> list[bytes]:
    """Return the payloads of all pages."""
    payloads: list[bytes] = []
    after: tuple[int, int] | DelayedId | None = None
    while page := await world.broker.inspect.peek(b"t", state, count, after):
        payloads += [seen.stored.payload for seen in page]
        after = page[-1].id
    return payloads


async def test_every_message_is_found_by_its_id(world):
    await create(world, 4)
    ids = [await publish(world, key, key) for key in KEYS]
    ids.append(await publish(world, KEYS[0], b"high", priority=Priority.HIGH))
    for message_id, payload in zip(ids, [*KEYS, b"high"], strict=True):
        seen = await world.broker.inspect.find(b"t", parse_message_id(message_id))
        assert (seen.message_id, seen.stored.payload) == (message_id, payload)


async def test_a_look_shows_all_partitions_page_by_page(world):
    await create(world, 4)
    for key in KEYS:
        await publish(world, key, key)
        await publish(world, key, b"later " + key, delay_seconds=10)
    assert sorted(await all_seen(world, State.READY)) == sorted(KEYS)
    assert sorted(await all_seen(world, State.DELAYED)) == sorted(b"later " + key for key in KEYS)
    consumer = world.broker.consumer(b"t", print, print, 7)
    consumer.request()
    assert len(await all_seen(world, State.LEASED)) == 7
    assert len(await all_seen(world, State.READY)) == len(KEYS) - 7
    consumer.close()


async def test_a_purge_empties_all_partitions(world):
    await create(world, 4)
    for key in KEYS:
        await publish(world, key, key)
        await publish(world, key, b"later", delay_seconds=10)
    assert await world.broker.purge(b"t") == 2 * len(KEYS)
    assert world.broker.inspect.depth(b"t") == 0
    await world.restart()
    assert world.broker.inspect.depth(b"t") == 0


async def test_figures_are_those_of_all_partitions(world):
    await create(world, 4)
    for key in KEYS:
        await publish(world, key, key)
    stats = world.broker.stats()[b"t"]
    assert (stats.published, stats.ready) == (20, 20)
    figures = await world.broker.inspect.stats(b"t")
    assert (figures["depth"], figures["ready"]) == (20, 20)
    (group,) = [group async for group in world.broker.groups.figures(b"t")]
    assert sum(group.lags.values()) == group.lag == 20


@pytest.mark.parametrize("policy", ["refuse", "drop-oldest"])
async def test_a_limit_is_for_all_partitions_together(policy, world):
    await create(world, 4, max_messages=6, limit_policy=policy)
    for number in range(6):
        world.clock.advance(0.1)
        await world.publish(b"t", b"%d" % number)
    if policy == "refuse":
        with pytest.raises(TopicFullError):
            await world.publish(b"t", b"6")
    else:
        for number in range(6, 9):
            world.clock.advance(0.1)
            await world.publish(b"t", b"%d" % number)
    assert world.broker.inspect.depth(b"t") == 6
    first = 0 if policy == "refuse" else 3
    assert sorted(await world.drain(b"t")) == [b"%d" % number for number in range(first, first + 6)]


async def test_each_partition_is_retained_and_can_be_read(world):
    await create(world, 3, retention="forever")
    for number in range(9):
        await world.publish(b"t", b"%d" % number)
    await world.drain(b"t")
    await world.commit()
    found = []
    for partition in range(3):
        page = await world.broker.inspect.log.read(b"t", partition, ReadOptions(0))
        found += [payload for chunk in page.runs for payload in chunk.payloads]
    assert sorted(found) == [b"%d" % number for number in range(9)]


async def test_a_group_begins_and_seeks_in_all_partitions(world):
    await create(world, 3)
    await world.publish_each(b"t", *[b"%d" % number for number in range(6)])
    await world.broker.groups.create(b"t", b"late", Edge.LATEST)
    await world.broker.groups.create(b"t", b"early")
    lags = {group.name: group.lag async for group in world.broker.groups.figures(b"t")}
    assert lags == {b"default": 6, b"late": 0, b"early": 6}
    await world.broker.groups.seek(b"t", b"early", Edge.LATEST)
    assert (await world.broker.groups.figures_of(b"t", b"early")).lag == 0
    await world.broker.groups.seek(b"t", b"early", FromMessage(1, 1))
    after = await world.broker.groups.figures_of(b"t", b"early")
    assert after.lags[1] == 1
    await world.restart()
    assert (await world.broker.groups.figures_of(b"t", b"early")).lags == after.lags


async def test_a_delayed_message_can_be_cancelled(world):
    await create(world, 4)
    accepted = world.broker.publish_with(b"t", b"x", PublishOptions(key=KEYS[3], delay_seconds=10))
    await world.commit()
    _, due, serial = accepted.message_id.split(b"-")
    await world.broker.delayed.cancel(b"t", DelayedId(0, int(due), int(serial)))
    world.clock.advance(11)
    world.broker.tick()
    await settle_down()
    assert await world.drain(b"t") == []


async def test_a_backlog_that_is_not_in_memory_comes_from_all_partitions_alike(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.stored.load.PAGE_BYTES", 200)

    async with started_world() as world:
        await create(world, 4)
        for number in range(200):
            await world.publish(b"t", b"%d" % (number % 4))
        await world.restart()
        payloads = await world.drain(b"t")
        assert sorted(payloads) == sorted(b"%d" % (number % 4) for number in range(200))
        assert {*payloads[:100]} == {b"0", b"1", b"2", b"3"}
