"""All topics at once: their rows, the sums, what needs attention and since when, and what that costs."""

import asyncio
import re

import pytest

from miniqueue.broker.inspect import overview, survey
from miniqueue.broker.inspect.attention import Kind
from miniqueue.broker.inspect.history import STEP_SECONDS
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.options.start import parse_start
from miniqueue.core.settings.fields import Side
from miniqueue.errors import CorruptionError
from tests.broker.support import world_with
from tests.fakes import START_MS, settle_down


async def pass_time(world, seconds):
    """Advance the clock by seconds; measure the rates after each, and add a point to the history at each step."""
    for _ in range(seconds):
        world.clock.advance(1)
        await world.broker.inspect.rates.look(world.clock.monotonic())
        world.broker.tick()
        await settle_down()
        if world.clock.monotonic() % STEP_SECONDS == 0:
            await world.broker.overview.note()


async def look(world):
    """Return a new survey."""
    world.clock.advance(1)
    return await world.broker.overview.look()


def found(surveyed):
    return [(each.kind, each.topic, each.group) for each in surveyed.findings]


async def test_a_row_for_each_topic_by_name(world):
    await world.publish(b"b", b"1", b"2", b"3")
    await world.publish(b"a", b"1")
    holder = await world.holding(b"b")
    rows = (await look(world)).rows
    assert list(rows) == [b"a", b"b"]
    row = rows[b"b"]
    assert (row.ready, row.leased, row.delayed, row.dead, row.consumers, row.groups) == (2, 1, 0, 0, 1, 1)
    assert (row.paused, row.is_damaged, row.has_letters, row.is_idle) == ("", False, False, False)
    holder.consumer.close()


async def test_leased_messages_are_those_of_all_groups(world):
    await world.publish(b"t", b"1", b"2", b"3")
    await world.broker.groups.create(b"t", b"slow", parse_start(b"earliest"))
    (await world.holding(b"t")).consumer.ack()
    holder = await world.holding(b"t")
    surveyed = await look(world)
    row = surveyed.rows[b"t"]
    assert (row.ready, row.leased, row.depth, surveyed.totals.leased) == (3, 1, 3, 1)
    holder.consumer.close()


async def test_rates_are_of_the_last_ten_seconds(world):
    await world.publish(b"t", b"x")
    await pass_time(world, 1)
    await world.publish(b"t", *[b"x"] * 20)
    await pass_time(world, 10)
    assert (await look(world)).rows[b"t"].published == 2


async def test_a_topic_at_rest_has_a_row_and_sleeps_on(world):
    await world.publish(b"t", b"x")
    await world.broker.groups.create(b"t", b"other")
    await world.drain(b"t")
    await world.broker.groups.delete(b"t", b"other")
    topic = world.broker._engine.topics.by_name[b"t"]
    await pass_time(world, 200)
    assert topic.at_rest is not None
    row = (await look(world)).rows[b"t"]
    assert (row.is_idle, row.groups) == (True, 1)
    await pass_time(world, STEP_SECONDS)
    assert topic.at_rest is not None


async def test_dead_letters_are_counted_for_the_topic_they_came_from(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 1}).wait()
    await world.publish(b"t", b"1", b"2")
    (await world.holding(b"t")).consumer.nack()
    await world.commit()
    surveyed = await look(world)
    assert surveyed.rows[b"t"].dead == 1
    assert surveyed.rows[b"t.dlq"].has_letters
    assert (surveyed.totals.ready, surveyed.totals.dead) == (1, 1)


async def test_dead_letters_of_several_topics_in_one_are_of_unknown_origin(world):
    for name in (b"a", b"b"):
        await world.broker.admin.create(name, {"max_deliveries": 1, "dead_letter_topic": "dead"}).wait()
        await world.publish(name, b"1")
    await pass_time(world, STEP_SECONDS)
    (await world.holding(b"a")).consumer.nack()
    await world.commit()
    await pass_time(world, STEP_SECONDS)
    surveyed = await look(world)
    assert [surveyed.rows[name].dead for name in (b"a", b"b", b"dead")] == [None, None, 0]
    assert (Kind.DEAD, b"dead", b"") in found(surveyed)


async def test_new_dead_letters_need_attention_for_fifteen_minutes(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 1}).wait()
    await pass_time(world, STEP_SECONDS)
    assert found(await look(world)) == []
    await world.publish(b"t", b"1")
    (await world.holding(b"t")).consumer.nack()
    await world.commit()
    await pass_time(world, STEP_SECONDS)
    surveyed = await look(world)
    assert found(surveyed) == [(Kind.DEAD, b"t", b"")]
    assert surveyed.findings[0].text == "Dead letters: 1 more in 15 minutes, 1 in total."
    await pass_time(world, 46 * STEP_SECONDS)
    assert found(await look(world)) == []


async def test_a_group_is_behind_when_more_comes_than_is_settled_for_a_minute(world):
    await world.publish(b"t", b"first")
    await world.broker.groups.create(b"t", b"slow")
    for _ in range(130):
        await world.publish(b"t", b"x", b"x")
        await world.drain(b"t")
        await pass_time(world, 1)
    behind = [each for each in (await look(world)).findings if each.kind is Kind.BEHIND]
    assert [(each.topic, each.group) for each in behind] == [(b"t", b"slow")]
    assert re.match(r"The backlog grew by [0-9]+ in 60 s; [0-9]+ are ready, and the oldest ", behind[0].text)


async def test_messages_without_a_consumer_need_attention_after_a_minute(world):
    await world.publish(b"t", b"x")
    await pass_time(world, 59)
    assert found(await look(world)) == []
    await pass_time(world, 130)
    surveyed = await look(world)
    assert found(surveyed) == [(Kind.NO_CONSUMERS, b"t", b"default")]
    consumer = await world.holding(b"t")
    assert found(await look(world)) == []
    consumer.consumer.close()


async def test_a_finding_is_dated_by_when_it_was_first_seen(world):
    await world.publish(b"t", b"x")
    await world.broker.admin.pause(b"t", Side.IN).wait()
    first = await look(world)
    world.clock.advance(100)
    second = await world.broker.overview.look()
    assert found(second) == [(Kind.PAUSED, b"t", b"")]
    assert first.findings[0].since_ms == second.findings[0].since_ms == START_MS + 1000
    await world.broker.admin.resume(b"t", Side.IN).wait()
    assert found(await look(world)) == []


async def test_a_damaged_topic_and_a_refusal_come_first(world):
    await world.publish(b"t", b"x")
    await world.publish(b"u", b"x")
    await world.broker.admin.pause(b"u", Side.OUT).wait()
    world.broker._engine.topics.by_name[b"t"].fault = CorruptionError("bytes are missing")
    world.broker._engine.journal.admission.set_full(True, 0)
    assert found(await look(world)) == [
        (Kind.REFUSED, b"", b""),
        (Kind.DAMAGED, b"t", b""),
        (Kind.PAUSED, b"u", b""),
    ]


@world_with(limits=BrokerLimits(max_topics=10, max_topic_messages=10))
async def test_limits_that_are_nearly_reached_need_attention(world):
    for number in range(9):
        await world.publish(b"t%d" % number, b"x")
    await world.publish(b"t0", *[b"x"] * 8)
    assert found(await look(world)) == [(Kind.LIMIT, b"", b""), (Kind.LIMIT, b"t0", b"")]


async def test_a_disk_that_is_nearly_full_needs_attention(world):
    world.broker.overview.begin(256 << 20)
    world.broker._engine.journal.admission.free_bytes = 300 << 20
    assert found(await look(world)) == [(Kind.DISK, b"", b"")]


async def test_clients_that_look_within_a_second_share_a_survey(world):
    await world.publish(b"t", b"x")
    first = await look(world)
    assert await world.broker.overview.look() is first
    assert await look(world) is not first


@pytest.mark.parametrize(
    ("survey_seconds", "rest_seconds"),
    [(0.25, 0.25 * overview.REST_FACTOR), (30, overview.MAX_REST_SECONDS)],
    ids=["many topics", "the process stood still"],
)
async def test_a_long_survey_is_used_for_longer(world, monkeypatch, survey_seconds, rest_seconds):
    await world.publish(b"t", b"x")
    whole = survey.Survey.make

    async def slow(*arguments):
        world.clock.advance(survey_seconds)
        return await whole(*arguments)

    monkeypatch.setattr(survey.Survey, "make", slow)
    first = await look(world)
    world.clock.advance(rest_seconds - 1)
    assert await world.broker.overview.look() is first
    world.clock.advance(1)
    assert await world.broker.overview.look() is not first


async def test_the_history_has_the_broker_and_its_topics(world):
    await world.publish(b"t", b"x", b"y")
    topic_id = world.broker._engine.topics.by_name[b"t"].id
    await pass_time(world, STEP_SECONDS)
    await world.drain(b"t")
    await pass_time(world, STEP_SECONDS)
    history = world.broker.overview.history
    assert [point.ready for point in history.of_broker().points] == [2, 0]
    assert [point.ready for point in history.of_topic(topic_id).points] == [2, 0]
    assert [point.acknowledged for point in history.of_topic(topic_id).points] == [0, 0.1]


async def test_a_point_is_added_at_each_step(world):
    naps = []

    async def sleep(seconds):
        naps.append(seconds)
        if len(naps) > 3:
            raise asyncio.CancelledError
        world.clock.advance(seconds)

    world.clock.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await world.broker.overview.run(sleep)
    assert naps == [STEP_SECONDS - 5, *[STEP_SECONDS] * 3]
    assert len(world.broker.overview.history.of_broker().points) == 3


async def test_a_sleep_that_ends_early_makes_no_gap(world):
    naps = []

    async def sleep(seconds):
        naps.append(seconds)
        if len(naps) > 5:
            raise asyncio.CancelledError
        world.clock.advance(seconds - (0.001 if len(naps) in (1, 4) else 0))

    with pytest.raises(asyncio.CancelledError):
        await world.broker.overview.run(sleep)
    assert [round(nap, 3) for nap in naps] == [STEP_SECONDS, 0.001, STEP_SECONDS, STEP_SECONDS, 0.001, STEP_SECONDS]
    points = world.broker.overview.history.of_broker().points
    assert len(points) == 3
    assert None not in points


async def test_a_tick_has_one_point(world):
    await pass_time(world, STEP_SECONDS)
    await world.broker.overview.note()
    assert len(world.broker.overview.history.of_broker().points) == 1


async def test_the_history_is_charged_to_the_process(world):
    world.broker.overview.begin()
    await world.publish(b"t", b"x")
    await pass_time(world, STEP_SECONDS + 1)
    assert world.broker.memory.amounts()[Purpose.HISTORY] > 0


async def test_a_topic_that_is_deleted_during_a_survey_has_no_row(world, monkeypatch):
    for number in range(3):
        await world.broker.admin.create(b"t%d" % number, {"partitions": 2}).wait()
    monkeypatch.setattr(survey, "TOPICS_IN_TURN", 1)
    whole, count = survey.count_due, 0

    async def delete_meanwhile(engine, topic):
        nonlocal count
        count += 1
        if count == 1:
            await world.broker.delete_topic(b"t0")
            await world.broker.delete_topic(b"t1")
        await whole(engine, topic)

    monkeypatch.setattr(survey, "count_due", delete_meanwhile)
    assert list((await look(world)).rows) == [b"t2"]


@pytest.mark.parametrize("count", [0, 250])
async def test_totals_are_sums(world, count):
    for number in range(count):
        await world.publish(b"t%d" % number, b"xx")
    totals = (await look(world)).totals
    assert (totals.topics, totals.ready, totals.stored_bytes) == (count, count, 2 * count)
