"""Messages of a priority: their order, their ids, and that they stay in their lane through everything."""

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import TopicFullError
from tests.broker.support import World, world_with
from tests.fakes import settle_down

HIGH, NORMAL, LOW = Priority


async def publish(world: World, priority: Priority, *payloads: bytes) -> list[bytes]:
    accepted = [world.broker.publish_with(b"t", payload, PublishOptions(priority=priority)) for payload in payloads]
    await world.commit()
    return [one.message_id for one in accepted]


async def receive(world: World, topic: bytes = b"t", count: int = 10) -> list[tuple[bytes, bytes]]:
    """Return receipts and payloads."""
    answers = []
    options = ReceiveOptions(count, wait_seconds=5)
    world.broker.leases.receive(topic, options, answers.append, answers.append)
    await settle_down()
    return [
        (b"%b%d" % (answers[0].prefix, receipt), payload)
        for _, lease in answers[0].leases
        for receipt, payload in enumerate(lease.payloads, lease.receipt)
    ]


async def test_what_is_high_goes_first_and_the_id_says_the_priority(world):
    ids = [*await publish(world, LOW, b"l0", b"l1"), *await publish(world, NORMAL, b"n0")]
    ids += await publish(world, HIGH, b"h0", b"h1")
    assert ids == [b"0.low-0", b"0.low-1", b"0-0", b"0.high-0", b"0.high-1"]
    assert await world.drain(b"t") == [b"h0", b"h1", b"n0", b"l0", b"l1"]


async def test_lanes_are_there_again_after_a_restart(world):
    await publish(world, LOW, b"l0")
    await publish(world, HIGH, b"h0")
    await world.restart()
    await publish(world, NORMAL, b"n0")
    assert await publish(world, HIGH, b"h1") == [b"0.high-1"]
    assert world.broker.stats()[b"t"].ready == 4
    assert await world.drain(b"t") == [b"h0", b"h1", b"n0", b"l0"]
    await world.restart()
    assert world.broker.stats()[b"t"].ready == 0
    assert await publish(world, LOW, b"l1") == [b"0.low-1"]


async def test_what_comes_back_goes_to_the_front_of_its_own_lane(world):
    await publish(world, HIGH, b"h0", b"h1")
    await publish(world, NORMAL, b"n0", b"n1")
    taken = dict(reversed(one) for one in await receive(world))
    assert world.broker.leases.nack(b"t", [taken[b"n1"], taken[b"h1"]]) == [True, True]
    assert world.broker.leases.ack(b"t", [taken[b"n0"]]) == [True]
    await world.restart()
    assert await world.drain(b"t") == [b"h1", b"h0", b"n1"]


async def test_no_two_messages_have_the_same_receipt(world):
    for priority in Priority:
        await publish(world, priority, b"1", b"2", b"3")
    receipts = [receipt for receipt, _ in await receive(world)]
    assert len({*receipts}) == 9
    assert world.broker.leases.ack(b"t", receipts) == [True] * 9
    assert world.broker.stats()[b"t"].acknowledged == 9


async def test_dead_letters_keep_their_priority_and_take_it_back(world):
    await world.broker.admin.create(b"t", {"max_deliveries": 1}).wait()
    await publish(world, HIGH, b"h0")
    await publish(world, LOW, b"l0")
    receipts = [receipt for receipt, _ in await receive(world)]
    assert world.broker.leases.nack(b"t", receipts) == [True, True]
    await world.commit()
    assert {*world.broker._engine.topics.by_name[b"t.dlq"].partitions} == {0, 1 << 16, 2 << 16}
    assert await world.broker.redrive(b"t.dlq") == 2
    assert [payload for _, payload in await receive(world)] == [b"h0", b"l0"]


async def test_a_topic_that_is_deleted_takes_its_lanes_with_it(world):
    await publish(world, HIGH, b"h0")
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert await publish(world, NORMAL, b"n0") == [b"0-0"]
    assert await publish(world, HIGH, b"h1") == [b"0.high-0"]
    assert await world.drain(b"t") == [b"h1", b"n0"]


async def test_a_limit_counts_all_lanes(world):
    await world.broker.admin.create(b"t", {"max_messages": 3}).wait()
    await publish(world, HIGH, b"h0")
    await publish(world, LOW, b"l0", b"l1")
    with pytest.raises(TopicFullError):
        await publish(world, NORMAL, b"n0")
    await receive(world)
    assert world.broker.inspect.depth(b"t") == 3


@world_with(limits=BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DROP_OLDEST))
async def test_what_is_dropped_for_want_of_room_is_of_the_lowest_lane(world):
    await publish(world, HIGH, b"h0")
    await publish(world, LOW, b"l0", b"l1")
    await publish(world, NORMAL, b"n0", b"n1")
    assert await world.drain(b"t") == [b"h0", b"n0", b"n1"]


async def test_a_fault_of_the_store_forgets_a_lane_that_was_not_stored(world):
    await publish(world, NORMAL, b"n0")
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish_with(b"t", b"h0", PublishOptions(priority=HIGH))
    await settle_down()
    assert {*world.broker._engine.topics.by_name[b"t"].partitions} == {0}
    assert await publish(world, HIGH, b"h1") == [b"0.high-0"]
    assert [*await world.drain(b"t"), *await world.drain(b"t")] == [b"h1", b"n0"]


async def test_the_oldest_message_may_be_in_any_lane(world):
    await publish(world, LOW, b"l0")
    world.clock.advance(10)
    await publish(world, HIGH, b"h0")
    assert (await world.broker.inspect.stats(b"t"))["oldest_seconds"] == 10


async def test_a_look_goes_through_the_lanes_in_their_order_and_finds_what_is_in_them(world):
    await publish(world, LOW, b"l0", b"l1")
    await publish(world, HIGH, b"h0", b"h1")
    await publish(world, NORMAL, b"n0")
    peeker = world.broker.inspect
    assert [one.message_id for one in await peeker.peek(b"t")] == [
        *(b"0.high-0", b"0.high-1", b"0-0", b"0.low-0", b"0.low-1")
    ]
    assert [one.message_id for one in await peeker.peek(b"t", count=2, after=(1 << 16, 0))] == [b"0.high-1", b"0-0"]
    assert [one.message_id for one in await peeker.peek(b"t", after=(2 << 16, 0))] == [b"0.low-1"]
    assert (await peeker.find(b"t", (2 << 16, 1))).stored.payload == b"l1"
    taken = await receive(world, count=2)
    assert [one.message_id for one in await peeker.peek(b"t", State.LEASED)] == [b"0.high-0", b"0.high-1"]
    assert (await peeker.find(b"t", (1 << 16, 1))).state is State.LEASED
    world.broker.leases.dack(b"t", [taken[1][0]], 60)
    assert [one.message_id for one in await peeker.peek(b"t", State.DELAYED)] == [b"0.high-1"]
    assert await world.broker.purge(b"t") == 4
