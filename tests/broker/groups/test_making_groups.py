"""Which groups a topic may have: those that begin by being used, only those that were created, and not default."""

import pytest

from miniqueue.errors.requests import InvalidGroupError, InvalidSettingError, UnknownGroupError
from tests.broker.groups.test_groups import chunk_count, payloads, receive
from tests.broker.support import World
from tests.fakes import FakeConsumer, settle_down


async def create(world: World, **settings: object) -> None:
    await world.broker.admin.create(b"t", settings).wait()


async def group_names(world: World) -> list[bytes]:
    await settle_down()
    return [group.name async for group in world.broker.groups.figures(b"t")]


async def test_a_group_that_must_be_created_does_not_begin_by_being_used(world):
    await create(world, auto_create_groups=False)
    await world.publish(b"t", b"x")
    with pytest.raises(UnknownGroupError, match="group typo: there is none"):
        await receive(world, b"typo")
    with pytest.raises(UnknownGroupError):
        FakeConsumer(world.broker, b"t", b"typo")
    assert await group_names(world) == [b"default"]
    await world.broker.groups.create(b"t", b"g")
    assert await payloads(world, b"g") == [b"x"]
    assert await payloads(world, b"default") == [b"x"]
    await world.restart()
    with pytest.raises(UnknownGroupError):
        await receive(world, b"typo")


async def test_a_default_group_that_was_deleted_does_not_begin_again_by_being_used(world):
    await create(world, auto_create_groups=False)
    await world.broker.groups.create(b"t", b"g")
    await world.broker.groups.delete(b"t", b"default")
    with pytest.raises(UnknownGroupError):
        await receive(world, b"default")


async def test_who_waits_for_a_topic_in_a_group_that_must_be_created_is_told_when_it_is_made(world):
    stream, asker = (FakeConsumer(world.broker, b"t", name) for name in (b"g", b"default"))
    stream.consumer.request()
    asker.consumer.request()
    await create(world, auto_create_groups=False)
    assert [type(error) for error in stream.errors] == [UnknownGroupError]
    assert not stream.consumer.is_waiting
    assert asker.errors == []
    assert await group_names(world) == [b"default"]
    stream.consumer.request()  # once more
    assert len(stream.errors) == 2
    await world.broker.groups.create(b"t", b"g")
    stream.consumer.request()
    await world.publish(b"t", b"x")
    await settle_down()
    assert stream.payloads == asker.payloads == [b"x"]


async def test_a_consumer_that_was_there_before_the_topic_began_anew_is_told(world):
    await world.publish(b"t", b"x")
    stream = FakeConsumer(world.broker, b"t", b"g")
    assert await stream.drain_all() == [b"x"]
    await world.broker.delete_topic(b"t")
    await create(world, auto_create_groups=False)
    assert [type(error) for error in stream.errors] == [UnknownGroupError]
    assert await group_names(world) == [b"default"]


async def test_a_setting_that_changes_ends_no_group(world):
    await world.publish(b"t", b"x")
    assert await payloads(world, b"g") == [b"x"]
    await world.broker.admin.change(b"t", {"auto_create_groups": False}).wait()
    await world.publish(b"t", b"y")
    assert await payloads(world, b"g") == [b"y"]
    assert await group_names(world) == [b"default", b"g"]


@pytest.mark.parametrize("is_created", [False, True])
async def test_a_topic_without_default_keeps_messages_for_its_first_group_and_no_longer(is_created, world):
    await create(world, default_group=False)
    await world.publish_each(b"t", b"1", b"2")
    with pytest.raises(UnknownGroupError, match="made without it"):
        world.consumer(b"t")
    if is_created:
        await world.broker.groups.create(b"t", b"g")
    assert await payloads(world, b"g") == [b"1", b"2"]
    await settle_down()
    assert await group_names(world) == [b"g"]
    assert chunk_count(world) == 0
    await world.restart()
    assert await group_names(world) == [b"g"]
    await world.publish_each(b"t", b"3")
    assert await payloads(world, b"g") == [b"3"]
    assert chunk_count(world) == 0
    with pytest.raises(UnknownGroupError):
        await receive(world, b"default")
    with pytest.raises(InvalidGroupError):
        await world.broker.groups.create(b"t", b"default")


async def test_a_topic_without_default_keeps_messages_over_a_restart_before_its_first_group(world):
    await create(world, default_group=False)
    await world.publish_each(b"t", b"1")
    await world.restart()
    with pytest.raises(UnknownGroupError):
        world.consumer(b"t")
    assert await payloads(world, b"g") == [b"1"]
    assert await group_names(world) == [b"g"]


async def test_a_topic_without_default_begins_with_the_groups_that_wait_for_it(world):
    stream = FakeConsumer(world.broker, b"t", b"g")
    stream.consumer.request()
    await create(world, default_group=False)
    await world.publish(b"t", b"x")
    await settle_down()
    assert stream.payloads == [b"x"]
    assert await group_names(world) == [b"g"]


async def test_only_a_new_topic_can_be_without_default(world):
    await world.publish(b"t", b"x")
    for act in (world.broker.admin.change, world.broker.admin.replace):
        with pytest.raises(InvalidSettingError, match="only a new one"):
            act(b"t", {"default_group": False})
    waiting = world.consumer(b"u")
    with pytest.raises(InvalidSettingError, match="while consumers wait"):
        world.broker.admin.create(b"u", {"default_group": False})
    assert b"u" not in world.broker.topics()
    waiting.consumer.close()
    world.broker.admin.create(b"u", {"default_group": False})
    world.broker.admin.replace(b"u", {"lease_seconds": 5})
    assert world.broker.admin.settings_of(b"u").default_group is False
