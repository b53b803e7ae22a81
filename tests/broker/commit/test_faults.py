"""When the store fails: nothing is acknowledged from memory, and work goes on once the store has proved itself."""

import asyncio

import pytest

from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.engine import engine as engine_module
from miniqueue.errors import (
    CorruptionError,
    InternalError,
    NotAStoreError,
    NothingOutstandingError,
    OutcomeUnknownError,
    ReadOnlyError,
    StorageError,
    UnavailableError,
)
from miniqueue.storage.format import keys
from tests.broker.support import World
from tests.fakes import FaultyStore, broker_on, settle_down


@pytest.fixture
def impatient(monkeypatch):
    """Reopen at once, each time."""

    def journal(*args, **options):
        return Journal(*args, **options, reopen_delays_seconds=(0,))

    monkeypatch.setattr(engine_module, "Journal", journal)


class Reopening:
    """Opens one store after the other; an exception in the list is raised, the last entry stays."""

    def __init__(self, *stores) -> None:
        self.stores = list(stores)
        self.open_count = 0

    async def __call__(self):
        self.open_count += 1
        store = self.stores.pop(0) if len(self.stores) > 1 else self.stores[0]
        if isinstance(store, Exception):
            raise store
        return store


@pytest.mark.parametrize("is_applied", [False, True])
async def test_publishers_hear_that_the_outcome_is_unknown_and_the_broker_goes_on(is_applied, world):
    await world.publish(b"t", b"a")
    world.store.fail_writes, world.store.applies_failed = {2}, is_applied
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    await settle_down()
    assert world.broker.refusal is None
    await world.publish(b"t", b"c")
    assert await world.drain(b"t") == ([b"a", b"b", b"c"] if is_applied else [b"a", b"c"])
    assert not world.broker.failed.done()


async def test_publishers_behind_the_failed_commit_hear_that_nothing_was_written(world):
    world.store.fail_writes = {1}
    world.store.may_write.clear()
    failing = world.broker.publish(b"t", [b"a"]).commit
    await settle_down()
    behind = world.broker.publish(b"t", [b"b"]).commit
    world.store.may_write.set()
    with pytest.raises(OutcomeUnknownError):
        await failing.wait()
    with pytest.raises(ReadOnlyError):
        await behind.wait()
    await settle_down()
    assert await world.drain(b"t") == []


async def test_publishes_are_refused_until_the_store_is_open_again(world):
    world.store.fail_writes = {1}
    commit = world.broker.publish(b"t", [b"a"]).commit
    with pytest.raises(OutcomeUnknownError):
        await commit.wait()
    assert world.broker.refusal is ReadOnlyError
    with pytest.raises(ReadOnlyError):
        world.broker.publish(b"t", [b"b"])
    await settle_down()
    await world.publish(b"t", b"c")
    assert await world.drain(b"t") == [b"c"]
    assert world.store.close_count == 1


async def test_leases_end_with_the_fault_and_their_messages_come_again(world):
    await world.publish(b"t", b"a", b"b")
    holder, acked = await world.holding(b"t"), await world.holding(b"t")
    acked.consumer.ack()
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"c")
    await settle_down()
    with pytest.raises(NothingOutstandingError):
        holder.consumer.ack()
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_consumers_that_wait_stay_and_are_served_after_the_reopening(world):
    waiting, elsewhere = world.consumer(b"t"), world.consumer(b"nowhere")
    waiting.consumer.request()
    elsewhere.consumer.request()
    world.store.fail_writes, world.store.applies_failed = {1}, True
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"a")
    await settle_down()
    assert waiting.payloads == [b"a"]
    await world.publish(b"nowhere", b"b")
    assert elsewhere.payloads == [b"b"]


class SlowStore(FaultyStore):
    """Lets others have a turn in every read."""

    async def get(self, key: bytes) -> bytes | None:
        await asyncio.sleep(0)
        return await super().get(key)

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        await asyncio.sleep(0)
        return await super().scan(start, stop, max_items=max_items, max_bytes=max_bytes)


@pytest.mark.parametrize("turns", range(12))
async def test_who_begins_to_wait_while_the_store_is_read_anew_is_served(turns):
    world = World()
    world.store = SlowStore()
    await world.start()
    await world.publish(b"t", b"a")
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"u", b"b")
    world.consumer(b"t").consumer.close()  # no consumer is left on the topic
    for _ in range(turns):
        await asyncio.sleep(0)
    late = world.consumer(b"t")
    late.consumer.request()
    await settle_down()
    assert late.payloads == [b"a"]
    await world.broker.stop()


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_lost_an_acknowledged_commit_is_refused():
    world, good = World(), FaultyStore()
    world.store = good
    opener = Reopening(good)
    broker = world.broker = broker_on(good, world.clock)
    broker._engine.journal._open_store = opener
    await broker.start()
    for payload in (b"a", b"b"):
        await world.publish(b"t", payload)
    lossy = await good.as_of(1)
    opener.stores = [lossy, lossy, good]
    good.fail_writes = {3}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"c")
    await asyncio.wait_for(_resumed(broker), 5)
    assert opener.open_count == 4
    assert lossy.close_count >= 2
    assert await world.drain(b"t") == [b"a", b"b"]
    await broker.stop()


@pytest.mark.usefixtures("impatient")
async def test_nobody_is_served_from_a_store_that_may_yet_be_refused():
    class Torn(FaultyStore):
        """Lacks the cursor of the second topic, and lets a consumer ask before it says so."""

        async def scan(self, start, stop, *, max_items, max_bytes):
            pairs = await super().scan(start, stop, max_items=max_items, max_bytes=max_bytes)
            if not consumer.consumer.is_waiting:
                consumer.consumer.request()
            await settle_down()
            served_early.extend(consumer.leases)
            return [pair for pair in pairs if pair[0] != keys.cursor(2, 0, 0)]

    consumer, served_early = None, []
    world = World()
    broker = world.broker = broker_on(world.store, world.clock)
    await broker.start()
    await world.publish(b"t", b"a")
    await world.publish(b"u", b"b")
    torn = Torn()
    torn._values, torn._sorted_keys = world.store._values, world.store._sorted_keys
    torn.last_change = world.store.last_change
    broker._engine.journal._open_store = Reopening(torn, world.store)
    consumer = world.consumer(b"t")
    world.store.fail_writes = {3}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"u", b"c")
    await asyncio.wait_for(_resumed(broker), 5)
    await settle_down()
    assert served_early == []
    assert consumer.payloads == [b"a"]
    await broker.stop()


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_is_damaged_at_the_third_attempt_too_ends_the_broker():
    world = World()
    damage = [CorruptionError("no"), NotAStoreError("no"), CorruptionError("no")]
    opener = Reopening(world.store, damage[0], StorageError("busy"), *damage[1:])
    broker = world.broker = broker_on(world.store, world.clock)
    broker._engine.journal._open_store = opener
    await broker.start()
    world.store.fail_writes = {1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"a")
    fault = await asyncio.wait_for(broker.failed, 60)
    assert "write 1 fails" in str(fault)
    assert opener.open_count == 5
    with pytest.raises(ReadOnlyError):
        broker.publish(b"t", [b"b"])
    await broker.stop()


@pytest.mark.usefixtures("impatient")
async def test_a_fault_that_is_no_damage_is_waited_out_however_long_it_takes():
    world = World()
    opener = Reopening(world.store, *[StorageError("no")] * 50, world.store)
    broker = world.broker = broker_on(world.store, world.clock)
    broker._engine.journal._open_store = opener
    await broker.start()
    await world.publish(b"t", b"a")
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    await asyncio.wait_for(_resumed(broker), 5)
    assert opener.open_count == 52
    await world.publish(b"t", b"c")
    assert await world.drain(b"t") == [b"a", b"c"]
    await broker.stop()


async def _resumed(broker) -> None:
    while broker.refusal is not None:  # noqa: ASYNC110 - the attempts announce themselves nowhere else
        await asyncio.sleep(0)


async def test_a_store_that_cannot_be_opened_stops_the_start():
    world = World()
    broker = broker_on(world.store, world.clock)
    broker._engine.journal._open_store = Reopening(StorageError("in use"))
    with pytest.raises(StorageError, match="in use"):
        await broker.start()


async def test_a_store_that_cannot_be_read_is_closed_again():
    world = World()
    world.store.fail_scans = {1}
    with pytest.raises(StorageError):
        await world.start()
    assert world.store.close_count == 1


async def test_a_failing_last_commit_is_told_by_stop_and_the_store_is_closed_all_the_same():
    world = World()
    broker = await world.start()
    await world.publish(b"t", b"a")
    (await world.holding(b"t")).consumer.ack()
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await broker.stop()
    assert len(broker._engine.tasks) == 0
    assert world.store.close_count >= 1


async def test_stopping_while_the_store_is_unusable_waits_for_nothing():
    world = World()
    broker = await world.start()
    broker._engine.journal._open_store = Reopening(StorageError("no"))
    world.store.fail_writes = {1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"a")
    await settle_down()
    await broker.stop()
    assert broker.refusal is ReadOnlyError


async def fail_later() -> None:
    raise ZeroDivisionError


def fail_now(_commit: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(("place", "fail"), [("_prepare", fail_later), ("_begin", fail_now)])
async def test_a_bug_that_ends_the_commits_leaves_nobody_waiting(place, fail, world):
    """Otherwise a publish never gets a reply, and a stop waits forever for a last commit."""
    committer = world.broker._engine.journal.committer
    setattr(committer, place, fail)
    committer.must_prepare = fail is fail_later
    with pytest.raises(UnavailableError):
        await world.publish(b"t", b"x")
    await settle_down()
    assert isinstance(world.broker.failed.result(), InternalError)
    with pytest.raises(ReadOnlyError):
        world.broker.publish(b"t", [b"y"])
