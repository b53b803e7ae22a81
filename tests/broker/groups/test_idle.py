"""Groups without consumers: they are logged, and deleted if the settings of their topic say so."""

import pytest
import structlog.testing

from miniqueue.core.options.start import Edge
from miniqueue.errors.requests import InvalidSettingError
from tests.broker.groups.test_groups import chunk_count, payloads, receive
from tests.broker.support import World, world_with
from tests.fakes import FakeConsumer, settle_down

DAY = 86_400


async def pass_seconds(world: World, seconds: float) -> list[dict]:
    """Advance the clock; return what is logged."""
    with structlog.testing.capture_logs() as logged:
        world.clock.advance(seconds)
        world.broker.tick()
        await settle_down()
    return [entry for entry in logged if "no client reads" in entry["event"]]


async def groups_of(world: World) -> dict[bytes, int]:
    """Return for how long each group has been without consumers."""
    return {group.name: group.unread_seconds async for group in world.broker.groups.figures(b"t")}


async def create(world: World, *groups: bytes, **settings: object) -> None:
    await world.broker.admin.create(b"t", settings).wait()
    for group in groups:
        await world.broker.groups.create(b"t", group)
    await pass_seconds(world, 60)  # who was made since the last look counts as read


async def test_a_group_that_nobody_reads_is_deleted_and_its_messages_go(world):
    await create(world, b"g", group_idle_seconds=100)
    await world.publish(b"t", b"x")
    assert await payloads(world, b"default") == [b"x"]
    assert await pass_seconds(world, 99) == []
    assert await groups_of(world) == {b"default": 0, b"g": 99}
    assert chunk_count(world) == 1
    (told,) = await pass_seconds(world, 60)
    assert (told["topic"], told["group"], told["unread_seconds"], told["messages"]) == (b"t", b"g", 159, 1)
    assert list(await groups_of(world)) == [b"default"]
    await world.commit()
    await settle_down()
    assert chunk_count(world) == 0
    await world.restart()
    assert list(await groups_of(world)) == [b"default"]


async def test_a_group_is_read_by_a_consumer_a_request_and_a_lease(world):
    await create(world, b"asks", b"leases", b"waits", group_idle_seconds=100)
    await world.publish(b"t", b"x")
    waiting = FakeConsumer(world.broker, b"t", b"waits")
    waiting.consumer.request()
    ((receipt, _),) = await receive(world, b"leases")
    for _ in range(5):
        await payloads(world, b"asks")
        world.broker.leases.extend(b"t", [receipt], 1000)
        await pass_seconds(world, 90)
    unread = await groups_of(world)
    assert unread == {b"asks": 0, b"default": 450, b"leases": 0, b"waits": 0}
    world.broker.leases.ack(b"t", [receipt])
    waiting.consumer.close()
    for _ in range(3):
        await pass_seconds(world, 90)
    assert list(await groups_of(world)) == [b"default"]


async def test_the_last_group_of_a_topic_stays(world):
    await create(world, b"g", b"h", group_idle_seconds=60)
    await world.broker.groups.delete(b"t", b"default")
    for _ in range(3):
        await pass_seconds(world, 60)
    assert len(await groups_of(world)) == 1


async def test_groups_stay_for_ever_unless_their_topic_wants_otherwise(world):
    await create(world, b"g")
    await pass_seconds(world, 1e6)
    assert list(await groups_of(world)) == [b"default", b"g"]


@world_with(period_seconds=1000)
async def test_time_in_which_the_broker_does_not_run_does_not_count(world):
    await create(world, b"g", group_idle_seconds=5000)
    await pass_seconds(world, 1e6)  # the process was stopped: two periods count
    assert (await groups_of(world))[b"g"] == 2000
    await world.restart()
    world.clock.advance(1e6)
    await pass_seconds(world, 60)
    await pass_seconds(world, 60)
    assert (await groups_of(world))[b"g"] == 60


async def test_each_day_the_group_is_told_of_that_nobody_reads_and_that_holds_back_the_most(world):
    await create(world, b"g", b"late")
    await world.publish(b"t", b"x", b"y")
    await world.broker.groups.seek(b"t", b"late", Edge.LATEST)
    assert await payloads(world, b"g") == [b"x", b"y"]
    await pass_seconds(world, 60)
    assert await pass_seconds(world, DAY - 120) == []
    (told,) = await pass_seconds(world, 60)
    assert (told["topic"], told["group"], told["messages"]) == (b"t", b"default", 2)
    assert (await world.broker.inspect.stats(b"t"))["unread_seconds"] == DAY
    assert await pass_seconds(world, DAY - 60) == []
    (told,) = await pass_seconds(world, 60)
    assert told["unread_seconds"] == 2 * DAY
    await receive(world, b"default", 1)
    await pass_seconds(world, 60)
    assert (await world.broker.inspect.stats(b"t"))["unread_seconds"] == 0


async def test_a_topic_with_one_group_and_one_without_messages_are_not_told_of(world):
    await create(world)
    await world.publish(b"t", b"x")
    await world.broker.groups.create(b"u", b"g")
    await world.broker.groups.create(b"u", b"h")
    assert await pass_seconds(world, 60) == []
    assert await pass_seconds(world, 3 * DAY) == []


@pytest.mark.parametrize("seconds", [-1, 59, 1e10, "x"])
async def test_a_time_that_is_shorter_than_a_minute_is_refused(seconds, world):
    with pytest.raises(InvalidSettingError, match="group_idle_seconds must be 0, never, or"):
        world.broker.admin.create(b"t", {"group_idle_seconds": seconds})
