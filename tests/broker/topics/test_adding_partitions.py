"""Topics that begin with many partitions, or get many more: these are made in turns, in which others act."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from miniqueue.broker.model import new_partitions
from miniqueue.core.options.start import Edge
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.settings import DEFAULT_SETTINGS
from miniqueue.errors import InternalError, UnavailableError
from miniqueue.errors.requests import InvalidSettingError, TopicExistsError, UnknownTopicError
from tests.broker.groups.test_groups import payloads
from tests.broker.groups.test_many_partitions_meanwhile import LATER, check, interrupted, names, publish
from tests.broker.support import World, started_world
from tests.fakes import settle_down

PARTITIONS = 9
#: Iterations after which nothing is left to be interrupted.
MOST = 24

Act = Callable[[World], Awaitable[object]]


@pytest.fixture(autouse=True)
def _few_in_turn(monkeypatch):
    monkeypatch.setattr(new_partitions, "CURSORS_IN_TURN", 2)


async def carry_out(world: World, word: str, settings: object) -> None:
    """Do an act of the administrator, whose partitions are made before."""
    admin = world.broker.admin
    done = await admin.carry_out(partial(getattr(admin, word), b"t", settings))
    await (done[0] if isinstance(done, tuple) else done).wait()


MANY = {"partitions": PARTITIONS}
CREATIONS: dict[str, Act] = {
    "create": lambda world: carry_out(world, "create", MANY),
    "replace": lambda world: carry_out(world, "replace", MANY),
    "assume": lambda world: carry_out(world, "assume", DEFAULT_SETTINGS._replace(**MANY)),
}
GROWTHS: dict[str, Act] = {
    "change": lambda world: carry_out(world, "change", MANY),
    "replace": lambda world: carry_out(world, "replace", MANY),
    "assume": lambda world: carry_out(world, "assume", DEFAULT_SETTINGS._replace(**MANY)),
}
EACH_CREATION = pytest.mark.parametrize("name", CREATIONS)
EACH_GROWTH = pytest.mark.parametrize("name", GROWTHS)
EACH_TURN = pytest.mark.parametrize("turns", range(0, MOST, 3))


async def filled(world: World) -> None:
    """Make a topic of two partitions, which three groups read."""
    await world.broker.admin.create(b"t", {"partitions": 2}).wait()
    await world.broker.groups.create(b"t", b"old")
    await world.broker.groups.create(b"t", b"done")
    await publish(world, [b"first"])


def counts(world: World) -> set[int]:
    """Return how many partitions the topic has, by its settings, and by what is in memory."""
    topic = world.broker._engine.topics.by_name[b"t"]
    return {topic.settings.partitions, topic.partition_count, len(topic.partitions)} | {
        len(group.cursors) for group in topic.existing_groups
    }


async def check_reading(world: World, groups: set[bytes], first: list[bytes]) -> None:
    """Check that each group gets what was published, and what is published now to all partitions."""
    await check(world)
    assert await names(world) == groups
    await publish(world, LATER)
    for group in groups:
        got: list[bytes] = []
        while some := await payloads(world, group):
            got += some
            await settle_down()
        assert sorted(got) == sorted([*first, *LATER]), group
    await check(world)


@EACH_TURN
@EACH_CREATION
async def test_a_topic_that_is_created_meanwhile_is_left_alone(name, turns, world):
    async def create(world: World) -> None:
        world.broker.publish(b"t", [b"first"])
        await world.commit()

    result = await interrupted(world, CREATIONS[name], turns, create)
    assert result is None or (name == "create" and isinstance(result, TopicExistsError))
    assert counts(world) == ({PARTITIONS} if result is None else {1})
    await check_reading(world, {b"default"}, [b"first"])


@EACH_TURN
@EACH_GROWTH
async def test_groups_that_come_and_go_meanwhile_read_the_new_partitions(name, turns, world):
    async def regroup(world: World) -> None:
        await asyncio.gather(
            world.broker.groups.delete(b"t", b"default"),
            world.broker.groups.create(b"t", b"other"),
            world.broker.groups.seek(b"t", b"done", Edge.EARLIEST),
        )

    await filled(world)
    assert await interrupted(world, GROWTHS[name], turns, regroup) is None
    assert counts(world) == {PARTITIONS}
    await check_reading(world, {b"old", b"done", b"other"}, [b"first"])


@EACH_TURN
@EACH_GROWTH
async def test_partitions_that_are_added_meanwhile_are_not_added_twice(name, turns, world):
    async def grow(world: World) -> None:
        with suppress(InvalidSettingError):  # it has more already
            world.broker.admin.change(b"t", {"partitions": 4})
        await publish(world, [b"second"])

    await filled(world)
    assert await interrupted(world, GROWTHS[name], turns, grow) is None
    assert counts(world) == {PARTITIONS}
    await check_reading(world, {b"default", b"old", b"done"}, [b"first", b"second"])


@EACH_TURN
async def test_a_topic_that_has_more_partitions_by_then_keeps_them(turns, world):
    async def grow(world: World) -> None:
        world.broker.admin.change(b"t", {"partitions": PARTITIONS + 1})

    await filled(world)
    assert isinstance(await interrupted(world, GROWTHS["change"], turns, grow), InvalidSettingError | None)
    assert counts(world) == {PARTITIONS + 1}
    await check_reading(world, {b"default", b"old", b"done"}, [b"first"])


@EACH_TURN
@EACH_GROWTH
async def test_a_topic_that_is_recreated_meanwhile_gets_the_partitions(name, turns, world):
    async def recreate(world: World) -> None:
        deleting = asyncio.ensure_future(world.broker.delete_topic(b"t"))
        await asyncio.sleep(0)
        await world.publish(b"t", b"second")
        await deleting

    await filled(world)
    result = await interrupted(world, GROWTHS[name], turns, recreate)
    assert isinstance(result, UnknownTopicError | None)
    (count,) = counts(world)
    assert count == 1 or (count == PARTITIONS and result is None)
    await check_reading(world, {b"default"}, [b"second"])


@EACH_TURN
@EACH_GROWTH
async def test_a_topic_that_is_deleted_meanwhile_does_not_grow(name, turns, world):
    async def delete(world: World) -> None:
        await world.broker.delete_topic(b"t")

    await filled(world)
    result = await interrupted(world, GROWTHS[name], turns, delete)
    assert isinstance(result, UnknownTopicError | None)
    if name == "change":
        assert world.broker._engine.topics.find(b"t") is None
    assert len(world.broker._engine.topics.by_name) <= 1
    await check(world)


@EACH_TURN
@pytest.mark.parametrize("name", [*CREATIONS, "change"])
async def test_if_the_store_is_reopened_there_are_all_partitions_or_none(name, turns):
    async def fail(world: World) -> None:
        world.broker._engine.journal.distrust(InternalError("a bug"))

    async with started_world() as world:
        if name == "change":
            await filled(world)
        result = await interrupted(world, (CREATIONS | GROWTHS)[name], turns, fail)
        while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
            await asyncio.sleep(0.01)
        assert isinstance(result, UnavailableError | None), repr(result)
        await check(world)
        topic = world.broker._engine.topics.find(b"t")
        assert topic is not None or (result is not None and name != "change")
        if topic is not None:
            assert counts(world) in ({PARTITIONS}, {2} if result is not None and name == "change" else {PARTITIONS})
            is_new = name != "change"
            await check_reading(world, {b"default"} | (set() if is_new else {b"old", b"done"}), [b"first"][is_new:])


@EACH_TURN
@pytest.mark.parametrize("name", [*CREATIONS, "change"])
async def test_if_the_client_leaves_there_are_all_partitions_or_none(name, turns, world):
    async def act(world: World) -> object:
        task = asyncio.current_task()
        assert task is not None
        leaving.append(task)
        return await (CREATIONS | GROWTHS)[name](world)

    async def leave(_: World) -> None:
        for task in leaving:
            task.cancel()

    leaving: list[asyncio.Task[object]] = []
    if name == "change":
        await filled(world)
    result = await interrupted(world, act, turns, leave)
    assert isinstance(result, asyncio.CancelledError | None), repr(result)
    await check(world)
    topic = world.broker._engine.topics.find(b"t")
    assert topic is None or counts(world) == {PARTITIONS} or (name == "change" and counts(world) == {2})
    assert await interrupted(world, GROWTHS["replace"], 0, check) is None  # the next one need not wait for it
    assert counts(world) == {PARTITIONS}
    await check(world)


async def test_partitions_are_made_for_one_act_at_a_time(world):
    admin, tried = world.broker.admin, []

    def create(number: int, made: new_partitions.NewPartitions) -> object:
        tried.append(number)
        return admin.create(b"t%d" % number, MANY, made)

    await asyncio.gather(*(admin.carry_out(partial(create, number)) for number in range(3)))
    assert tried == [0, 0, 1, 2, 0, 1, 1, 2, 2]  # each at once, before its partitions are made, and after that
    await check(world)


async def test_an_act_that_is_refused_makes_nothing(world, monkeypatch):
    monkeypatch.setattr(new_partitions.NewPartitions, "making", lambda *_: pytest.fail("partitions were made"))
    await filled(world)
    with pytest.raises(TopicExistsError):
        await carry_out(world, "create", MANY)
    with pytest.raises(InvalidSettingError):
        await carry_out(world, "change", MANY | {"dead_letter_topic": b"\x00"})


def wide_by_default(world: World) -> None:
    world.broker.set_defaults(TopicDefaults({"t": MANY}))


async def create_group(world: World) -> None:
    await world.broker.groups.create(b"t", b"new")


async def test_a_group_comes_with_a_topic_that_has_many_partitions_by_default(world):
    wide_by_default(world)
    await create_group(world)
    assert counts(world) == {PARTITIONS}
    await check_reading(world, {b"new"}, [])


@EACH_TURN
async def test_if_the_topic_of_a_new_group_is_created_meanwhile_the_group_is_in_that(turns, world):
    async def create(world: World) -> None:
        published = await world.broker.backpressure.admit(partial(world.broker.publish, b"t", [b"first"]))
        await published.commit.wait()

    wide_by_default(world)
    assert await interrupted(world, create_group, turns, create) is None
    assert counts(world) == {PARTITIONS}
    assert await names(world) in ({b"new"}, {b"new", b"default"})
    await check_reading(world, await names(world), [b"first"])


@EACH_TURN
async def test_if_the_store_is_reopened_meanwhile_the_group_is_there_or_nothing(turns):
    async def fail(world: World) -> None:
        world.broker._engine.journal.distrust(InternalError("a bug"))

    async with started_world() as world:
        wide_by_default(world)
        result = await interrupted(world, create_group, turns, fail)
        while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
            await asyncio.sleep(0.01)
        assert isinstance(result, UnavailableError | None), repr(result)
        topic = world.broker._engine.topics.find(b"t")
        assert topic is not None or result is not None
        if topic is not None:
            assert counts(world) == {PARTITIONS}
            await check_reading(world, {b"new"}, [])


@EACH_TURN
async def test_if_its_client_leaves_meanwhile_the_group_is_there_or_nothing(turns, world):
    async def act(world: World) -> object:
        task = asyncio.current_task()
        assert task is not None
        leaving.append(task)
        return await create_group(world)

    async def leave(_: World) -> None:
        for task in leaving:
            task.cancel()

    leaving: list[asyncio.Task[object]] = []
    wide_by_default(world)
    result = await interrupted(world, act, turns, leave)
    assert isinstance(result, asyncio.CancelledError | None), repr(result)
    if world.broker._engine.topics.find(b"t") is None:
        await create_group(world)
    assert counts(world) == {PARTITIONS}
    await check_reading(world, {b"new"}, [])
