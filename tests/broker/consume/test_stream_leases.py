"""Streams with a lease time: what is not settled in time returns to the front, and the stream continues."""

from itertools import chain, count, product
from random import Random
from types import SimpleNamespace

import pytest

from miniqueue.broker.consume import stream_leases
from miniqueue.broker.consume.dispatcher import MAX_RETURNED
from miniqueue.broker.consume.stream_leases import TimedHolding
from miniqueue.core.options.consume import StreamOptions
from miniqueue.errors import NothingOutstandingError, UnknownReceiptError
from tests.broker.support import World
from tests.fakes import ManualClock, settle_down

T = b"jobs"


class Stream:
    """A stream that records its messages and its errors."""

    def __init__(self, world: World, prefetch: int | None = None, lease_seconds: float | None = 10, **more) -> None:
        self.leases: list = []
        self.errors: list = []
        options = StreamOptions(prefetch, lease_seconds=lease_seconds, **more)
        self.consumer = world.broker.stream(T, options, self.leases.extend, self.errors.append)
        self.consumer.request()

    @property
    def payloads(self) -> list[bytes]:
        return [payload for lease in self.leases for payload in lease.payloads]


async def pass_seconds(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()


async def test_a_message_that_is_not_settled_in_time_goes_to_another_consumer(world):
    stream = Stream(world)
    await world.publish(T, b"a")
    other = Stream(world, lease_seconds=None)
    await pass_seconds(world, 9.9)
    assert other.payloads == []
    await pass_seconds(world, 0.1)
    assert (other.payloads, other.leases[0].counts.timeouts) == ([b"a"], 1)
    assert (stream.consumer.is_holding, stream.consumer.is_closed, stream.errors) == (False, False, [])
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 1


async def test_without_receipts_a_late_settle_is_refused_and_settles_nothing_else(world):
    stream = Stream(world)
    await world.publish(T, b"a", b"b")
    await pass_seconds(world, 10)
    assert stream.payloads == [b"a"], "the next message would be settled by the late command"
    with pytest.raises(NothingOutstandingError):
        stream.consumer.ack()
    stream.consumer.refill()
    stream.consumer.ack()
    stream.consumer.refill()
    assert stream.payloads == [b"a", b"a", b"b"]
    assert stream.leases[1].counts.timeouts == 1


async def test_with_receipts_the_stream_continues_at_once(world):
    stream = Stream(world, prefetch=2)
    await world.publish(T, b"a", b"b", b"c")
    await pass_seconds(world, 10)
    assert stream.payloads == [b"a", b"b", b"a", b"b"]
    with pytest.raises(UnknownReceiptError):
        stream.consumer.ack([1, 2])
    stream.consumer.ack([3])
    stream.consumer.refill()
    assert stream.payloads[4:] == [b"c"]
    assert await world.drain(T) == []


async def test_each_message_has_its_own_time_and_parts_of_a_delivery_keep_theirs(world):
    stream, other = Stream(world, prefetch=5), Stream(world, prefetch=9, lease_seconds=None)
    await world.publish(T, b"a", b"b", b"c")
    assert stream.payloads == [b"a", b"b", b"c"]
    await pass_seconds(world, 6)
    stream.consumer.ack([2])
    await pass_seconds(world, 3.9)
    assert other.payloads == []
    await pass_seconds(world, 0.1)
    assert other.payloads == [b"a", b"c"]
    assert not stream.consumer.is_holding


async def test_what_is_settled_in_time_is_gone_and_leaves_no_deadline(world):
    stream = Stream(world, prefetch=3)
    for number in range(200):
        await world.publish(T, b"%d" % number)
        stream.consumer.ack([number + 1])
        stream.consumer.refill()
    holding, _ = world.broker._stream_leases._streams[stream.consumer]
    assert len(holding._deadlines) <= 2 * 3 + stream_leases._FEW + 1
    await pass_seconds(world, 100)
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 0
    assert await world.drain(T) == []


async def test_the_deadlines_of_parts_are_kept_while_they_are_held(world):
    stream = Stream(world, prefetch=400)
    await world.publish(T, *[b"%d" % number for number in range(400)])
    await stream.consumer.ack(list(range(2, 400, 2)))
    *parts, kept = [lease for _, lease in stream.consumer.held()]
    assert len(parts) == 199
    end = world.clock.monotonic() + 10
    assert {stream.consumer.deadline_of(lease) for lease in (*parts, kept)} == {end}
    await stream.consumer.ack([lease.receipt for lease in parts])
    stream.consumer.refill()
    await world.publish(T, b"last")
    assert {stream.consumer.deadline_of(lease) for lease in parts} == {None}
    assert stream.consumer.deadline_of(kept) == end
    holding, _ = world.broker._stream_leases._streams[stream.consumer]
    assert set(holding._ends) == {lease.receipt for _, lease in stream.consumer.held()}, "deadlines of others are gone"


async def test_a_stream_without_a_lease_time_holds_its_message(world):
    stream = Stream(world, lease_seconds=None)
    await world.publish(T, b"a")
    await pass_seconds(world, 1e6)
    stream.consumer.ack()


async def test_a_stream_that_ends_leaves_nothing_behind(world):
    stream = Stream(world, prefetch=2)
    await world.publish(T, b"a", b"b")
    stream.consumer.close()
    await pass_seconds(world, 0)
    assert world.broker._stream_leases._streams == {}
    await pass_seconds(world, 100)
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 0
    assert await world.drain(T) == [b"a", b"b"]


async def test_too_many_timeouts_make_a_dead_letter(world):
    await world.broker.admin.create(T, {"max_deliveries": 2}).wait()
    Stream(world, prefetch=1)
    await world.publish(T, b"a")
    await pass_seconds(world, 10)
    await pass_seconds(world, 10)
    await world.commit()
    assert await world.drain(b"jobs.dlq") == [b"a"]


async def test_a_message_whose_topic_was_deleted_is_not_returned(world):
    stream = Stream(world, prefetch=2)
    await world.publish(T, b"a")
    await world.broker.delete_topic(T)
    await pass_seconds(world, 10)
    await world.publish(T, b"next")
    assert stream.payloads == [b"a", b"next"]


async def test_a_member_keeps_its_session_when_its_messages_time_out(world):
    stream = Stream(world, prefetch=1, lease_seconds=2, member=b"m", session_seconds=5)
    await world.publish(T, b"a")
    for _ in range(5):
        await pass_seconds(world, 2)
    assert (stream.payloads, stream.consumer.is_closed) == ([b"a"] * 6, False)


async def test_many_messages_time_out_in_several_turns_in_their_order(world):
    count = 2 * MAX_RETURNED + 10
    streams = [Stream(world, prefetch=count, lease_seconds=1e-6) for _ in range(2)]
    await world.publish(T, *[b"%d" % number for number in range(count)])
    await world.publish(T, *[b"%d" % number for number in range(count, 2 * count)])
    before = [stream.payloads for stream in streams]
    world.clock.advance(1)
    world.broker.tick()
    assert world.broker.stats()[T].leased == 2 * count - MAX_RETURNED
    await settle_down()
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 2 * count
    after = [stream.payloads[count:] for stream in streams]
    assert sorted(chain(*after)) == sorted(chain(*before))
    for one, other in product(before, after):  # messages of one stream keep their order, whoever gets them
        assert [each for each in other if each in one] == [each for each in one if each in other]


async def test_an_unreadable_topic_ends_no_tick(world):
    stream = Stream(world, prefetch=1)
    await world.publish(T, b"a")
    topic = world.broker._engine.topics.by_name[T]
    topic.fault = UnknownReceiptError(1, 1)
    await pass_seconds(world, 10)
    assert stream.errors == [topic.fault]
    topic.fault = None


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_settled_exactly_what_is_held_too_long_is_late(seed):
    random, clock, receipts = Random(seed), ManualClock(), count(1)
    holding, deadlines = TimedHolding(clock, 10), dict[int, float]()
    for _ in range(3000):
        if random.random() < 0.6:
            receipt = next(receipts)
            holding.add(None, SimpleNamespace(receipt=receipt, count=1, held_bytes=1))
            deadlines[receipt] = clock.monotonic() + 10
        elif deadlines and random.random() < 0.9:
            settled = random.sample([*deadlines], min(len(deadlines), random.choice([1, 2, 50])))
            assert [lease.receipt for _, lease in holding.take(sorted(settled))] == sorted(settled)
            deadlines = {receipt: at for receipt, at in deadlines.items() if receipt not in settled}
        else:
            clock.advance(random.random() * 5)
            due = [receipt for receipt, at in deadlines.items() if at <= clock.monotonic()]
            late = list[int]()
            while holding.has_late(clock.monotonic()):
                late += [lease.receipt for _, lease in holding.take_late(clock.monotonic(), 20)]
            assert late == due
            deadlines = {receipt: at for receipt, at in deadlines.items() if receipt not in due}
        assert holding.count == len(deadlines)
    assert [holding.deadline_of(lease) for _, lease in holding.leases()] == [*deadlines.values()]
