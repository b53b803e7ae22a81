"""Figures of topics: counts, rates, latencies and ages, and what it costs to know them."""

import asyncio

import pytest

from miniqueue.broker.inspect import recent
from miniqueue.broker.inspect.rates import SAMPLES
from miniqueue.core.statistics import TICKS
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import UnknownTopicError
from tests.fakes import START_MS, settle_down
from tests.loops import CalmLoop, on_loop

NO_RATES = {f"{kind}_rate_{span}s": 0 for kind in ("publish", "deliver", "ack", "return") for span in (1, 10, 60)}


async def look(world, seconds):
    """Measure the topics once a second, up to a time."""
    inspect = world.broker.inspect
    began, now = getattr(world, "looked", (inspect.rates._times_seconds[0], 0))
    for second in range(now + 1, seconds + 1):
        await inspect.rates.look(began + second)
    world.looked = began, seconds


def rates(figures, kind):
    return [figures[f"{kind}_rate_{span}s"] for span in (1, 10, 60)]


async def test_depth_is_what_is_not_acknowledged(world):
    inspect = world.broker.inspect
    assert inspect.depth(b"t") == 0
    await world.publish(b"t", b"a", b"b", b"c")
    (await world.holding(b"t")).consumer.ack()
    (await world.holding(b"t")).consumer.dack(5)
    assert inspect.depth(b"t") == 2
    with pytest.raises(InvalidTopicError):
        inspect.depth(b"a b")


async def test_a_topic_that_does_not_exist_has_no_figures(world):
    world.consumer(b"waited-for").consumer.request()
    for name in (b"t", b"waited-for"):
        with pytest.raises(UnknownTopicError):
            await world.broker.inspect.stats(name)


async def test_the_figures_of_a_topic(world):
    await world.publish(b"t", *[b"x" * 10] * 5)
    first, second = await world.holding(b"t"), await world.holding(b"t")
    second.consumer.ack()
    second.consumer.request()
    second.consumer.dack(5)
    world.clock.advance(2.5)
    assert await world.broker.inspect.stats(b"t") == {
        "depth": 4,
        "ready": 2,
        "leased": 1,
        "delayed": 1,
        "size_bytes": 40,
        "published": 5,
        "acknowledged": 1,
        "dropped": 0,
        "expired": 0,
        "duplicates": 0,
        "dedup_ids": 0,
        "unread_seconds": 0,
        "requests": 0,
        "moved": 0,
        "consumers": 2,
        "waiting": 0,
        "paused_in": False,
        "paused_out": False,
        "missed": 0,
        "leases": 1,
        "lease_timeouts": 0,
        "oldest_seconds": 2.5,
        "retained": 0,
        "retained_bytes": 0,
        "retained_seconds": None,
        **NO_RATES,
        "latency_p50_seconds": 0.001,
        "latency_p99_seconds": 0.001,
    }
    first.consumer.close()


async def test_rates_are_over_the_last_seconds(world):
    await look(world, 1)
    await world.publish(b"t", *[b"x"] * 60)
    consumer = await world.holding(b"t")
    consumer.consumer.nack()
    for _ in range(20):
        consumer.consumer.request()
        consumer.consumer.ack()
    await world.commit()
    await look(world, 2)
    figures = await world.broker.inspect.stats(b"t")
    assert rates(figures, "publish") == [60, 30, 30]  # there are but two seconds to look back at
    assert [rates(figures, kind)[0] for kind in ("deliver", "ack", "return")] == [21, 20, 1]
    await look(world, 5)
    assert rates(await world.broker.inspect.stats(b"t"), "publish") == [0, 12, 12]
    await look(world, TICKS + 1)
    assert rates(await world.broker.inspect.stats(b"t"), "publish") == [0, 0, 1]
    await look(world, TICKS + 2)
    assert rates(await world.broker.inspect.stats(b"t"), "publish") == [0, 0, 0]


async def test_a_message_is_published_once_however_many_groups_read_it(world):
    await world.publish(b"t", b"x")
    await world.broker.groups.create(b"t", b"other")
    await look(world, 1)
    await world.publish(b"t", *[b"x"] * 60)
    await world.drain(b"t")
    await world.commit()
    await look(world, 2)
    figures = await world.broker.inspect.stats(b"t")
    assert [rates(figures, kind)[0] for kind in ("publish", "ack")] == [60, 61]


async def test_rates_do_not_count_what_a_restart_or_a_deletion_took_away(world):
    await world.publish(b"t", *[b"x"] * 9)
    await look(world, 1)
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"x")
    await look(world, 2)
    assert (await world.broker.inspect.stats(b"t"))["publish_rate_1s"] in (0, 1)
    await world.restart()
    await look(world, 3)
    assert (await world.broker.inspect.stats(b"t"))["publish_rate_1s"] == 0


async def test_what_is_remembered_of_a_quiet_topic_goes(world):
    await world.publish(b"t", b"a")
    await world.holding(b"t")
    await look(world, 1)
    pulse = world.broker._engine.topics.by_name[b"t"].pulse
    assert pulse.activity is not None
    assert pulse.latencies is not None
    await look(world, TICKS + 1)
    assert pulse.activity is pulse.latencies is None
    assert not world.broker.inspect.rates._awake


async def test_latencies_are_those_from_commit_to_hand_out(world):
    await world.publish(b"t", b"a")
    world.clock.advance(0.15)
    consumer = await world.holding(b"t")
    world.clock.advance(100)
    consumer.consumer.nack()
    consumer.consumer.request()  # what came back is not timed: its consumer had it that long
    figures = await world.broker.inspect.stats(b"t")
    assert (figures["latency_p50_seconds"], figures["latency_p99_seconds"]) == (0.15, 0.15)


async def test_no_more_than_some_hand_outs_are_timed_in_a_second(world):
    await world.publish_each(b"t", *[b"x"] * 2 * SAMPLES)
    consumer = await world.holding(b"t")
    for _ in range(SAMPLES + 5):
        consumer.consumer.ack()
        consumer.consumer.request()
    pulse = world.broker._engine.topics.by_name[b"t"].pulse
    assert pulse.wanted == 0
    assert sum(pulse.latencies._counts) == SAMPLES
    await look(world, 1)
    assert pulse.wanted == SAMPLES


async def test_the_oldest_message_is_known_wherever_it_is(world):
    async def age():
        return (await world.broker.inspect.stats(b"t"))["oldest_seconds"]

    await world.publish(b"t", b"first")
    world.clock.advance(10)
    await world.publish(b"t", b"second")
    assert await age() == 10
    first = await world.holding(b"t")
    assert await age() == 10
    first.consumer.dack(1000)
    world.clock.advance(10)
    assert await age() == 20
    await world.restart()
    assert await age() == 20
    assert await world.drain(b"t") == [b"second"]
    assert await age() == 20
    world.clock.advance(2000)
    world.broker.tick()
    assert await world.drain(b"t") == [b"first"]
    assert await age() is None


async def test_the_oldest_message_of_a_new_topic_is_not_that_of_the_old_one(world):
    await world.publish(b"t", b"a")
    world.clock.advance(60)
    assert (await world.broker.inspect.stats(b"t"))["oldest_seconds"] == 60
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"b")
    assert (await world.broker.inspect.stats(b"t"))["oldest_seconds"] == 0


@on_loop(CalmLoop)  # rates are measured once a second
async def test_totals_are_the_sums_over_all_topics(world):
    for number in range(250):
        world.broker.publish(b"t%d" % number, [b"xx"])
    await world.commit()
    (await world.holding(b"t7")).consumer.ack()
    totals = await world.broker.inspect.totals()
    assert (totals["topics"], totals["depth"], totals["acknowledged"], totals["size_bytes"]) == (250, 249, 1, 498)
    assert totals["publish_rate_10s"] == 0
    assert "oldest_seconds" not in totals


async def test_many_topics_are_looked_at_in_turns(world):
    for number in range(1000):
        world.broker.publish(b"t%d" % number, [b"x"])
    await world.commit()
    turns = []

    async def count_turns():
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await world.broker.inspect.totals()
    await look(world, 1)
    counting.cancel()
    assert len(turns) >= 14


async def test_looking_reads_at_most_a_few_values_and_loads_nothing(world):
    for _ in range(50):
        await world.publish(b"t", *[b"x" * 1000] * 100)
    await world.restart()
    topic = world.broker._engine.topics.by_name[b"t"]
    before = topic.size_bytes, world.store.scan_count
    await world.broker.inspect.stats(b"t")
    await world.broker.inspect.stats(b"t")
    await settle_down()
    assert topic.size_bytes == before[0] == 0
    assert world.store.scan_count - before[1] <= 4
    assert world.clock.now_ms() == START_MS


async def test_a_topic_that_is_deleted_while_its_age_is_read_has_no_figures(world):
    await world.publish_each(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.back()
    await world.commit()
    await world.restart()
    world.store.may_scan.clear()
    looking = asyncio.create_task(world.broker.inspect.stats(b"t"))
    await settle_down()
    deleting = asyncio.create_task(world.broker.delete_topic(b"t"))
    await settle_down()
    world.store.may_scan.set()
    with pytest.raises(UnknownTopicError):
        await looking
    assert await deleting


async def test_sums_over_many_topics_are_made_once_a_second(world, monkeypatch):
    monkeypatch.setattr(recent, "MANY_TOPICS", 1)
    inspection = world.broker.inspect
    for topic in (b"a", b"b"):
        await world.publish(topic, b"x")
    assert ((await inspection.totals())["depth"], await inspection.content()) == (2, (2, 2))
    await world.publish(b"c", b"x")
    assert ((await inspection.totals())["depth"], await inspection.content()) == (2, (2, 2))
    world.clock.advance(recent.RECENT_SECONDS)
    assert ((await inspection.totals())["depth"], await inspection.content()) == (3, (3, 3))


async def test_sums_over_few_topics_are_those_of_now(world):
    await world.publish(b"a", b"x")
    assert ((await world.broker.inspect.totals())["depth"], await world.broker.inspect.content()) == (1, (1, 1))
    await world.publish(b"b", b"x")
    assert ((await world.broker.inspect.totals())["depth"], await world.broker.inspect.content()) == (2, (2, 2))
