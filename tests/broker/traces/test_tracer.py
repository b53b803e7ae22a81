"""Traces: what happens to each message is known, by whom and when, over restarts and topics, for a time."""

import contextvars

import pytest

from miniqueue.broker.model import recording
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.traces import reader, tracer
from miniqueue.broker.traces import steps as trace_steps
from miniqueue.broker.traces.steps import TracePosition
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.message.ids import DelayedId, parse_delayed_id
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromMessage
from miniqueue.errors import CorruptionError, OutcomeUnknownError
from miniqueue.errors.requests import UnknownMessageError, UnknownTopicError
from miniqueue.storage.format import trace_keys, traces
from miniqueue.storage.format.keys import Space
from miniqueue.tools.exporting.exporter import Exporter
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.leases.test_leases import take
from tests.broker.support import started_world
from tests.fakes import START_MS, settle_down

T, DEAD = b"t", b"t.dlq"


async def traced(world, *payloads: bytes, name: bytes = T, **settings: object) -> None:
    """Make a topic with traces, and publish to it."""
    await world.broker.admin.create(name, {"trace": True, **settings}).wait()
    if payloads:
        await world.publish(name, *payloads)


async def steps(world, seq: int = 0, topic: bytes = T, partition: int = 0):
    return await world.broker.trace(topic, (partition, seq))


async def events(world, seq: int = 0, topic: bytes = T, partition: int = 0) -> list[str]:
    return [step.event for step in await steps(world, seq, topic, partition)]


def stored(world, space: Space = Space.TRACE) -> list[bytes]:
    return sorted(key for key in world.store.pairs() if key[0] == space)


def acting_as(name: bytes, act):
    """Act as a client."""
    context = contextvars.copy_context()
    context.run(CURRENT_ACTOR.set, name)
    return context.run(act)


async def crash(world) -> None:
    """Start a broker on what is in the store now; the previous one is not stopped."""
    await world.broker._engine.tasks.stop()
    await world.start()


async def pass_time(world, seconds: float) -> None:
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()
    await world.commit()


async def test_a_message_is_followed_from_its_publish_to_its_end(world):
    await traced(world)
    accepted = acting_as(b"ada", lambda: world.broker.publish(T, [b"a", b"b"]))
    await accepted.commit.wait()
    world.clock.advance(1)
    asked = acting_as(b"bob", lambda: take(world, lease_seconds=30.0))
    world.clock.advance(1)
    world.broker.leases.extend(T, asked.receipts, 60.0)
    await world.commit()
    world.clock.advance(1)
    world.broker.leases.nack(T, asked.receipts)
    again = acting_as(b"bob", lambda: take(world))
    world.broker.leases.ack(T, again.receipts)
    told = await steps(world)
    assert [(step.event, step.at_ms - START_MS, step.group) for step in told] == [
        ("published", 0, b""),
        ("committed", 0, b""),
        ("delivered", 1000, b"default"),
        ("extended", 2000, b"default"),
        ("nacked", 3000, b"default"),
        ("delivered", 3000, b"default"),
        ("acknowledged", 3000, b"default"),
    ]
    assert [told[0].by, told[2].by, told[2].receipt, told[5].receipt] == [
        b"ada",
        b"bob",
        asked.receipts[0],
        again.receipts[0],
    ]
    assert await events(world, 1) == ["published", "committed"]
    assert_sound(world.store)


@pytest.mark.parametrize(
    ("act", "event"),
    [
        (lambda consumer: consumer.ack(), "acknowledged"),
        (lambda consumer: consumer.nack(), "nacked"),
        (lambda consumer: consumer.back(), "backed"),
        (lambda consumer: consumer.dack(5.0), "dacked"),
        (lambda consumer: consumer.close(), "disconnected"),
    ],
)
async def test_it_is_told_how_a_consumer_let_go_of_a_message(act, event, world):
    await traced(world, b"a")
    holder = await world.holding(T)
    act(holder.consumer)
    assert await events(world) == ["published", "committed", "delivered", event]


async def test_a_lease_that_is_over_is_told(world):
    await traced(world, b"a")
    take(world, lease_seconds=5.0)
    await pass_time(world, 6)
    assert (await events(world))[2:] == ["delivered", "timed_out"]


async def test_messages_acknowledged_as_they_are_received_were_delivered_first(world):
    await traced(world, b"a")
    take(world, is_acked=True)
    assert (await events(world))[2:] == ["delivered", "acknowledged"]


async def test_no_receipt_is_told_that_nobody_was_given(world):
    await traced(world, b"a", b"b", max_deliveries=1)
    await world.broker.admin.create(DEAD, {"trace": True}).wait()
    take(world, is_acked=True)
    world.broker.leases.nack(T, take(world).receipts)
    await world.commit()
    await world.broker.redrive(DEAD)
    found = [step for seq in range(2) for step in await steps(world, seq) if step.event == "delivered"]
    assert [(step.position.topic, step.by, step.receipt != b"") for step in found] == [
        (T, b"", False),
        (T, b"", True),
        (DEAD, b"redrive", False),
    ]


async def test_what_is_delivered_is_stored_within_a_tick_without_a_commit_of_its_own(world):
    await traced(world, b"a")
    batch_count = len(world.store.batches)
    await world.holding(T)
    assert len(world.store.batches) == batch_count
    world.broker.tick()
    await world.commit()
    assert len(world.store.batches) == batch_count + 1


async def test_what_is_published_waits_for_a_tick_and_is_one_value_then(world):
    await traced(world)
    for _ in range(10):
        await world.publish(T, *[b"x"] * 100)
        world.clock.advance(0.001)
    assert not stored(world)
    batch_count = len(world.store.batches)
    world.broker.tick()
    await world.commit()
    assert len(stored(world)) == 1
    assert len(world.store.batches) == batch_count + 1
    told = await steps(world, 950)
    assert [(step.event, step.at_ms - START_MS) for step in told] == [("published", 9), ("committed", 9)]


async def test_what_is_published_does_not_wait_when_it_is_much(monkeypatch):
    monkeypatch.setattr(recording, "MAX_ROWS", 4)

    async with started_world() as world:
        await traced(world)
        await world.publish_each(T, b"a", b"b", b"c")
        assert len(stored(world)) == 1


async def test_a_settle_writes_all_that_was_noted_before_it(world):
    await traced(world, b"a")
    holder = await world.holding(T)
    assert not stored(world)
    holder.consumer.ack()
    await world.commit()
    await crash(world)
    assert await events(world) == ["published", "committed", "delivered", "acknowledged"]


async def test_after_a_crash_the_log_says_when_a_message_was_published(world):
    await traced(world)
    accepted = acting_as(b"ada", lambda: world.broker.publish(T, [b"a", b"b"]))
    world.clock.advance(0.5)
    await accepted.commit.wait()
    await world.holding(T)
    await crash(world)
    assert not stored(world)
    told = await steps(world, 1)
    assert [(step.event, step.at_ms - START_MS, step.by) for step in told] == [
        ("published", 500, b""),
        ("committed", 500, b""),
    ]
    await world.drain(T)
    assert (await steps(world, 1))[:2] == told
    assert (await events(world, 1))[2:] == ["delivered", "acknowledged"]
    with pytest.raises(UnknownMessageError):
        await steps(world, 2)


async def test_a_stop_writes_what_waits(world):
    await traced(world, b"a")
    await world.restart()
    assert len(stored(world)) == 1


async def test_a_commit_writes_one_value_for_all_its_messages(world):
    await traced(world, *[b"x"] * 1000)
    consumer = world.consumer(T)
    assert len(await consumer.drain_all()) == 1000
    for seq in (0, 999):
        assert (await events(world, seq))[2:] == ["delivered", "acknowledged"]


async def test_each_group_has_its_own_doings(world):
    await traced(world)
    await world.broker.groups.create(T, b"audit")
    await world.publish(T, b"a")
    take(world, group=b"audit", is_acked=True)
    take(world, is_acked=True)
    assert [(step.event, step.group) for step in await steps(world)][2:] == [
        ("delivered", b"audit"),
        ("acknowledged", b"audit"),
        ("delivered", b"default"),
        ("acknowledged", b"default"),
    ]


async def test_messages_with_a_priority_are_traced_too(world):
    await traced(world)
    options = PublishOptions(priority=Priority.HIGH)
    await world.broker.publish_with(T, b"a", options).commit.wait()
    take(world, is_acked=True)
    assert (await events(world, partition=1 << 16))[2:] == ["delivered", "acknowledged"]


async def delayed(world, payload: bytes = b"a", seconds: float = 5.0) -> DelayedId:
    """Publish a message with a delay, as ada."""
    options = PublishOptions(delay_seconds=seconds)
    accepted = acting_as(b"ada", lambda: world.broker.publish_with(T, payload, options))
    await accepted.commit.wait()
    return parse_delayed_id(accepted.message_id)


async def test_a_delayed_message_is_followed_from_one_id_to_the_other(world):
    await traced(world)
    one, other = await delayed(world), await delayed(world, seconds=50.0)
    assert [step.event for step in await world.broker.trace(T, one)] == ["scheduled"]
    await pass_time(world, 6)
    told = await world.broker.trace(T, one)
    assert [(step.event, step.at_ms - START_MS, step.by) for step in told] == [
        ("scheduled", 0, b"ada"),
        ("released", 6000, b""),
        ("due", 6000, b""),
        ("committed", 6000, b""),
    ]
    assert [step.position.message_id for step in told] == [bytes(one)] * 2 + [b"0-0"] * 2
    assert (told[1].other.message_id, told[2].other.message_id) == (b"0-0", bytes(one))
    assert await steps(world, 0) == told
    assert len(await world.broker.trace(T, other)) == 1
    assert_sound(world.store)


@pytest.mark.parametrize(
    "wrong", [DelayedId(0, START_MS + 5001, 1), DelayedId(0, START_MS + 5000, 2), DelayedId(1, START_MS + 5000, 1)]
)
async def test_a_delayed_id_that_was_never_given_has_no_trace(wrong, world):
    await traced(world)
    assert await delayed(world) == DelayedId(0, START_MS + 5000, 1)
    with pytest.raises(UnknownMessageError):
        await world.broker.trace(T, wrong)


async def test_a_delayed_message_that_is_cancelled_or_purged_says_by_whom(world):
    await traced(world)
    one, other = await delayed(world), await delayed(world)
    CURRENT_ACTOR.set(b"bob")
    await world.broker.delayed.cancel(T, one)
    await world.broker.purge(T)
    told = [await world.broker.trace(T, which) for which in (one, other)]
    assert [[(step.event, step.by) for step in steps] for steps in told] == [
        [("scheduled", b"ada"), ("cancelled", b"bob")],
        [("scheduled", b"ada"), ("purged", b"bob")],
    ]


async def test_after_a_crash_a_delayed_message_is_known_all_the_same(world):
    await traced(world)
    one, other = await delayed(world), await delayed(world)
    await crash(world)
    world.clock.advance(1)
    first = await world.broker.trace(T, one)
    assert [(step.event, step.at_ms - START_MS, step.by) for step in first] == [("scheduled", 0, b"")]
    await world.broker.delayed.cancel(T, other)
    await pass_time(world, 6)
    assert [step.event for step in await world.broker.trace(T, other)] == ["scheduled", "cancelled"]
    assert (await world.broker.trace(T, one))[0] == first[0]
    assert await events(world) == ["scheduled", "released", "due", "committed"]


async def test_a_group_that_is_moved_tells_its_messages_so(world):
    await traced(world, retention_seconds=100)
    await world.publish(T, b"a")
    await world.publish(T, b"b", b"c")
    CURRENT_ACTOR.set(b"bob")
    take(world, is_acked=True)
    await world.broker.groups.create(T, b"other")
    await world.broker.groups.seek(T, b"default", FromMessage(0, 2))
    told = (await steps(world, 1))[2:]
    assert [(step.event, step.group, step.by, step.reason) for step in told] == [("sought", b"default", b"bob", b"0-2")]
    assert "sought" not in await events(world, 0)  # it was done with
    await world.broker.groups.seek(T, b"default", Edge.EARLIEST)
    assert (await steps(world, 0))[-1].reason == b"0-0"
    await world.publish(T, b"d")
    assert await events(world, 3) == ["published", "committed"]
    await world.broker.groups.seek(T, b"default", Edge.EARLIEST, is_dry=True)
    assert await events(world, 3) == ["published", "committed"]


async def test_a_group_that_is_deleted_tells_its_messages_so(world):
    await traced(world, b"a", b"b", partitions=2)
    await world.broker.groups.create(T, b"other")
    await world.broker.groups.delete(T, b"other")
    last = (await steps(world, 1))[-1]
    assert (last.event, last.group, last.reason) == ("group_deleted", b"other", b"")
    with pytest.raises(UnknownMessageError):
        await steps(world, 2)
    assert_sound(world.store)


async def test_what_happened_to_groups_and_to_what_waits_is_forgotten_too(world):
    await traced(world, b"a", trace_seconds=100)
    await world.broker.groups.create(T, b"other")
    await world.broker.groups.delete(T, b"other")
    await world.broker.delayed.cancel(T, await delayed(world))
    assert len(stored(world)) == 3
    await pass_time(world, 200)
    assert stored(world) == []


# --- the end of a message ------------------------------------------------------------------------------------


async def test_a_dead_letter_is_followed_to_its_topic_and_back(world):
    await traced(world, b"other", b"a")
    await traced(world, name=DEAD)
    take(world)
    asked = take(world)
    world.broker.leases.reject(T, asked.receipts, b"no")
    told = await steps(world, 1)
    assert [(step.position.topic, step.event) for step in told] == [
        (T, "published"),
        (T, "committed"),
        (T, "delivered"),
        (T, "rejected"),
        (T, "dead_lettered"),
        (DEAD, "arrived"),
        (DEAD, "committed"),
    ]
    assert (told[3].reason, told[4].other, told[5].other) == (
        b"no",
        TracePosition(DEAD, 0, 0),
        TracePosition(T, 0, 1),
    )
    assert await steps(world, 0, DEAD) == told
    assert await world.broker.redrive(DEAD) == 1
    told = await steps(world, 1)
    assert [(step.position, step.event) for step in told][7:] == [
        (TracePosition(DEAD, 0, 0), "delivered"),
        (TracePosition(DEAD, 0, 0), "redriven"),
        (TracePosition(T, 0, 2), "arrived"),
        (TracePosition(T, 0, 2), "committed"),
    ]
    assert await steps(world, 2) == await steps(world, 0, DEAD) == told
    assert_sound(world.store)


@pytest.mark.parametrize(("target", "told_groups"), [(None, [b"a", b"b"]), (b"other", [b"", b""])])
async def test_what_is_redriven_is_told_of_the_group_that_it_is_for(target, told_groups, world):
    await traced(world, name=DEAD)
    for group in (b"a", b"b"):
        await world.broker.groups.create(T, group)
    await world.publish(T, b"a")
    for group in (b"a", b"b"):
        world.broker.leases.reject(T, take(world, group=group).receipts, b"no")
    await world.commit()
    assert await world.broker.redrive(DEAD, target=target) == 2
    found = [step for seq in range(2) for step in await steps(world, seq, DEAD) if step.event == "redriven"]
    assert [step.group for step in found] == told_groups


async def test_a_dead_letter_in_a_topic_without_traces_says_where_it_came_from(world):
    await traced(world, b"a", max_deliveries=1)
    holder = await world.holding(T)
    holder.consumer.nack()
    told = await steps(world)
    assert [step.event for step in told][3:] == ["nacked", "dead_lettered", "arrived"]
    assert told[-1].reason == b"max_deliveries"
    assert await steps(world, 0, DEAD) == told


async def test_expired_messages_are_told(world):
    await traced(world, b"a", ttl_seconds=5)
    world.clock.advance(6)
    world.consumer(T).consumer.request()
    assert (await events(world))[2:] == ["expired"]


async def test_purged_messages_are_told_wherever_they_wait(world):
    await traced(world, b"a", b"b")
    holder = await world.holding(T)
    holder.consumer.nack()
    await world.broker.purge(T)
    assert (await events(world, 0))[2:] == ["delivered", "nacked", "purged"]
    assert (await events(world, 1))[2:] == ["purged"]


async def test_a_message_that_was_acknowledged_while_a_purge_read_it_is_not_told_to_be_purged(monkeypatch, world):
    await traced(world, b"a", b"b")
    for holder in [await world.holding(T) for _ in range(2)]:
        holder.consumer.back()
    await world.commit()
    holder = await world.holding(T)
    scan = world.store.scan

    async def scan_and_acknowledge(start, stop, **limits):
        found = await scan(start, stop, **limits)
        if holder.leases and start[0] == Space.RECORD:
            holder.leases.clear()
            holder.consumer.ack()
            await world.commit()
        return found

    monkeypatch.setattr(world.store, "scan", scan_and_acknowledge)
    assert await world.broker.purge(T) == 1
    assert (await events(world, 0))[-2:] == ["delivered", "acknowledged"]
    assert (await events(world, 1))[-1] == "purged"


async def test_messages_dropped_for_want_of_room_are_told(world):
    await traced(world, b"a", max_messages=1, limit_policy="drop-oldest")
    await world.publish(T, b"b")
    assert (await events(world))[2:] == ["dropped"]


# --- on and off ----------------------------------------------------------------------------------------------


async def test_without_the_setting_nothing_is_noted(world):
    await world.publish(T, b"a")
    await world.drain(T)
    assert stored(world) == stored(world, Space.TRACES) == []
    with pytest.raises(UnknownMessageError, match="setting trace"):
        await steps(world)
    with pytest.raises(UnknownTopicError):
        await steps(world, topic=b"none")


async def test_it_is_noted_from_the_setting_on_and_up_to_its_end(world):
    await world.publish(T, b"a")
    await world.broker.admin.change(T, {"trace": True}).wait()
    holder = await world.holding(T)
    await world.broker.admin.change(T, {"trace": None}).wait()
    holder.consumer.ack()
    await world.commit()
    assert await events(world) == ["published", "committed", "delivered"]


async def test_it_is_known_after_a_restart_and_goes_on(world):
    await traced(world, b"a")
    await world.holding(T)
    await world.restart()
    await world.drain(T)
    assert await events(world) == ["published", "committed", "delivered", "delivered", "acknowledged"]
    assert_sound(world.store)


async def test_what_was_noted_is_true_to_the_store_after_a_fault(world):
    await traced(world, b"a")
    world.store.fail_writes = {world.store.write_count + 1}
    published = world.broker.publish(T, [b"lost"])
    with pytest.raises(OutcomeUnknownError):
        await published.commit.wait()
    await settle_down()
    await world.drain(T)
    assert (await events(world))[-1] == "acknowledged"
    assert_sound(world.store)


async def test_a_deleted_topic_leaves_no_traces(world):
    await traced(world, b"a")
    await world.broker.delete_topic(T)
    await settle_down()
    assert stored(world) == stored(world, Space.TRACES) == []
    await traced(world, b"b")
    assert await events(world) == ["published", "committed"]


# --- forgetting ----------------------------------------------------------------------------------------------


async def test_what_is_too_old_is_forgotten_and_the_rest_is_not(monkeypatch):
    monkeypatch.setattr(tracer, "PAGE_ITEMS", 3)

    async with started_world() as world:
        await traced(world, trace_seconds=100)
        for number in range(10):
            await world.publish(T, b"%d" % number)
        holder = await world.holding(T)
        await pass_time(world, 0)
        await pass_time(world, 90)
        await world.publish(T, b"late")
        await pass_time(world, 20)
        with pytest.raises(UnknownMessageError):
            await steps(world, 9)
        assert await events(world, 10) == ["published", "committed"]
        holder.consumer.ack()
        assert await events(world, 0) == ["acknowledged"]
        await pass_time(world, 200)
        assert stored(world) == []
        assert_sound(world.store)


async def test_what_happens_late_to_an_old_message_keeps_nothing_else(monkeypatch):
    monkeypatch.setattr(tracer, "PAGE_ITEMS", 2)

    async with started_world() as world:
        await traced(world, trace_seconds=100)
        for _ in range(3):
            await world.publish(T, *[b"x"] * 2048)  # a block each
        await pass_time(world, 0)
        await pass_time(world, 90)
        take(world, is_acked=True)
        await pass_time(world, 20)
        assert [key[13:21] for key in stored(world)] == [bytes(8)]
        assert await events(world, 0) == ["delivered", "acknowledged"]
        assert_sound(world.store)


async def test_beyond_so_many_bytes_the_oldest_go(monkeypatch):
    monkeypatch.setattr(tracer, "MAX_TRACE_BYTES", 500)

    async with started_world() as world:
        await traced(world)
        for _ in range(6):
            await world.publish(T, *[b"x"] * 2048)
            await pass_time(world, 0)
        await pass_time(world, 11)
        assert 0 < sum(len(key) + len(world.store.pairs()[key]) for key in stored(world)) <= 500
        assert await events(world, 6 * 2048 - 1) == ["published", "committed"]
        assert_sound(world.store)


async def test_a_store_is_sound_after_every_commit(world):
    await traced(world, b"a", b"b", b"c", trace_seconds=5, max_deliveries=2)
    for _ in range(6):
        asked = take(world)
        world.broker.leases.nack(T, asked.receipts)
        await pass_time(world, 3)
    for count in range(1, len(world.store.batches) + 1):
        assert_sound(await world.store.as_of(count))


# --- attacks -------------------------------------------------------------------------------------------------


async def test_of_a_trace_without_end_the_first_steps_and_the_last_are_told(monkeypatch):
    monkeypatch.setattr(trace_steps, "MAX_STEPS", 10)
    monkeypatch.setattr(trace_steps, "FIRST_STEPS", 3)
    monkeypatch.setattr(reader, "PAGE_ITEMS", 4)

    async with started_world() as world:
        await traced(world, b"a")
        for _ in range(20):
            world.broker.leases.nack(T, take(world).receipts)
            await world.commit()
        told = await steps(world)
        assert [step.event for step in told[:4]] == ["published", "committed", "delivered", "left_out"]
        assert told[3].reason == b"32"
        assert [step.event for step in told[4:]] == ["nacked"] + ["delivered", "nacked"] * 3


@pytest.mark.parametrize(
    "row",
    [
        (Kind.DELIVERED, 0, 1, 0, b"g", b"stranger", 1),
        (Kind.DEAD_LETTERED, 0, 1, 0, b"g", b"x t.dlq", 1),
        (Kind.DUE, 0, 1, 0, b"", b"0-1", 0),
    ],
)
async def test_what_makes_no_sense_is_damage(row, world):
    await traced(world, b"a")
    ((_, value),) = traces.encode_rows([row], START_MS)
    await world.store.write({trace_keys.trace(world.broker._engine.topics.by_name[T].id, 0, 0, 7): value})
    with pytest.raises(CorruptionError):
        await steps(world)


async def test_what_makes_no_sense_of_groups_is_damage(world):
    await traced(world, b"a")
    ((_, value),) = traces.encode_rows([(Kind.SOUGHT, 0, 1, 0, b"g", b"1 2", 0)], START_MS)
    await world.store.write(
        {trace_keys.trace(world.broker._engine.topics.by_name[T].id, trace_keys.GROUPS, 0, 0): value}
    )
    with pytest.raises(CorruptionError):
        await steps(world)


async def test_topics_in_which_nothing_can_be_too_old_are_not_read(monkeypatch, world):
    await traced(world, b"a", trace_seconds=1000)
    await pass_time(world, 11)
    scan_count = world.store.scan_count
    for _ in range(5):
        await pass_time(world, 100)
    assert world.store.scan_count == scan_count
    await world.broker.admin.change(T, {"trace_seconds": 100}).wait()
    await pass_time(world, 11)
    assert stored(world) == []


async def test_a_topic_that_is_made_again_has_traces_of_its_own(world):
    await traced(world, b"a")
    holder = await world.holding(T)
    await world.broker.delete_topic(T)
    await traced(world, b"b")
    await pass_time(world, 0)
    holder.consumer.close()
    assert await events(world) == ["published", "committed"]
    await world.broker.admin.change(T, {"trace": None}).wait()
    await world.drain(T)
    await world.broker.admin.change(T, {"trace": True}).wait()
    await world.publish(T, b"c")
    await world.restart()
    assert await events(world) == ["published", "committed"]
    assert await events(world, 1) == ["published", "committed"]
    assert_sound(world.store)


async def test_a_backup_has_what_waits(world):
    await traced(world, b"a")
    await world.broker.snapshot()
    assert len(stored(world)) == 1


async def test_when_a_chunk_of_earlier_was_committed_is_noted_once(world):
    await traced(world)
    await world.publish(T, *[b"x"] * 100)
    await crash(world)
    assert len(await world.drain(T)) == 100
    for seq in (0, 57, 99):
        assert await events(world, seq) == ["published", "committed", "delivered", "acknowledged"]
    rows = [event for key in stored(world) for event in traces.decode_trace(world.store.pairs()[key]).events]
    assert [event.message_count for event in rows if event.kind is Kind.COMMITTED] == [100]


async def test_traces_are_not_exported(world):
    await traced(world, b"a")
    take(world)
    await world.broker.groups.create(T, b"other")
    await world.broker.groups.delete(T, b"other")
    await delayed(world, b"later")
    await pass_time(world, 0)
    lines = [*Exporter().lines(iter(sorted(world.store.pairs().items())))]
    assert sum(b'"text"' in line for line in lines) == 2
    assert not any(b"delivered" in line or b"ada" in line for line in lines)
