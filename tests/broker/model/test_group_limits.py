"""How many groups a topic may have, and how many schedules there may be; who is refused leaves nothing behind."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors import LimitReachedError, MiniqueueError
from miniqueue.errors.requests import InvalidGroupError, InvalidMemberError
from tests.broker.groups.test_groups import payloads
from tests.broker.support import World, world_with
from tests.fakes import settle_down


def ask(world: World, topic: bytes, group: bytes, member: bytes = b"") -> None:
    world.broker.leases.receive(topic, ReceiveOptions(1, group=group, member=member), print, print)


@world_with(limits=BrokerLimits(max_groups=2))
async def test_one_group_too_many_is_refused_and_the_others_go_on(world):
    await world.publish(b"t", b"1")
    await world.broker.groups.create(b"t", b"a")
    with pytest.raises(LimitReachedError, match="as many groups as it may have, 2"):
        await world.broker.groups.create(b"t", b"b")
    with pytest.raises(LimitReachedError):
        ask(world, b"t", b"b")
    with pytest.raises(LimitReachedError):
        world.broker.consumer(b"t", print, print, group=b"b")
    assert world.broker.limit_counts.counts == {Limit.GROUPS: 3}
    assert await payloads(world, b"a") == [b"1"]
    await world.broker.groups.delete(b"t", b"default")
    await world.broker.groups.create(b"t", b"b")
    await world.restart()
    with pytest.raises(LimitReachedError):
        ask(world, b"t", b"c")


@world_with(limits=BrokerLimits(max_groups=2))
async def test_groups_that_somebody_waits_in_count_also_where_there_is_no_topic(world):
    consumers = [world.broker.consumer(b"t", print, print, group=group) for group in (b"a", b"b")]
    with pytest.raises(LimitReachedError):
        world.broker.consumer(b"t", print, print, group=b"c")
    consumers[0].close()
    world.broker.consumer(b"t", print, print, group=b"c").close()


@world_with(limits=BrokerLimits(max_groups=2))
async def test_the_default_group_is_one_too_many_like_any_other_where_it_is_not_there(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    with pytest.raises(LimitReachedError):
        ask(world, b"t", b"default")
    with pytest.raises(LimitReachedError):
        world.broker.consumer(b"t", print, print)
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"a", b"b"]
    await world.broker.groups.delete(b"t", b"b")
    await world.publish(b"t", b"1")
    assert await payloads(world, b"default") == [b"1"]


@pytest.mark.parametrize(
    ("group", "member", "refusal"),
    [
        (b"a b", b"", InvalidGroupError),
        (b"x" * 256, b"", InvalidGroupError),
        (b"\xff", b"", InvalidGroupError),
        (b"", b"", InvalidGroupError),
        (b"a", b"no name", InvalidMemberError),
        (b"second", b"", LimitReachedError),
    ],
)
@world_with(limits=BrokerLimits(max_groups=1))
async def test_who_is_refused_leaves_neither_a_topic_nor_a_group_behind(group, member, refusal, world):
    waiting = world.broker.consumer(b"t", print, print, group=b"first")
    topic = b"t" if refusal is LimitReachedError else b"unknown"
    for act in (
        lambda: ask(world, topic, group, member),
        lambda: world.broker.consumer(topic, print, print, group=group, member=member),
    ):
        with pytest.raises(refusal):
            act()
    assert set(world.broker._engine.topics.by_name) == {b"t"}
    assert set(world.broker._engine.topics.by_name[b"t"].groups) == {b"default", b"first"}
    waiting.close()
    assert not world.broker._engine.topics.by_name


@world_with(limits=BrokerLimits(max_schedules=1))
async def test_one_schedule_too_many_is_refused_and_one_that_is_there_can_be_changed(world):
    hourly = Schedule(b"t", b"", every_ms=3_600_000)
    await world.broker.scheduler.set(b"a", hourly)[0].wait()
    with pytest.raises(LimitReachedError, match="as many schedules as there may be, 1"):
        world.broker.scheduler.set(b"b", hourly)
    assert world.broker.limit_counts.counts == {Limit.SCHEDULES: 1}
    await world.broker.scheduler.set(b"a", hourly)[0].wait()
    await world.restart()
    with pytest.raises(MiniqueueError):
        world.broker.scheduler.set(b"b", hourly)
    await world.broker.scheduler.delete(b"a").wait()
    await world.broker.scheduler.set(b"b", hourly)[0].wait()
    await settle_down()
