"""Consumers: one message at a time, first come, first served, every settle where it belongs."""

import asyncio
import math
import time

import pytest

from miniqueue.broker import SystemClock
from miniqueue.core.message.message import Counts
from miniqueue.errors import (
    InvalidDelayError,
    InvalidTopicError,
    MessageOutstandingError,
    NothingOutstandingError,
)
from tests.broker.support import world_with
from tests.fakes import settle_down

SETTLES = {
    "ack": lambda consumer: consumer.ack(),
    "nack": lambda consumer: consumer.nack(),
    "back": lambda consumer: consumer.back(),
    "dack": lambda consumer: consumer.dack(1),
}


async def test_a_waiting_consumer_gets_the_next_message(world):
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    assert consumer.consumer.is_waiting
    await world.publish(b"t", b"a", b"b")
    assert (consumer.payloads, consumer.consumer.is_waiting) == ([b"a"], False)


@pytest.mark.parametrize(("settle", "order"), [("ack", b"bc"), ("nack", b"abc"), ("back", b"bca"), ("dack", b"bc")])
async def test_where_a_settled_message_goes(settle, order, world):
    await world.publish(b"t", b"a", b"b", b"c")
    SETTLES[settle]((await world.holding(b"t")).consumer)
    assert b"".join(await world.drain(b"t")) == order


@pytest.mark.parametrize("settle", sorted(SETTLES))
async def test_settling_without_a_message_is_refused_and_touches_no_other(settle, world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    idle, waiting = world.consumer(b"t"), world.consumer(b"t")
    waiting.consumer.request()
    for consumer in (idle, waiting):
        with pytest.raises(NothingOutstandingError):
            SETTLES[settle](consumer.consumer)
    SETTLES[settle](holder.consumer)
    with pytest.raises(NothingOutstandingError):
        SETTLES[settle](holder.consumer)


async def test_asking_twice_is_refused_while_holding_and_while_waiting(world):
    waiting = world.consumer(b"t").consumer
    waiting.request()
    with pytest.raises(MessageOutstandingError):
        waiting.request()
    await world.publish(b"t", b"a")
    with pytest.raises(MessageOutstandingError):
        waiting.request()
    waiting.ack()
    waiting.request()
    assert waiting.is_waiting


async def test_an_invalid_topic_has_no_consumer(world):
    with pytest.raises(InvalidTopicError):
        world.consumer(b"a b")
    assert world.broker.stats() == {}


@pytest.mark.parametrize("delay_seconds", [-1, -0.001, math.nan, math.inf, -math.inf, 1e300])
async def test_an_impossible_delay_keeps_the_message(delay_seconds, world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    with pytest.raises(InvalidDelayError):
        holder.consumer.dack(delay_seconds)
    holder.consumer.ack()
    assert await world.drain(b"t") == []


# --- wake-ups ---------------------------------------------------------------------------------------------------


async def test_messages_go_to_who_has_waited_longest(world):
    events = []
    consumers = [
        world.broker.consumer(b"t", lambda leases, n=n: events.append((n, leases[0].payloads[0])), events.append)
        for n in range(4)
    ]
    for number in (2, 0, 3, 1):
        consumers[number].request()
    await world.publish(b"t", b"a", b"b", b"c")
    assert events == [(2, b"a"), (0, b"b"), (3, b"c")]
    consumers[1].close()
    consumers[2].ack()
    consumers[2].request()
    await world.publish(b"t", b"d")
    assert events[3:] == [(2, b"d")]


@pytest.mark.parametrize("waiting_count", [1, 3, 7])
async def test_as_many_wake_as_there_are_messages(waiting_count, world):
    consumers = [world.consumer(b"t") for _ in range(waiting_count)]
    for consumer in consumers:
        consumer.consumer.request()
    await world.publish(b"t", *(b"%d" % n for n in range(5)))
    delivered = [payload for consumer in consumers for payload in consumer.payloads]
    assert delivered == [b"%d" % n for n in range(min(5, waiting_count))]
    assert world.broker.stats()[b"t"].waiting == max(0, waiting_count - 5)


async def test_a_newcomer_does_not_overtake_who_waits(world):
    await world.publish(b"t", b"a")
    await world.restart()
    first, second = world.consumer(b"t"), world.consumer(b"t")
    first.consumer.request()  # must wait for the load
    second.consumer.request()
    await settle_down()
    assert (first.payloads, second.payloads) == ([b"a"], [])


@pytest.mark.parametrize("settle", ["nack", "back"])
async def test_a_returned_message_wakes_who_waits(settle, world):
    await world.publish(b"t", b"a")
    holder, waiting = await world.holding(b"t"), world.consumer(b"t")
    waiting.consumer.request()
    SETTLES[settle](holder.consumer)
    assert waiting.payloads == [b"a"]


# --- leaving ----------------------------------------------------------------------------------------------------


async def test_a_message_of_a_consumer_that_leaves_goes_to_the_front_and_is_counted(world):
    await world.publish(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.close()
    again = await world.holding(b"t")
    assert (again.payloads, again.leases[0].counts) == ([b"a"], Counts(disconnects=1))


async def test_a_consumer_that_leaves_while_waiting_swallows_no_message(world):
    gone, waiting = world.consumer(b"t"), world.consumer(b"t")
    gone.consumer.request()
    waiting.consumer.request()
    gone.consumer.close()
    gone.consumer.close()
    await world.publish(b"t", b"a")
    assert (gone.payloads, waiting.payloads) == ([], [b"a"])
    assert world.broker.stats()[b"t"].consumers == 1


async def test_a_consumer_that_asks_after_it_has_left_swallows_no_message(world):
    await world.publish(b"t", b"a", b"b")
    gone, other = world.consumer(b"t"), world.consumer(b"t")
    gone.consumer.close()
    gone.consumer.request()
    gone.consumer.refill()
    other.consumer.request()
    assert (gone.payloads, other.payloads) == ([], [b"a"])
    other.consumer.ack()
    assert await world.drain(b"t") == [b"b"]
    gone.consumer.request()
    await world.publish(b"t", b"c")
    assert await world.drain(b"t") == [b"c"]


async def test_a_topic_that_nobody_published_to_goes_with_its_last_consumer(world):
    one, other = world.consumer(b"t"), world.consumer(b"t")
    one.consumer.close()
    assert b"t" in world.broker.stats()
    other.consumer.close()
    assert world.broker.stats() == {}


# --- time --------------------------------------------------------------------------------------------------------


async def test_a_delayed_message_comes_with_the_first_tick_when_it_is_due_and_never_early(world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    holder.consumer.dack(1.5)
    holder.consumer.request()
    for seconds, count in ((1.499, 1), (0.001, 2)):
        world.clock.advance(seconds)
        world.broker.tick()
        assert len(holder.leases) == count
    assert holder.leases[1].counts == Counts(dacks=1)


async def test_a_delay_that_begins_within_a_millisecond_is_not_cut_short_by_the_part_before_it(world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    world.clock.next_ms = lambda: world.clock.time_ms + 1
    holder.consumer.dack(0.010)
    holder.consumer.request()
    for count in (1, 2):
        world.clock.advance(0.010 if count == 1 else 0.001)
        world.broker.tick()
        assert len(holder.leases) == count


async def test_a_delay_of_nothing_ends_with_the_next_tick(world):
    await world.publish(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.dack(0)
    consumer = world.consumer(b"t")
    assert consumer.drain() == [b"b"]
    world.broker.tick()
    world.clock.advance(0.001)
    world.broker.tick()
    assert consumer.payloads == [b"b", b"a"]


async def test_delayed_messages_come_back_in_due_order_first_in_first_out_among_equals(world):
    await world.publish(b"t", *(b"%d" % n for n in range(12)))
    for delay_seconds in (3, 1, 2, 1, 3, 1, 2, 1, 1, 1, 1, 1):
        (await world.holding(b"t")).consumer.dack(delay_seconds)
    world.clock.advance(3)
    world.broker.tick()
    assert [int(payload) for payload in await world.drain(b"t")] == [1, 3, 5, 7, 8, 9, 10, 11, 2, 6, 0, 4]


async def test_a_clock_that_steps_forwards_makes_due_what_is_due_by_it(world):
    await world.publish(b"t", b"a")
    (await world.holding(b"t")).consumer.dack(3600)
    world.clock.advance(365 * 86400)
    world.broker.tick()
    assert await world.drain(b"t") == [b"a"]


async def test_a_clock_that_steps_back_makes_nothing_early_and_loses_nothing(world):
    await world.publish(b"t", b"a", b"b", b"c")
    (await world.holding(b"t")).consumer.dack(10)
    world.clock.advance(-3600)
    world.broker.tick()
    (await world.holding(b"t")).consumer.dack(10)
    assert await world.drain(b"t") == [b"c"]
    world.clock.advance(10)
    world.broker.tick()
    assert await world.drain(b"t") == [b"b"]
    world.clock.advance(3600)
    world.broker.tick()
    assert await world.drain(b"t") == [b"a"]


@world_with(period_seconds=0.001)
async def test_the_broker_ticks_by_itself(world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    delivered = asyncio.Event()
    holder.consumer.dack(5)
    holder.consumer.deliver = lambda lease: delivered.set()
    holder.consumer.request()
    world.clock.advance(5)
    await delivered.wait()


def test_the_system_clock_counts_milliseconds():
    before = time.time()
    now_ms, next_ms = SystemClock().now_ms(), SystemClock().next_ms()
    after = time.time()
    assert before * 1000 - 1 <= now_ms <= after * 1000 + 0.001  # a float of seconds is off by less than a microsecond
    assert before * 1000 - 0.001 <= next_ms <= after * 1000 + 1


async def test_those_who_leave_together_are_not_given_what_the_others_return(world):
    """Otherwise each of them gets the message in turn, and it counts as delivered as often."""
    await world.publish(b"t", b"x")
    holding, *leaving, staying = [world.consumer(b"t") for _ in range(4)]
    for each in (holding, *leaving, staying):
        each.consumer.request()
    with world.broker.leases.dispatcher.many_leave():
        for each in (holding, *leaving):
            each.consumer.close()
        assert staying.leases == []
    assert [each.payloads for each in leaving] == [[], []]
    assert staying.payloads == [b"x"]
    assert staying.leases[0].counts.disconnects == 1
