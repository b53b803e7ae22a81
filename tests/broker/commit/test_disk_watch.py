"""When the disk is full: publishes are refused until there is room again, and everything else goes on."""

import asyncio

import pytest
import structlog.testing

from miniqueue.broker.cleanup import disk_space
from miniqueue.broker.commit.disk_watch import look_at_space
from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.engine import engine as engine_module
from miniqueue.errors import DrainingError, FullError, NoSpaceError, OutcomeUnknownError, StorageError
from miniqueue.storage.port import Room
from tests.broker.support import World
from tests.fakes import broker_on, settle_down

ROOM, NO_ROOM = Room(is_enough=True, free_bytes=1000), Room(is_enough=False, free_bytes=10)


async def look(world: World, room: Room) -> None:
    world.store.room_now = room
    await look_at_space(world.broker._engine.journal)


async def test_publishes_are_refused_while_there_is_no_room_and_taken_when_there_is(world):
    await look(world, NO_ROOM)
    assert world.broker.refusal is FullError
    with pytest.raises(FullError):
        world.broker.publish(b"t", [b"a"])
    await look(world, ROOM)
    await world.publish(b"t", b"b")
    assert await world.drain(b"t") == [b"b"]


async def test_what_is_free_is_told(world):
    assert world.broker.free_bytes is None
    await look(world, NO_ROOM)
    assert world.broker.free_bytes == 10


async def test_settling_and_deleting_go_on_while_the_disk_is_full(world):
    await world.publish(b"t", b"a", b"b", b"c")
    await world.publish(b"u", b"d")
    await look(world, NO_ROOM)
    consumer = await world.holding(b"t")
    consumer.consumer.ack()
    consumer.consumer.request()
    consumer.consumer.nack()
    await world.commit()
    assert await world.broker.delete_topic(b"u")
    await settle_down()
    await world.restart()
    assert await world.drain(b"t") == [b"b", b"c"]
    assert world.broker.topics() == [b"t"]


@pytest.mark.parametrize(("room", "is_given_back"), [(ROOM, False), (NO_ROOM, True)])
async def test_a_full_disk_gets_the_space_of_consumed_messages_back_while_others_still_wait(room, is_given_back, world):
    await world.publish(b"t", b"a", b"b")
    await look(world, room)
    world.broker._engine.topics.by_name[b"t"].partitions[0].consumed_bytes = disk_space.MAX_CONSUMED_BYTES_WHEN_FULL + 1
    world.broker.tick()
    await settle_down()
    assert bool(world.store.reclaimed) == is_given_back


async def test_a_broker_that_starts_on_a_full_disk_serves_and_refuses_publishes(world):
    await world.publish(b"t", b"a")
    world.store.room_now = NO_ROOM
    await world.restart()
    assert world.broker.refusal is FullError
    assert await world.drain(b"t") == [b"a"]


async def test_a_full_disk_is_logged_once_and_once_when_it_is_over(world):
    with structlog.testing.capture_logs() as logs:
        for room in (ROOM, NO_ROOM, NO_ROOM, ROOM, ROOM):
            await look(world, room)
    assert [(line["log_level"], line["event"].split(";")[0]) for line in logs] == [
        ("error", "the disk is full"),
        ("warning", "the disk has room again"),
    ]


async def test_a_look_that_fails_changes_nothing_and_is_logged_once(world):
    async def fail(*, is_full):
        raise StorageError("no such disk")

    await look(world, NO_ROOM)
    world.store.room = fail
    with structlog.testing.capture_logs() as logs:
        error = await look_at_space(world.broker._engine.journal)
        await look_at_space(world.broker._engine.journal, error)
    assert [line["error"] for line in logs] == ["no such disk"]
    assert world.broker.refusal is FullError


async def test_stopping_on_a_full_disk_commits_what_was_settled(world):
    await world.publish(b"t", b"a", b"b")
    await look(world, NO_ROOM)
    consumer = await world.holding(b"t")
    consumer.consumer.ack()
    await world.broker.stop()
    assert world.broker.refusal is DrainingError
    await world.start()
    assert await world.drain(b"t") == [b"b"]


class Disk:
    """Opens `store` when there is room, and says that there is none otherwise."""

    def __init__(self, store) -> None:
        self.store = store
        self.has_room = True

    async def __call__(self):
        if not self.has_room:
            raise NoSpaceError("no room to open")
        return self.store


@pytest.fixture
def impatient(monkeypatch):
    """Reopen at once, each time."""

    def journal(*args, **options):
        return Journal(*args, **options, reopen_delays_seconds=(0,))

    monkeypatch.setattr(engine_module, "Journal", journal)


@pytest.mark.usefixtures("impatient")
async def test_a_write_without_space_refuses_publishes_until_a_look_finds_room():
    world = World()
    disk = Disk(world.store)
    broker = world.broker = broker_on(world.store, world.clock)
    broker._engine.journal._open_store = disk
    await broker.start()
    await world.publish(b"t", b"a")
    disk.has_room, world.store.fail_writes, world.store.write_fault = False, {2}, NoSpaceError
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    for refused in (broker.publish, broker.delete_topic):  # while the store is shut, nothing can be changed
        with pytest.raises(FullError):
            refused(b"t", [b"c"]) if refused == broker.publish else refused(b"t")
    await settle_down()
    assert not broker.failed.done()
    disk.has_room, world.store.room_now = True, NO_ROOM
    await settle_down()
    assert broker.refusal is FullError
    assert await world.drain(b"t") == [b"a"]
    await look(world, ROOM)
    await world.publish(b"t", b"d")
    assert await world.drain(b"t") == [b"d"]
    await broker.stop()


async def test_a_look_that_was_begun_before_the_store_failed_does_not_count(world):
    looking, may_end = asyncio.Event(), asyncio.Event()

    async def room(*, is_full):
        looking.set()
        await may_end.wait()
        return ROOM

    world.store.room = room
    look_before = asyncio.create_task(look_at_space(world.broker._engine.journal))
    await looking.wait()
    world.store.fail_writes, world.store.write_fault = {1}, NoSpaceError
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"a")
    may_end.set()
    await look_before
    await settle_down()
    assert world.broker.refusal is FullError
