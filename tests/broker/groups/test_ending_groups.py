"""Groups that end with their last consumer, or after a time of their own."""

import pytest

from miniqueue.broker.model.topic import BY_GROUP_BYTES
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.fields import MAX_OWN_GROUPS
from miniqueue.core.settings.group_options import EPHEMERAL_SECONDS, GroupOptions, parse_group_options
from miniqueue.errors import InvalidDelayError, MemoryLimitError, RequestError
from miniqueue.errors.requests import InvalidGroupError, InvalidSettingError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.groups.test_groups import payloads, receive
from tests.broker.groups.test_idle import pass_seconds
from tests.broker.support import World
from tests.fakes import FakeConsumer

IDLE = GroupOptions(idle_seconds=10).own_settings
EPHEMERAL = GroupOptions(is_ephemeral=True).own_settings
AT_ONCE = GroupOptions(is_ephemeral=True, idle_seconds=0).own_settings


async def create(world: World, own, **settings: object) -> None:
    await world.broker.admin.create(b"t", settings).wait()
    await pass_seconds(world, 1)
    for _ in range(60):  # a minute after the start
        await pass_seconds(world, 1)
    await world.broker.groups.create(b"t", b"g", own=own)
    await pass_seconds(world, 1)


async def names(world: World) -> list[bytes]:
    return [group.name async for group in world.broker.groups.figures(b"t")]


async def pass_each(world: World, count: int) -> None:
    for _ in range(count):
        await pass_seconds(world, 1)


async def test_a_group_ends_after_its_own_time_whatever_its_topic_says(world):
    await create(world, IDLE, group_idle_seconds=100)
    await pass_each(world, 9)
    assert await names(world) == [b"default", b"g"]
    await pass_each(world, 1)
    assert await names(world) == [b"default"]
    assert world.broker.admin.settings_of(b"t").idle_groups == ()
    await world.restart()
    assert await names(world) == [b"default"]


async def test_an_ephemeral_group_ends_with_its_last_consumer(world):
    await create(world, EPHEMERAL)
    await pass_each(world, 20)
    assert await names(world) == [b"default", b"g"]  # it has had no consumer yet
    first, second = FakeConsumer(world.broker, b"t", b"g"), FakeConsumer(world.broker, b"t", b"g")
    first.consumer.close()
    await pass_each(world, 20)
    second.consumer.close()
    await pass_each(world, int(EPHEMERAL_SECONDS))
    assert await names(world) == [b"default", b"g"]  # a worker may connect again
    third = FakeConsumer(world.broker, b"t", b"g")
    await pass_each(world, 1)
    third.consumer.close()
    await pass_each(world, 1 + int(EPHEMERAL_SECONDS))
    assert await names(world) == [b"default"]


async def test_a_lease_keeps_an_ephemeral_group_and_without_a_grace_it_ends_with_the_next_tick(world):
    await create(world, AT_ONCE)
    await world.publish(b"t", b"a")
    ((receipt, _),) = await receive(world, b"g")
    await pass_each(world, 20)
    assert await names(world) == [b"default", b"g"]
    assert world.broker.leases.ack(b"t", [receipt]) == [True]
    await pass_each(world, 2)
    assert await names(world) == [b"default"]


async def test_after_a_restart_consumers_have_a_minute_to_come_back(world):
    await create(world, EPHEMERAL)
    await payloads(world, b"g")
    await world.restart()
    await pass_each(world, 58)
    assert await names(world) == [b"default", b"g"]
    await pass_each(world, 3)
    assert await names(world) == [b"default"]


async def test_a_group_that_is_made_again_has_no_settings_of_the_one_before(world):
    await create(world, IDLE)
    await world.broker.groups.delete(b"t", b"g")
    await world.broker.groups.create(b"t", b"g")
    await pass_each(world, 20)
    assert await names(world) == [b"default", b"g"]


async def test_a_topic_that_is_deleted_is_not_checked_any_more(world):
    await create(world, IDLE)
    topic = world.broker._engine.topics.by_name[b"t"]
    assert await world.broker.delete_topic(b"t")
    await pass_each(world, 2)
    assert topic not in world.broker.groups._idle._timed


async def test_new_settings_of_a_topic_keep_those_of_its_groups(world):
    await create(world, IDLE)
    await world.broker.admin.replace(b"t", {"max_deliveries": 5})[0].wait()
    assert world.broker.admin.settings_of(b"t").idle_groups == (("g", 10.0),)


async def test_the_group_default_and_too_many_groups_have_no_settings_of_their_own(world):
    with pytest.raises(InvalidGroupError, match="group default: it does not end"):
        await world.broker.groups.create(b"t", b"default", own=IDLE)
    many = [(str(number), 5.0) for number in range(MAX_OWN_GROUPS)]
    await world.broker.admin.create(b"t", {"idle_groups": many}).wait()
    with pytest.raises(InvalidSettingError, match="idle_groups must be at most 1000 names of groups"):
        await world.broker.groups.create(b"t", b"g", own=IDLE)
    assert b"g" not in await names(world)


async def test_values_by_group_are_memory_of_the_broker(world):
    """A topic can have three thousand, with names of 255 bytes: no account paid for them."""
    admin, memory = world.broker.admin, world.broker.memory
    await admin.create(b"t", {}).wait()
    before = memory.amounts()[Purpose.TOPICS]
    own = {f"{number:0255}": 5.0 for number in range(MAX_OWN_GROUPS)}
    await admin.change(b"t", {"idle_groups": own}).wait()
    assert memory.amounts()[Purpose.TOPICS] - before == MAX_OWN_GROUPS * BY_GROUP_BYTES
    account = memory.connect("here")
    account.set_limit(1, "-max-memory")
    account.add(Purpose.INPUT, 10)
    CURRENT_ACTOR.set(Actor("here", 1, account=account))
    with pytest.raises(MemoryLimitError):
        admin.change(b"t", {"ephemeral_groups": own})
    with pytest.raises(MemoryLimitError):
        admin.replace(b"t", {"ephemeral_groups": own})
    await admin.pause_group(b"t", b"default").wait()  # a group can be paused nevertheless
    await admin.change(b"t", {"idle_groups": None}).wait()
    assert memory.amounts()[Purpose.TOPICS] - before == BY_GROUP_BYTES
    account.add(Purpose.INPUT, -10)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"idle": b"0"}, InvalidDelayError),
        ({"idle": b"x"}, InvalidDelayError),
        ({"idle": b"-1", "ephemeral": b"true"}, InvalidDelayError),
        ({"ephemeral": b"yes"}, RequestError),
    ],
)
def test_options_that_cannot_be_are_refused(options, error):
    with pytest.raises(error):
        parse_group_options(options)


@pytest.mark.parametrize("value", [[["a", 5], ["a", 6]], [["a b", 5]], [["a", 0]], [["a"]], [[5, 5]], 5, [["a", True]]])
def test_numbers_by_group_are_pairs_of_a_name_and_a_number(value):
    with pytest.raises(InvalidSettingError):
        topic_settings.of_members({"idle_groups": value})


def test_numbers_by_group_are_told_as_they_can_be_set():
    settings = topic_settings.of_members({"idle_groups": {"b": 5, "a,1:2": 0.5 + 1}})
    text = topic_settings.text_of(settings.idle_groups)
    assert text == "a,1:2 1.5 b 5"
    assert topic_settings.of_members(topic_settings.parse_texts(["idle_groups", text])) == settings
    with pytest.raises(InvalidSettingError):
        topic_settings.parse_texts(["idle_groups", "a 5 b"])
    paused = topic_settings.of_members(topic_settings.parse_texts(["paused_groups", "a 1700000000000"]))
    assert paused.paused_groups == (("a", 1_700_000_000_000),)
    for dated in ({"paused_groups": {"a": "2023-11-14T22:13:20Z"}}, ["paused_groups", "a 2023-11-14T22:13:20Z"]):
        members = topic_settings.parse_texts(dated) if isinstance(dated, list) else dated
        assert topic_settings.of_members(members) == paused
    assert topic_settings.parse_texts(["ephemeral_groups", "a 1m30s"]) == {"ephemeral_groups": [("a", 90.0)]}
