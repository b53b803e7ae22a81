"""The statistics of one group, and the messages that it alone loses."""

import pytest

from miniqueue.broker.inspect import rates
from miniqueue.broker.inspect.peeked import State
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import FromMessage
from miniqueue.core.statistics import TICKS
from miniqueue.errors.requests import UnknownGroupError
from tests.broker.groups.test_groups import lag, payloads, receive
from tests.broker.inspect.test_statistics import look
from tests.broker.support import World
from tests.loops import CalmLoop, on_loop


async def position(world: World, group: bytes) -> dict[int, int]:
    return (await world.broker.groups.figures_of(b"t", group)).position


async def test_a_position_is_the_first_message_that_is_not_settled(world):
    await world.broker.groups.create(b"t", b"a")
    await world.publish(b"t", *[b"%d" % n for n in range(5)])
    await world.publish(b"t", b"5", b"6")
    assert await position(world, b"a") == {0: 0}
    taken = [receipt for receipt, _ in await receive(world, b"a")]
    assert await position(world, b"a") == {0: 0}
    world.broker.leases.ack(b"t", [taken[0], taken[1], taken[3]])
    assert await position(world, b"a") == {0: 2}
    world.broker.leases.ack(b"t", [taken[2]])
    assert await position(world, b"a") == {0: 4}
    await world.restart()
    assert await position(world, b"a") == {0: 4}
    assert await payloads(world, b"a") == [b"4", b"5", b"6"]
    assert await position(world, b"a") == {0: 7}


async def test_a_group_that_begins_within_a_chunk_is_there(world):
    await world.publish(b"t", *[b"%d" % n for n in range(5)])
    await world.broker.groups.create(b"t", b"a", FromMessage(0, 3))
    assert await position(world, b"a") == {0: 3}


async def test_a_purge_for_a_group_takes_from_no_other_nor_what_is_not_due(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"1", b"2", b"3")
    await world.broker.publish_with(b"t", b"later", PublishOptions(delay_seconds=60)).commit.wait()
    for group in (b"a", b"b"):
        (first, *_) = [receipt for receipt, _ in await receive(world, group)]
        world.broker.leases.nack(b"t", [first])
    await world.restart()
    assert (world.broker.inspect.depth(b"t"), world.broker.inspect.depth(b"t", b"a")) == (4, 3)
    assert await world.broker.purge(b"t", group=b"a") == 3
    assert (await lag(world, b"a"), await lag(world, b"b")) == (0, 3)
    await world.restart()
    assert (await lag(world, b"a"), await lag(world, b"b")) == (0, 3)
    assert await world.broker.purge(b"t", State.DELAYED, group=b"b") == 0
    assert (await payloads(world, b"a"), await payloads(world, b"b")) == ([], [b"1", b"2", b"3"])
    with pytest.raises(UnknownGroupError):
        await world.broker.purge(b"t", group=b"c")
    with pytest.raises(UnknownGroupError):
        world.broker.inspect.depth(b"t", b"c")
    assert world.broker.inspect.depth(b"t") == 1


async def rate(world: World, group: bytes) -> float | None:
    return (await world.broker.groups.figures_of(b"t", group)).ack_rate_10s


async def settle(world: World, group: bytes, count: int) -> None:
    """Acknowledge messages as a group."""
    receipts = [receipt for receipt, _ in await receive(world, group)]
    world.broker.leases.ack(b"t", receipts[:count])
    world.broker.leases.nack(b"t", receipts[count:])
    await world.commit()


@on_loop(CalmLoop)
async def test_each_group_has_its_own_rate(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", *[b"x"] * 60)
    await look(world, 1)
    assert (await rate(world, b"a"), await rate(world, b"b")) == (0, 0)
    await settle(world, b"a", 40)
    await settle(world, b"b", 10)
    await look(world, 2)
    assert (await rate(world, b"a"), await rate(world, b"b")) == (20, 5)  # there are but two seconds to look back at
    await settle(world, b"a", 20)
    await look(world, 10)
    assert (await rate(world, b"a"), await rate(world, b"b")) == (6, 1)
    await look(world, 20)
    assert (await rate(world, b"a"), await rate(world, b"b")) == (0, 0)


@on_loop(CalmLoop)
async def test_a_single_group_has_the_rate_of_the_topic(world):
    await world.publish(b"t", *[b"x"] * 10)
    await look(world, 1)
    await settle(world, b"default", 10)
    await look(world, 2)
    assert await rate(world, b"default") == 5
    pulse = world.broker._engine.topics.by_name[b"t"].pulse
    assert pulse.groups == {}


@on_loop(CalmLoop)
async def test_of_a_quiet_topic_and_of_a_deleted_group_no_rate_is_kept(world):
    for group in (b"a", b"b", b"c"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"x")
    await look(world, 1)
    pulse = world.broker._engine.topics.by_name[b"t"].pulse
    assert len(pulse.groups) == 3
    await world.broker.groups.delete(b"t", b"c")
    await settle(world, b"a", 1)
    await look(world, 2)
    assert len(pulse.groups) == 2
    await look(world, 2 + TICKS)
    assert pulse.groups == {}


@on_loop(CalmLoop)
async def test_the_groups_of_a_topic_with_very_many_have_no_rates(world, monkeypatch):
    monkeypatch.setattr(rates, "MAX_GROUPS", 2)
    for group in (b"a", b"b", b"c"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"x")
    await look(world, 1)
    await settle(world, b"a", 1)
    await look(world, 2)
    assert await rate(world, b"a") is None
    assert world.broker._engine.topics.by_name[b"t"].pulse.groups == {}
