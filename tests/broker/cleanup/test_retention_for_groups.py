"""A topic keeps what its slowest group needs; groups can go back; a group that is too late is reported."""

import asyncio

import pytest

from miniqueue.core.options.start import Edge, FromMessage, FromTime
from tests.broker.cleanup.test_retention import chunks, configure, consume, fill, readable, tick
from tests.broker.groups.test_groups import lag, payloads, receive
from tests.fakes import START_MS, settle_down


def state_of(world, group):
    (cursor,) = world.broker._engine.topics.by_name[b"t"].groups[group].cursors
    return cursor.state


async def test_what_a_group_has_not_read_stays(world):
    await configure(world, retention_seconds=2)
    messages = await fill(world, 5)
    await world.broker.groups.create(b"t", b"late", FromMessage(0, 1))
    assert await consume(world, 5) == messages
    world.clock.advance(100)
    await tick(world)
    assert await readable(world, 0) == (messages[1:], 1)
    await world.restart()
    await tick(world)
    assert await readable(world, 0) == (messages[1:], 1)
    assert state_of(world, b"late").missed_count == 0
    assert await payloads(world, b"late") == messages[1:]
    await tick(world)
    assert chunks(world) == []


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Edge.EARLIEST, 0),
        (FromMessage(0, 3), 3),
        (FromTime(START_MS + 2000), 2),
        (FromTime(START_MS + 2001), 3),
        (Edge.LATEST, 6),
    ],
)
async def test_a_group_goes_back_in_what_is_kept(start, first, is_restarted, world):
    await configure(world, retention="forever")
    messages = await fill(world, 6)
    await world.broker.groups.create(b"t", b"g")
    assert await payloads(world, b"g") == messages
    assert await consume(world, 6) == messages
    assert await world.broker.groups.seek(b"t", b"g", start, is_dry=True) == (0, 6 - first)
    assert await world.broker.groups.seek(b"t", b"g", start) == (0, 6 - first)
    if is_restarted:
        await world.restart()
    assert await lag(world, b"g") == 6 - first
    assert await payloads(world, b"g") == messages[first:]
    assert await world.drain(b"t") == []
    assert await readable(world, 0) == (messages, 0)


async def test_a_group_that_asks_for_what_is_gone_begins_with_the_earliest(world):
    await configure(world, retention_seconds=3.5)
    messages = await fill(world, 6)
    await consume(world, 6)
    await tick(world)
    assert await readable(world, 0) == (messages[3:], 3)
    assert await world.broker.groups.seek(b"t", b"default", FromMessage(0, 1)) == (0, 3)
    assert await world.drain(b"t") == messages[3:]


async def test_leases_end_and_returns_are_forgotten_when_a_group_goes_back(world):
    await configure(world, retention="forever")
    messages = await fill(world, 4)
    await world.broker.groups.create(b"t", b"g")
    (receipt, _), (other, _) = (await receive(world, b"g", 2))[:2]
    world.broker.leases.dack(b"t", [other], 60)
    await world.broker.groups.seek(b"t", b"g", Edge.EARLIEST)
    assert world.broker.leases.ack(b"t", [receipt]) == [False]
    assert await payloads(world, b"g") == messages


async def test_nothing_goes_while_somebody_looks_where_a_group_is_to_begin(world):
    await configure(world, retention_seconds=1)
    messages = await fill(world, 4)
    await consume(world, 4)
    may_look, last_of = asyncio.Event(), world.store.last_of

    async def look(ranges):
        await may_look.wait()
        return await last_of(ranges)

    world.store.last_of = look
    seeking = asyncio.ensure_future(world.broker.groups.seek(b"t", b"default", FromTime(START_MS + 1000)))
    await settle_down()
    await tick(world)
    assert chunks(world) == [0, 1, 2, 3]
    may_look.set()
    assert await seeking == (0, 3)
    await tick(world)
    assert chunks(world) == [1, 2, 3]
    assert await world.drain(b"t") == messages[1:]


async def test_what_a_group_that_is_deleted_had_not_read_goes_or_is_kept_as_the_topic_says(world):
    await configure(world, retention_seconds=3.5)
    messages = await fill(world, 6)
    await world.broker.groups.create(b"t", b"late")
    await consume(world, 6)
    await tick(world)
    assert chunks(world) == [0, 1, 2, 3, 4, 5]
    await world.broker.groups.delete(b"t", b"late")
    await settle_down()
    assert await readable(world, 0) == (messages, 0)
    await tick(world)
    assert await readable(world, 0) == (messages[3:], 3)


async def test_only_who_is_too_late_misses_something(world):
    await configure(world, retention_seconds=2.5, retention_drops_unread=True)
    messages = await fill(world, 6)
    await world.broker.groups.create(b"t", b"late", FromMessage(0, 1))
    assert await consume(world, 6) == messages
    await tick(world)
    assert await readable(world, 0) == (messages[4:], 4)
    late = state_of(world, b"late")
    assert (late.missed_count, late.head_seq) == (3, 4)
    assert state_of(world, b"default").missed_count == 0
    assert (await world.broker.inspect.stats(b"t"))["missed"] == 3
    await world.restart()
    assert state_of(world, b"late").missed_count == 3
    assert await payloads(world, b"late") == messages[4:]


async def test_a_group_begins_where_what_is_kept_has_come_to_its_end_and_no_tick_was_since(world):
    await world.publish(b"t", b"before")
    await consume(world, 1)
    await configure(world, retention="forever")
    await configure(world)
    await fill(world, 3)
    await consume(world, 3)
    await world.broker.groups.create(b"t", b"g")
    assert await payloads(world, b"g") == []
    assert await world.broker.groups.seek(b"t", b"g", FromMessage(0, 1)) == (0, 0)
