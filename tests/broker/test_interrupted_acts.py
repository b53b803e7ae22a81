"""Acts during which the store is reopened, a topic is made anew, or the client leaves: `interrupted_acts` judges.

Here each act is interrupted at its first reads and writes, and in topics of one kind; `make soak` does all.
"""

import asyncio
from functools import partial

import pytest

from miniqueue.broker import Broker
from miniqueue.core.group_start import Edge, FromTime
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.topic_errors import PausedError
from miniqueue.errors import CorruptionError, MiniqueueError, OutcomeUnknownError, ReadOnlyError, StorageError
from miniqueue.storage import group_keys, keys
from miniqueue.storage.leveldb import LevelDBStore
from tests.broker import interrupted_acts
from tests.broker.interrupted_acts import (
    ACTS,
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
        assert [one.name for one in await world.broker.groups.figures(T)] == groups
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

    def write(self, batch):
        is_failing, self.is_failing = self.is_failing, False
        return asyncio.ensure_future(fail()) if is_failing else self._store.write(batch)


async def fail():
    raise StorageError


async def next_of(broker: Broker, group: bytes) -> bytes:
    """Return the next message of a group, and acknowledge it; raises what the consumer is told."""
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
        while broker.refusal is not None:  # noqa: ASYNC110 - nobody is told
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
    monkeypatch.setattr("miniqueue.broker.clearing.MAX_RUNS_PER_COMMIT", 1)

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
        assert len(await world.broker.peeker.peek(T)) > 1
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
