"""Schedules: one message for each tick, over restarts, crashes and faults; and what was missed."""

import pytest

from miniqueue.core.message import attributes, lanes
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import Side
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.errors import (
    InvalidAttributesError,
    InvalidTopicError,
    OutcomeUnknownError,
    PayloadTooLargeError,
    ReadOnlyError,
)
from miniqueue.errors.requests import InvalidOptionError, UnknownScheduleError
from miniqueue.storage.format.keys import Space
from tests.broker.support import World, started_world, world_with
from tests.fakes import START_MS, settle_down

T = b"reports"
MINUTELY = Schedule(T, b"now", every_ms=60_000)


async def put(world: World, name: bytes = b"s", schedule: Schedule = MINUTELY) -> bool:
    commit, is_new = world.broker.scheduler.set(name, schedule)
    await commit.wait()
    return is_new


async def tick(world: World, seconds: float = 0) -> None:
    """Advance the clock, then let the broker find what is due."""
    world.clock.advance(seconds)
    world.broker.tick()
    for _ in range(5):
        await settle_down()


async def come(world: World, topic: bytes = T) -> list[tuple[bytes, int]]:
    """Take what has come; return the schedule of each message and its tick, in s after the start."""
    consumer = world.consumer(topic)
    before = len(consumer.leases)
    await consumer.drain_all()
    consumer.consumer.close()
    headers = [dict(attributes.decode(one).headers) for lease in consumer.leases[before:] for one in lease.attributes]
    return [(one[b"schedule"], (int(one[b"schedule-at-ms"]) - START_MS) // 1000) for one in headers]


def seconds(found: list[tuple[bytes, int]]) -> list[int]:
    return [at for _, at in found]


async def test_each_tick_has_a_message_with_its_time_and_the_name_of_the_schedule(world):
    assert await put(world)
    await tick(world, 59.999)
    assert await come(world) == []
    await tick(world, 0.001)
    assert await come(world) == [(b"s", 60)]
    await tick(world, 30)
    assert await come(world) == []
    await tick(world, 30)
    assert await come(world) == [(b"s", 120)]


async def test_a_trace_says_which_schedule_has_published_a_message(world):
    await world.broker.admin.create(T, {"trace": True}).wait()
    await put(world)
    await tick(world, 60)
    published, _ = await world.broker.trace(T, (0, 0))
    assert (published.event, published.by) == ("published", b"schedule s")


async def test_a_tick_that_is_looked_for_late_keeps_its_time_and_so_does_the_next(world):
    await put(world)
    await tick(world, 70)
    assert await come(world) == [(b"s", 60)]
    await tick(world, 50)
    assert await come(world) == [(b"s", 120)]


async def test_cron_and_many_schedules_come_in_the_order_of_their_ticks(world):
    # the clock begins at 22:13:20
    await put(world, b"cron", Schedule(T, b"c", cron="15,16 22 * * *"))
    await put(world, b"other", Schedule(T, b"o", cron="0 12 * * *", zone="Europe/Berlin"))
    await put(world, b"every", Schedule(T, b"e", every_ms=130_000))
    await tick(world, 100)
    await tick(world, 30)
    await tick(world, 30)
    assert await come(world) == [(b"cron", 100), (b"every", 130), (b"cron", 160)]


async def test_a_tick_with_nothing_due_reads_and_writes_nothing(world):
    for number in range(100):
        await put(world, b"%d" % number)
    await world.restart()
    calls = world.store.scan_count, world.store.write_count
    for _ in range(10):
        await tick(world, 1)
    assert (world.store.scan_count, world.store.write_count) == calls


# --- what survives -------------------------------------------------------------------------------------------


async def test_the_message_and_the_next_tick_are_in_one_commit(world):
    await put(world)
    count = len(world.store.batches)
    await tick(world, 60)
    (batch,) = [batch for batch in world.store.batches[count:] if batch]
    assert {Space.TICK, Space.CHUNK} <= {key[0] for key in batch}
    for number in range(1, 4):
        await world.restart()
        await tick(world, 60)
        assert seconds(await come(world))[-1] == 60 * (number + 1)


@pytest.mark.parametrize("messages", [1, 250])
async def test_after_a_crash_at_any_commit_each_tick_has_one_message(messages, world):
    await put(world)
    await put(world, b"other", Schedule(T, b"other", every_ms=90_000))
    first = len(world.store.batches)
    world.clock.advance(60 * (messages - 1))
    await tick(world, 60)
    await world.commit()
    full = world.store
    for count in range(first, len(full.batches) + 1):
        await world.broker.stop()
        world.store = await full.as_of(count)
        await world.start()
        await tick(world)
        found = await come(world)
        assert seconds([one for one in found if one[0] == b"s"]) == [60 * n for n in range(1, messages + 1)]
        others = [90 * n for n in range(1, 60 * messages // 90 + 1)]
        assert seconds([one for one in found if one[0] == b"other"]) == others


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("failing", [1, 2])
async def test_a_fault_of_the_store_neither_loses_nor_doubles_a_tick(failing, is_applied, world):
    await put(world)
    world.store.applies_failed = is_applied
    world.store.fail_writes.add(world.store.write_count + failing)
    await tick(world, 60)
    for _ in range(3):
        await tick(world)
    await tick(world, 60)
    for _ in range(3):
        await tick(world)
    assert await come(world) == [(b"s", 60), (b"s", 120)]


async def test_a_fault_while_one_is_set_leaves_what_the_store_has(world):
    await put(world)
    world.store.fail_writes.add(world.store.write_count + 1)
    with pytest.raises(OutcomeUnknownError):
        await put(world, b"lost")
    await settle_down()
    assert world.broker.scheduler.count == 1
    with pytest.raises(UnknownScheduleError):
        await world.broker.scheduler.get(b"lost")


# --- what was missed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "expected"), [("all", [60, 120, 180, 240]), ("one", [180, 240]), ("none", [240])])
async def test_what_was_missed_while_the_broker_was_down(missed, expected, world):
    await put(world, b"s", MINUTELY._replace(missed=Missed(missed)))
    await world.broker.stop()
    world.clock.advance(190)
    await world.start()
    await tick(world)
    await tick(world, 50)
    assert seconds(await come(world)) == expected


EVERY_SECOND = Schedule(T, b"now", every_ms=1000)


@pytest.mark.parametrize(
    ("missed", "expected"), [("all", [*range(1, 34)]), ("one", [1, 2, 31, 32, 33]), ("none", [1, 2, 32, 33])]
)
@world_with(period_seconds=1.0)
async def test_a_tick_that_came_due_while_nobody_looked_is_missed(missed, expected, world):
    """The process was stopped for a while, or the clock was set forward."""
    await put(world, b"s", EVERY_SECOND._replace(missed=Missed(missed)))
    await tick(world, 1)
    await tick(world, 1)
    await tick(world, 30)
    await tick(world, 1)
    assert seconds(await come(world)) == expected


@world_with(period_seconds=0.1)
async def test_a_short_stall_of_a_broker_with_a_short_period_misses_no_tick(world):
    await put(world, b"s", EVERY_SECOND._replace(missed=Missed.NONE))
    await tick(world, 1)
    await tick(world, 2)
    assert seconds(await come(world)) == [1, 2, 3]


@pytest.mark.parametrize("missed", ["all", "one", "none"])
@world_with(period_seconds=1.0)
async def test_a_tick_that_is_looked_for_a_little_late_is_not_missed(missed, world):
    await put(world, b"s", EVERY_SECOND._replace(missed=Missed(missed)))
    await tick(world, 3)
    assert seconds(await come(world)) == [1, 2, 3]


@pytest.mark.parametrize(("missed", "expected"), [("all", [1, 2, 3, 4, 5, 6]), ("one", [4, 5, 6]), ("none", [5, 6])])
@world_with(period_seconds=1.0)
async def test_a_tick_that_came_due_while_the_store_was_gone_is_missed(missed, expected, world):
    await put(world, b"s", EVERY_SECOND._replace(missed=Missed(missed)))
    world.broker._engine.journal.admission.shut(OutcomeUnknownError())
    for _ in range(5):
        await tick(world, 1)
    world.broker._engine.journal.admission.open()
    await tick(world)
    await tick(world, 1)
    assert seconds(await come(world)) == expected


@pytest.mark.parametrize("missed", ["one", "none"])
@world_with(period_seconds=1.0)
async def test_ticks_that_come_due_while_others_are_published_are_not_missed(missed, world):
    await put(world, b"s", EVERY_SECOND._replace(missed=Missed(missed)))
    world.store.may_write.clear()
    for _ in range(6):
        await tick(world, 1)
    world.store.may_write.set()
    await tick(world)
    await tick(world)
    assert seconds(await come(world)) == [1, 2, 3, 4, 5, 6]


async def test_of_all_that_was_missed_the_latest_thousand_come(world):
    await put(world, b"s", Schedule(T, b"x", every_ms=1000))
    await world.broker.stop()
    world.clock.advance(5000)
    await world.start()
    await tick(world)
    assert seconds(await come(world)) == list(range(4001, 5001))
    await tick(world, 1)
    assert seconds(await come(world)) == [5001]


async def test_a_clock_that_is_set_back_has_no_tick_come_twice(world):
    await put(world)
    await tick(world, 60)
    await tick(world, -30)
    await tick(world, 40)
    await tick(world, 50)
    assert seconds(await come(world)) == [60, 120]


@pytest.mark.parametrize(("missed", "expected"), [("all", [60, 120, 180]), ("one", [120, 180]), ("none", [180])])
async def test_what_cannot_be_published_is_tried_again_and_then_counts_as_missed(missed, expected, world):
    await world.publish(T, b"first")
    await world.drain(T)
    await world.broker.admin.pause(T, Side.IN).wait()
    await put(world, b"s", MINUTELY._replace(missed=Missed(missed)))
    await put(world, b"other", Schedule(b"other", b"x", every_ms=60_000))
    for _ in range(12):
        await tick(world, 10)
    assert world.broker.stats()[T].ready == 0
    assert seconds(await come(world, b"other")) == [60, 120]
    await world.broker.admin.resume(T, Side.IN).wait()
    await tick(world, 10)
    await tick(world, 50)
    assert seconds(await come(world)) == expected


# --- options and end -----------------------------------------------------------------------------------------


async def test_messages_have_the_options_of_the_schedule(world):
    options = PublishOptions(((b"kind", b"sale"),), b"shop", 30.0, priority=Priority.HIGH)
    await put(world, b"s", MINUTELY._replace(options=options))
    await tick(world, 61)
    consumer = world.consumer(T)
    await consumer.drain_all()
    (lease,) = consumer.leases
    found = attributes.decode(lease.attributes[0])
    own = (b"schedule", b"s"), (b"schedule-at-ms", b"%d" % (START_MS + 60_000))
    assert (found.headers, found.key) == ((*own, (b"kind", b"sale")), b"shop")
    assert START_MS + 91_000 <= found.expires_at_ms < START_MS + 91_100
    assert lanes.lane(0, Priority.HIGH) in world.broker._engine.topics.by_name[T].partitions


@pytest.mark.parametrize("until", [180_000, 239_999])
async def test_a_schedule_is_deleted_in_the_commit_of_its_last_message(until, world):
    await put(world, b"s", MINUTELY._replace(until_ms=START_MS + until))
    await tick(world, 60)
    assert (await world.broker.scheduler.get(b"s")).next_at_ms == START_MS + 120_000
    await tick(world, 60)
    count = len(world.store.batches)
    await tick(world, 60)
    (batch,) = [batch for batch in world.store.batches[count:] if batch]
    assert {Space.TICK, Space.SCHEDULE, Space.CHUNK} <= {key[0] for key in batch}
    with pytest.raises(UnknownScheduleError):
        await world.broker.scheduler.get(b"s")
    await tick(world, 600)
    assert seconds(await come(world)) == [60, 120, 180]
    assert [key for key in world.store.pairs() if key[0] in (Space.TICK, Space.SCHEDULE)] == []


async def test_a_cron_rule_ends_too(world):
    # the clock begins at 22:13:20
    await put(world, b"s", Schedule(T, b"c", cron="*/10 * * * *", until_ms=START_MS + 1000_000))
    await tick(world, 2000)
    assert seconds(await come(world)) == [400, 1000]
    assert world.broker.scheduler.count == 0


@pytest.mark.parametrize(("missed", "expected"), [("all", [60, 120, 180]), ("one", [180]), ("none", [])])
async def test_an_end_while_the_broker_was_down_comes_after_what_was_missed(missed, expected, world):
    await put(world, b"s", MINUTELY._replace(missed=Missed(missed), until_ms=START_MS + 200_000))
    await world.broker.stop()
    world.clock.advance(3600)
    await world.start()
    await tick(world)
    assert seconds(await come(world)) == expected
    assert world.broker.scheduler.count == 0


async def test_an_end_waits_until_the_last_message_can_be_published(world):
    await world.publish(T, b"first")
    await world.drain(T)
    await world.broker.admin.pause(T, Side.IN).wait()
    await put(world, b"s", MINUTELY._replace(until_ms=START_MS + 60_000))
    await tick(world, 120)
    assert world.broker.scheduler.count == 1
    await world.broker.admin.resume(T, Side.IN).wait()
    await tick(world, 1)
    assert seconds(await come(world)) == [60]
    assert world.broker.scheduler.count == 0


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_fault_at_the_end_neither_loses_nor_doubles_the_last_message(is_applied, world):
    await put(world, b"s", MINUTELY._replace(until_ms=START_MS + 60_000))
    world.store.applies_failed = is_applied
    world.store.fail_writes.add(world.store.write_count + 1)
    await tick(world, 60)
    for _ in range(4):
        await tick(world)
    assert seconds(await come(world)) == [60]
    assert world.broker.scheduler.count == 0


# --- set, look, delete ---------------------------------------------------------------------------------------


async def test_one_that_is_set_again_begins_anew(world):
    assert await put(world) is True
    await tick(world, 40)
    assert await put(world, b"s", Schedule(b"other", b"x", every_ms=60_000)) is False
    await tick(world, 30)
    assert T not in world.broker.stats()
    await tick(world, 30)
    assert seconds(await come(world, b"other")) == [100]


async def test_one_that_is_deleted_has_no_message_any_more(world):
    await put(world)
    await world.broker.scheduler.delete(b"s").wait()
    with pytest.raises(UnknownScheduleError):
        world.broker.scheduler.delete(b"s")
    await world.restart()
    await tick(world, 120)
    assert T not in world.broker.stats()
    assert [key for key in world.store.pairs() if key[0] in (Space.TICK, Space.SCHEDULE)] == []


async def test_one_that_is_changed_while_it_is_due_publishes_nothing_of_the_old(world):
    await put(world)
    world.clock.advance(60)
    world.store.may_write.clear()
    await_commit, _ = world.broker.scheduler.set(b"other", MINUTELY)
    world.broker.tick()
    await settle_down()
    world.broker.scheduler.set(b"s", Schedule(b"new", b"x", every_ms=60_000))
    world.store.may_write.set()
    await await_commit.wait()
    await tick(world)
    assert T not in world.broker.stats()
    await tick(world, 60)
    assert seconds(await come(world, b"new")) == [120]


async def test_they_can_be_looked_at_and_listed_by_name(world):
    nine = Schedule(T, b"\xff", cron="0 9 * * *", zone="Europe/Berlin", missed=Missed.ONE)
    await put(world, b"b", nine)
    await put(world, b"a")
    await put(world, b"c")
    await world.restart()
    found = await world.broker.scheduler.get(b"b")
    assert (found.name, found.schedule) == (b"b", nine)
    assert found.next_at_ms == START_MS + 35_200_000
    with pytest.raises(UnknownScheduleError):
        await world.broker.scheduler.get(b"d")
    assert [one.name for one in await world.broker.scheduler.page()] == [b"a", b"b", b"c"]
    assert [one.name for one in await world.broker.scheduler.page(b"a", 1)] == [b"b"]
    assert await world.broker.scheduler.page(b"c") == []


@pytest.mark.parametrize(
    ("name", "schedule", "error"),
    [
        (b"", MINUTELY, InvalidOptionError),
        (b"a/b", MINUTELY, InvalidOptionError),
        (b"s", MINUTELY._replace(topic=b"a b"), InvalidTopicError),
        (b"s", MINUTELY._replace(payload=bytes(100)), PayloadTooLargeError),
        (b"s", Schedule(T, b"", cron="often"), InvalidOptionError),
        (b"s", Schedule(T, b"", cron="* * * * *", zone="Mars"), InvalidOptionError),
        (b"s", MINUTELY._replace(until_ms=START_MS + 59_999), InvalidOptionError),
        (b"s", MINUTELY._replace(until_ms=0), InvalidOptionError),
        (b"s", MINUTELY._replace(options=PublishOptions(((b"h", bytes(1 << 16)),))), InvalidAttributesError),
    ],
)
@world_with(max_message_bytes=50)
async def test_what_makes_no_sense_is_refused(name, schedule, error, world):
    with pytest.raises(error):
        world.broker.scheduler.set(name, schedule)
    assert world.broker.scheduler.count == 0


async def test_while_the_store_is_being_reopened_there_is_nothing_to_set_or_see(world):
    await put(world)
    world.broker._engine.journal.admission.shut(OutcomeUnknownError())
    with pytest.raises(ReadOnlyError):
        world.broker.scheduler.set(b"s", MINUTELY)
    with pytest.raises(ReadOnlyError):
        world.broker.scheduler.delete(b"s")
    for look in (world.broker.scheduler.get(b"s"), world.broker.scheduler.page()):
        with pytest.raises(ReadOnlyError):
            await look
    await tick(world, 60)
    world.broker._engine.journal.admission.open()
    await tick(world)
    assert seconds(await come(world)) == [60]


async def test_setting_one_over_and_over_takes_no_more_memory(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.delays.schedules.MAX_TICKS", 10)

    async with started_world() as world:
        for _ in range(100):
            world.broker.scheduler.set(b"s", MINUTELY)
            world.clock.advance(0.001)
        assert len(world.broker.scheduler._heap) <= 13
