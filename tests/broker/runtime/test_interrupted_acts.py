"""Acts during which the store is reopened, a topic is created again, or the client leaves: `interrupted_acts` judges.

Here each act is interrupted at its first reads and writes, and in topics of one kind; `make soak` does all.
"""

import asyncio
from functools import partial

import pytest

from miniqueue.broker import Broker
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.views import stats_of
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromTime
from miniqueue.errors import CorruptionError, MiniqueueError, OutcomeUnknownError, ReadOnlyError, StorageError
from miniqueue.errors.requests import PausedError, UnknownMessageError, UnknownTopicError
from miniqueue.storage.format import groups as group_keys
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.broker.runtime import interrupted_acts
from tests.broker.runtime.interrupted_acts import (
    ACTS,
    INTERRUPTIONS,
    TARGET,
    HeldWorld,
    T,
    answer_of,
    case_id,
    cases,
    check_all,
    content_of,
    fail_and_reopen,
    found,
    interrupted,
    known,
    rest,
    run_held,
)
from tests.fakes import FakeConsumer, ManualClock

FIRST = 3


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(FIRST, ["plain"], [True]), ids=case_id)
def test_an_act_that_is_interrupted_is_done_or_says_that_it_is_not(case):
    check_all(case)


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_a_redrive_that_is_interrupted_says_how_many_messages_it_moved(interruption):
    check_all(("redrive to a target", interruption, "partitions", True, 1000))


def numbers(act_name: str) -> list[int]:
    """Return the numbers of the reads and writes of an act."""
    return list(range(1, known(act_name, "plain").count + 1))


# --- the store is reopened ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [Edge.EARLIEST, FromTime(0)])
@pytest.mark.parametrize("waits", [True, False])
def test_a_group_that_is_made_over_a_reopening_leaves_the_topic_readable(start, waits):
    async def body(world: HeldWorld) -> None:
        await world.publish_each(T, b"a", b"b", b"c")
        await world.restart()
        world.disk.hold(2)  # behind the entry that the topic has pins
        making = asyncio.ensure_future(world.broker.groups.create(T, b"h", start))
        await rest()
        assert world.disk.is_held
        await world.fail()
        if waits:
            world.disk.may_go_on.set()
        await rest()
        assert world.broker.refusal is None
        assert await world.drained(T, b"default") == [b"a", b"b", b"c"]  # so that the chunks are deleted
        await rest()
        world.disk.may_go_on.set()
        answer = await answer_of(making)
        assert answer is None or isinstance(answer, ReadOnlyError)
        groups = [b"default", b"h"] if answer is None else [b"default"]
        assert [one.name async for one in world.broker.groups.figures(T)] == groups
        for _ in range(2):
            await world.publish(T, b"d")
            assert [await world.drained(T, group) for group in groups] == [[b"d"]] * len(groups)
            assert world.broker.faults() == {}
            await world.restart()

    run_held(body, waits=waits)


class SlowLevelDB:
    """A LevelDB store whose first look back ends when `may_end` is set, and one write of which fails when told to."""

    def __init__(self, store):
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_failing = False
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def last_of(self, ranges):
        found = await self._store.last_of(ranges)
        if not self.has_begun.is_set():
            self.has_begun.set()
            await self.may_end.wait()
        return found

    def write(self, batch, *, is_synced=False):
        is_failing, self.is_failing = self.is_failing, False
        return asyncio.ensure_future(fail()) if is_failing else self._store.write(batch, is_synced=is_synced)


async def fail():
    raise StorageError


async def next_of(broker: Broker, group: bytes) -> bytes:
    """Return the next message of a group, and acknowledge it; raises the error that the consumer gets."""
    future = asyncio.get_running_loop().create_future()
    consumer = broker.consumer(
        T, lambda leases: future.set_result(leases[0].payloads[0]), future.set_exception, group=group
    )
    consumer.request()
    try:
        payload = await future
        consumer.ack()
        return payload
    finally:
        consumer.close()


def test_a_group_that_is_made_over_a_reopening_leaves_a_topic_on_leveldb_readable(tmp_path):
    stores = []

    async def open_store():
        store = SlowLevelDB(await LevelDBStore.open(tmp_path / "db"))
        if stores:
            store.may_end.set()  # only the first one is slow
        stores.append(store)
        return store

    async def make() -> None:
        broker = Broker(open_store, clock=ManualClock(), period_seconds=1e6)
        await broker.start()
        for payload in (b"a", b"b", b"c"):
            await broker.publish(T, [payload]).commit.wait()
        making = asyncio.create_task(broker.groups.create(T, b"h"))
        await stores[0].has_begun.wait()
        stores[0].is_failing = True
        with pytest.raises(OutcomeUnknownError):
            await broker.publish(b"other", [b"x"]).commit.wait()
        while broker.refusal is not None:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
        assert [await next_of(broker, b"default") for _ in range(3)] == [b"a", b"b", b"c"]
        await broker.publish(b"other", [b"x"]).commit.wait()
        stores[0].may_end.set()
        await making
        await broker.stop()

    async def look() -> None:
        broker = Broker(open_store, clock=ManualClock(), period_seconds=1e6)
        await broker.start()
        await broker.publish(T, [b"d"]).commit.wait()
        assert [await next_of(broker, group) for group in (b"default", b"h")] == [b"d", b"d"]
        assert broker.faults() == {}
        await broker.stop()

    asyncio.run(make())
    asyncio.run(look())


def test_a_purge_that_is_broken_off_says_how_much_is_gone(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.cleanup.purge.MAX_RUNS_PER_COMMIT", 1)

    async def body(world: HeldWorld) -> MiniqueueError:
        return await interrupted(world, ACTS["purge of a group"], 4, fail_and_reopen)

    assert "at least " in str(run_held(body, content_of("plain")))


# --- what is left of something that was deleted ---------------------------------------------------------------


def remains(world: HeldWorld) -> list[bytes]:
    """Return the keys under which there is a payload of the topic, or an entry that something is to be deleted."""
    prefixes = keys.purge(1)[:1], group_keys.purge(1, 1)[:1]
    pairs = world.disk.pairs().items()
    return [key for key, value in pairs if key.startswith(prefixes) or b"payload" in value]


@pytest.mark.parametrize("what", ["topic", "group"])
@pytest.mark.parametrize("number", range(1, 6))
def test_what_could_not_be_read_of_something_deleted_is_deleted_by_a_later_tick(what, number):
    async def body(world: HeldWorld) -> None:
        await world.broker.groups.create(T, b"h")
        await world.publish_each(T, b"payload 1", b"payload 2")
        if what == "group":
            await world.drained(T, b"default")
        await rest()
        world.disk.hold(number)
        world.disk.fails_held = True
        deleting = world.broker.delete_topic(T) if what == "topic" else world.broker.groups.delete(T, b"h")
        task = asyncio.ensure_future(deleting)
        await rest()
        world.disk.fails_held = not world.disk.held_is_write
        world.disk.may_go_on.set()
        await task
        for _ in range(3):
            await rest()
            world.broker.tick()
        await rest()
        assert remains(world) == []

    run_held(body)


def test_a_topic_whose_deletion_nobody_waits_for_leaves_nothing():
    async def body(world: HeldWorld) -> None:
        await world.publish_each(T, b"payload 1", b"payload 2")
        world.disk.hold(1)
        task = asyncio.ensure_future(world.broker.delete_topic(T))
        await rest()
        task.cancel()
        await rest()
        world.disk.may_go_on.set()
        await rest()
        assert (world.broker.topics(), remains(world)) == ([], [])

    run_held(body)


def test_damage_of_a_deleted_topic_is_not_that_of_the_next_of_its_name():
    async def body(world: HeldWorld) -> None:
        await world.broker.publish_with(T, b"later", PublishOptions(delay_seconds=10)).commit.wait()
        consumer = FakeConsumer(world.broker, T)  # it waits on, for whatever has the name
        consumer.consumer.request()
        world.disk.hold(1)
        world.disk.fails_held, world.disk.read_fault = True, CorruptionError
        world.clock.advance(20)
        world.broker.tick()
        await rest()
        assert world.disk.is_held
        await world.broker.delete_topic(T)
        await world.publish(T, b"new")
        world.disk.may_go_on.set()
        await rest()
        world.broker.tick()
        await rest()
        assert (world.broker.faults(), consumer.payloads, consumer.errors) == ({}, [b"new"], [])

    run_held(body)


# --- the topic is deleted -------------------------------------------------------------------------------------


async def delete(world: HeldWorld, _: object) -> None:
    world.interruption = asyncio.ensure_future(world.broker.delete_topic(T))
    await rest()


async def recreate_while_a_consumer_waits(world: HeldWorld, _: object) -> None:
    """Delete the topic, and publish to another of its name, for which the broker uses the same object."""
    world.broker.consumer(T, print, print)
    await interrupted_acts.recreate(world, _)


async def group_figures(world: HeldWorld) -> list[tuple[bytes, int, int]]:
    """Return the figures of the groups of the topic."""
    return [(one.name, one.ready, one.delayed) async for one in world.broker.groups.figures(T)]


async def log_bounds(world: HeldWorld) -> list[tuple[int, bool]]:
    """Return where the partitions of the topic end, and whether they have an earliest message."""
    return [(bounds.end_seq, at_ms is not None) for bounds, at_ms in await world.broker.inspect.log.partitions(T)]


#: Looks, and what they say of the topic that is made by `recreate`.
LOOKS_AT_TOPICS = {
    "stats": (ACTS["stats"], [3, 3, 0, 0, 6]),
    "groups": (group_figures, [(b"default", 3, 0)]),
    "log": (log_bounds, [(3, True)]),
    "dry seek": (lambda world: world.broker.groups.seek(T, b"default", Edge.EARLIEST, is_dry=True), (3, 3)),
}


def answers(look, interruption) -> list:
    """Return what a look answers that is interrupted at each of its reads and writes."""

    async def count(world: HeldWorld) -> int:
        world.broker.tick()
        await rest()
        before = world.disk.count
        await look(world)
        return world.disk.count - before

    async def body(number: int, world: HeldWorld) -> object:
        world.broker.tick()
        await rest()
        return await interrupted(world, look, number, interruption)

    content = content_of("kept and traced")
    content = content._replace(time_ms=content.time_ms + 500_000)  # what came back is due
    numbers = range(1, run_held(count, content) + 1)
    return [run_held(partial(body, number), content) for number in numbers]


@pytest.mark.parametrize("name", LOOKS_AT_TOPICS)
def test_a_look_at_a_topic_that_is_deleted_meanwhile_says_that_there_is_none(name):
    found = answers(LOOKS_AT_TOPICS[name][0], delete)
    assert {type(answer) for answer in found} == {UnknownTopicError}


@pytest.mark.parametrize("recreate", [interrupted_acts.recreate, recreate_while_a_consumer_waits])
@pytest.mark.parametrize("name", LOOKS_AT_TOPICS)
def test_a_look_at_a_topic_that_is_made_again_meanwhile_shows_the_new_one(name, recreate):
    look, expected = LOOKS_AT_TOPICS[name]
    found = answers(look, recreate)
    assert found
    for answer in found:
        assert answer == expected or (name in ("log", "dry seek") and isinstance(answer, UnknownTopicError)), answer


@pytest.mark.parametrize("interruption", [delete, interrupted_acts.recreate])
def test_a_list_of_all_topics_shows_none_that_was_deleted_meanwhile(interruption):
    async def counts(world: HeldWorld) -> dict[bytes, int]:
        return {topic.name: stats_of(topic).ready async for topic in world.broker.inspect.everything()}

    found = answers(counts, interruption)
    assert found
    assert all(answer.get(T) == (None if interruption is delete else 3) for answer in found)


@pytest.mark.parametrize("after", [(0, 1), (0, 5)])
@pytest.mark.parametrize("interruption", [delete, recreate_while_a_consumer_waits])
def test_a_peek_at_a_topic_that_is_deleted_while_its_start_is_looked_for_says_so(interruption, after):
    async def page(world: HeldWorld) -> list:
        return await world.broker.inspect.peek(T, State.DELAYED, after=after)

    for answer in answers(page, interruption):
        assert isinstance(answer, list | UnknownTopicError | UnknownMessageError), answer


def test_a_trace_of_a_message_whose_topic_is_deleted_meanwhile_is_whole_or_says_that_there_is_no_topic():
    async def nothing(_: HeldWorld, __: object) -> None:
        pass

    (whole,) = {tuple(answer) for answer in answers(ACTS["trace"], nothing)}
    found = answers(ACTS["trace"], delete)
    assert isinstance(found[0], UnknownTopicError)
    assert all(isinstance(answer, UnknownTopicError) or tuple(answer) == whole for answer in found)


def test_a_message_with_a_unique_key_is_published_if_the_read_of_the_deleted_topic_fails():
    async def body(world: HeldWorld) -> bool:
        await world.publish(T, b"old")
        world.disk.hold(1)
        world.disk.fails_held = True
        publishing = asyncio.ensure_future(world.broker.publish_unique(T, b"x", PublishOptions(unique_key=b"k")))
        await rest()
        assert world.disk.is_held
        await world.broker.delete_topic(T)
        await world.publish(T, b"new")
        world.disk.may_go_on.set()
        await (await publishing).commit.wait()
        return await world.drained(T, b"default") == [b"new", b"x"]

    assert run_held(body)


# --- without a fault ------------------------------------------------------------------------------------------


def test_a_redrive_of_a_topic_that_is_paused_while_it_is_loaded_says_so():
    act = ACTS["redrive to a target"]

    async def body(number: int, world: HeldWorld) -> tuple[object, bool]:
        answer = await interrupted(world, act, number, interrupted_acts.pause)
        return answer, TARGET in world.broker.topics()

    outcomes = []
    for number in numbers("redrive to a target"):
        answer, is_moved = run_held(partial(body, number), content_of("plain"))
        outcomes.append(type(answer))
        assert is_moved or isinstance(answer, PausedError)
        assert answer == known("redrive to a target", "plain").answer or isinstance(answer, PausedError)
    assert PausedError in outcomes


@pytest.mark.parametrize("number", range(1, 8))
def test_a_message_that_is_handed_out_while_it_is_looked_for_is_found(number):
    async def take(world: HeldWorld, _: object) -> None:
        leases: list = []
        world.broker.consumer(T, leases.extend, leases.append, prefetch=100).request()
        await asyncio.sleep(0)

    async def body(world: HeldWorld) -> list:
        assert len(await world.broker.inspect.peek(T)) > 1
        consumer = FakeConsumer(world.broker, T)  # so that they are in memory
        consumer.consumer.request()
        await rest()
        consumer.consumer.close()
        return await interrupted(world, lambda world: found(world, (0, 4)), number, take)

    ((payload, _),) = run_held(body, content_of("plain"))
    assert payload == b"m4"


@pytest.mark.parametrize("replace", [interrupted_acts.seek, interrupted_acts.make_anew])
def test_a_purge_of_a_group_that_is_replaced_meanwhile_counts_what_it_removes(replace):
    async def body(number: int, world: HeldWorld) -> tuple[int, list[bytes]]:
        removed = await interrupted(world, ACTS["purge of a group"], number, replace)
        return removed, await world.drained(T, b"g")

    all_count = known("purge of a group", "plain").answer
    for number in numbers("purge of a group"):
        removed, left = run_held(partial(body, number), content_of("plain"))
        assert removed > 0
        assert left == [] or removed == all_count, number
