"""Groups over many partitions: their cursors are made, and their data is deleted, in turns in which others act."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from miniqueue.broker.groups import cleanup, new_cursors
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import InternalError, MiniqueueError, UnavailableError
from miniqueue.errors.requests import UnknownGroupError, UnknownTopicError
from miniqueue.storage.format import groups
from tests.broker.groups.test_groups import chunk_count, payloads
from tests.broker.support import World, started_world
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of

PARTITIONS = 9
#: Iterations after which nothing is left to be interrupted.
MOST = 40
FIRST = [b"first %d" % number for number in range(20)]
LATER = [b"later %d" % number for number in range(20)]

Act = Callable[[World], Awaitable[object]]
ACTS: dict[str, Act] = {
    "create": lambda world: world.broker.groups.create(b"t", b"new"),
    "create at the end": lambda world: world.broker.groups.create(b"t", b"new", Edge.LATEST),
    "seek to the start": lambda world: world.broker.groups.seek(b"t", b"old", Edge.EARLIEST),
    "seek to the end": lambda world: world.broker.groups.seek(b"t", b"old", Edge.LATEST),
    "delete": lambda world: world.broker.groups.delete(b"t", b"old"),
}


@pytest.fixture(autouse=True)
def _few_in_turn(monkeypatch):
    monkeypatch.setattr(new_cursors, "CURSORS_IN_TURN", 2)
    monkeypatch.setattr(cleanup, "PARTITIONS_IN_TURN", 2)


async def publish(world: World, messages: list[bytes]) -> None:
    """Publish each with a key of its own, so that they are in different partitions."""
    for message in messages:
        world.broker.publish_with(b"t", message, PublishOptions(key=message))
    await world.commit()


async def filled(world: World) -> None:
    """Make a topic that three groups read: one has read nothing, one is in the middle, one has read all."""
    await world.broker.admin.create(b"t", {"partitions": PARTITIONS}).wait()
    await world.broker.groups.create(b"t", b"old")
    await world.broker.groups.create(b"t", b"done")
    await publish(world, FIRST)
    assert sorted(await payloads(world, b"done")) == sorted(FIRST)
    await world.commit()


async def interrupted(world: World, act: Act, turns: int, interrupt: Act) -> object:
    """Begin an act, let `interrupt` act after so many iterations, and return the result or the error of the act."""
    task = asyncio.ensure_future(act(world))
    for _ in range(turns):
        await asyncio.sleep(0)
    await interrupt(world)
    (result,) = await asyncio.gather(task, return_exceptions=True)
    await settle_down()
    return result


async def check(world: World) -> None:
    """Check that nothing is left of what was deleted, now and after a restart."""
    for _ in range(2):
        await settle_down()
        await world.commit()
        assert problems_of(world.store.pairs()) == []
        for topic in world.broker._engine.topics.by_name.values():
            start, stop = groups.purges(topic.id)
            assert [key for key in world.store.pairs() if start <= key < stop] == []
        await world.restart()


async def names(world: World) -> set[bytes]:
    return {group.name async for group in world.broker.groups.figures(b"t")}


EACH_ACT = pytest.mark.parametrize("name", ACTS)
SOME_TURNS = pytest.mark.parametrize("turns", range(0, MOST, 4))
EACH_TURN = pytest.mark.parametrize("turns", range(0, MOST, 2))


@SOME_TURNS
@EACH_ACT
async def test_messages_that_are_published_meanwhile_are_delivered(name, turns, world):
    await filled(world)
    result = await interrupted(world, ACTS[name], turns, lambda world: publish(world, LATER))
    assert not isinstance(result, BaseException)
    group = b"new" if name.startswith("create") else b"old"
    await check(world)
    assert sorted(await payloads(world, b"done")) == sorted(LATER)
    if name == "delete":
        assert await names(world) == {b"default", b"done"}
    else:
        got = await payloads(world, group)
        assert set(LATER) - set(got) == set() or name.endswith("end")
        assert sorted(got) == sorted(set(got))
        assert set(got) - set(LATER) == (set() if name.endswith("end") else set(FIRST))
    await check(world)


@SOME_TURNS
@EACH_ACT
async def test_partitions_that_are_added_meanwhile_are_read(name, turns, world):
    async def grow(world: World) -> None:
        await world.broker.admin.change(b"t", {"partitions": 2 * PARTITIONS}).wait()
        await publish(world, LATER)

    await filled(world)
    result = await interrupted(world, ACTS[name], turns, grow)
    assert not isinstance(result, BaseException)
    group = b"old" if name.startswith("seek") else b"done" if name == "delete" else b"new"
    got: list[bytes] = []
    while some := await payloads(world, group):  # what is in new partitions waits for what is in old ones
        got += some
        await settle_down()
    assert sorted(got) == sorted(set(got))
    assert set(LATER) <= set(got) or name.endswith("end")
    await check(world)


@SOME_TURNS
@EACH_ACT
async def test_groups_that_come_and_go_meanwhile_are_left_alone(name, turns, world):
    async def regroup(world: World) -> None:
        await asyncio.gather(
            world.broker.groups.delete(b"t", b"default"),
            world.broker.groups.create(b"t", b"other"),
            world.broker.groups.seek(b"t", b"done", Edge.EARLIEST),
        )

    await filled(world)
    result = await interrupted(world, ACTS[name], turns, regroup)
    assert not isinstance(result, BaseException)
    ids = [group.id for group in world.broker._engine.topics.by_name[b"t"].existing_groups]
    assert len(ids) == len(set(ids))
    await check(world)
    assert await names(world) - {b"old", b"new"} == {b"other", b"done"}
    counts = {group: len(set(await payloads(world, group))) for group in await names(world)}
    # The group default needed all messages; once it is deleted, some may be gone before another group begins.
    assert set(counts.values()) <= {0, len(FIRST)}
    await world.commit()
    await settle_down()
    assert chunk_count(world) == 0
    await check(world)


@EACH_TURN
@EACH_ACT
async def test_if_the_store_is_reopened_the_act_is_done_or_not(name, turns):
    async def fail(world: World) -> None:
        world.broker._engine.journal.distrust(InternalError("a bug"))

    async with started_world() as world:
        await filled(world)
        result = await interrupted(world, ACTS[name], turns, fail)
        while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
            await asyncio.sleep(0.01)
        assert not isinstance(result, BaseException) or isinstance(result, UnavailableError), repr(result)
        await check(world)
        there = await names(world)
        if not isinstance(result, BaseException):
            assert (b"new" in there, b"old" in there) == (name.startswith("create"), name != "delete")
        for group in sorted(there - {b"done"}):
            assert len(set(await payloads(world, group))) in (0, len(FIRST))
        assert set(await payloads(world, b"default")) == set()
        await check(world)


@EACH_TURN
@EACH_ACT
async def test_if_the_topic_is_recreated_the_new_one_is_left_alone(name, turns, world):
    async def recreate(world: World) -> None:
        deleting = asyncio.ensure_future(world.broker.delete_topic(b"t"))
        await asyncio.sleep(0)
        await world.publish(b"t", *LATER)
        await deleting

    await filled(world)
    result = await interrupted(world, ACTS[name], turns, recreate)
    errors = UnknownTopicError | UnknownGroupError | UnavailableError
    assert not isinstance(result, BaseException) or isinstance(result, errors), repr(result)
    await check(world)
    for group in await names(world):
        assert await payloads(world, group) == LATER
    await check(world)


@SOME_TURNS
@EACH_ACT
async def test_if_the_client_leaves_the_act_is_done_or_not(name, turns, world):
    async def act(world: World) -> object:
        task = asyncio.current_task()
        assert task is not None
        leaving.append(task)
        return await ACTS[name](world)

    async def leave(_: World) -> None:
        for task in leaving:
            task.cancel()

    leaving: list[asyncio.Task[object]] = []
    await filled(world)
    result = await interrupted(world, act, turns, leave)
    assert not isinstance(result, MiniqueueError), repr(result)
    await check(world)
    assert not world.broker.groups._remains._reserved
    assert await names(world) - {b"old", b"new"} == {b"default", b"done"}
    assert set(await payloads(world, b"default")) == set(FIRST)
    await check(world)
