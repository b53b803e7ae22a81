"""Consumers that hold several messages and name them by receipts."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.broker.consume.consumer import MAX_HELD_BYTES
from miniqueue.errors import (
    InvalidPrefetchError,
    MessageOutstandingError,
    NothingOutstandingError,
    OutcomeUnknownError,
    UnknownReceiptError,
)
from tests.broker.support import run, world_with
from tests.fakes import settle_down


class Prefetching:
    """A consumer with a prefetch that keeps what it was handed, by receipt."""

    def __init__(self, world, topic=b"t", prefetch=3):
        self.got = {}
        self.consumer = world.broker.consumer(topic, self._deliver, lambda error: None, prefetch)

    def _deliver(self, leases):
        for lease in leases:
            self.got |= dict(enumerate(lease.payloads, lease.receipt))

    def start(self):
        self.consumer.request()
        return self

    def settle(self, act, *receipts):
        getattr(self.consumer, act)(list(receipts))
        self.consumer.refill()


async def test_it_holds_as_many_as_it_may_and_no_more(world):
    await world.publish(b"t", b"a", b"b", b"c", b"d", b"e")
    consumer = Prefetching(world).start()
    assert consumer.got == {1: b"a", 2: b"b", 3: b"c"}
    consumer.settle("ack", 1, 2)
    assert consumer.got == {1: b"a", 2: b"b", 3: b"c", 4: b"d", 5: b"e"}
    assert world.broker.stats()[b"t"].leased == 3


async def test_messages_of_several_commits_fill_one_prefetch(world):
    for payload in (b"a", b"b", b"c", b"d"):
        await world.publish(b"t", payload)
    assert list(Prefetching(world).start().got.values()) == [b"a", b"b", b"c"]


async def test_it_waits_while_it_has_room(world):
    consumer = Prefetching(world).start()
    await world.publish(b"t", b"a")
    assert consumer.consumer.is_waiting
    await world.publish(b"t", b"b", b"c", b"d")
    assert (list(consumer.got.values()), consumer.consumer.is_waiting) == ([b"a", b"b", b"c"], False)


async def test_messages_that_trickle_in_go_round(world):
    consumers = [Prefetching(world).start() for _ in range(2)]
    for payload in (b"a", b"b", b"c", b"d"):
        await world.publish(b"t", payload)
    assert [list(consumer.got.values()) for consumer in consumers] == [[b"a", b"c"], [b"b", b"d"]]


async def test_messages_may_be_settled_in_any_order(world):
    await world.publish(b"t", *(b"%d" % n for n in range(10)))
    consumer = Prefetching(world, prefetch=10).start()
    for receipts in ([5], [1, 2], [9, 7], [10, 3, 4, 6], [8]):
        consumer.settle("ack", *receipts)
    assert (await world.drain(b"t"), world.broker.stats()[b"t"].acknowledged) == ([], 10)


async def test_returned_messages_keep_their_order_at_the_front(world):
    await world.publish(b"t", b"a", b"b", b"c", b"d", b"e")
    consumer = Prefetching(world, prefetch=4).start()
    consumer.consumer.nack([2, 3, 4])
    consumer.consumer.close()
    assert await world.drain(b"t") == [b"a", b"b", b"c", b"d", b"e"]


async def test_leaving_returns_everything_in_order(world):
    for payload in (b"a", b"b", b"c", b"d"):
        await world.publish(b"t", payload)
    Prefetching(world).start().consumer.close()
    assert await world.drain(b"t") == [b"a", b"b", b"c", b"d"]


async def test_an_unknown_receipt_is_an_error_and_the_others_are_settled(world):
    await world.publish(b"t", b"a", b"b", b"c")
    consumer = Prefetching(world).start()
    with pytest.raises(UnknownReceiptError, match="2 of 4 receipts"):
        consumer.consumer.ack([1, 99, 3, 3])
    consumer.consumer.close()
    assert await world.drain(b"t") == [b"b"]


async def test_many_unknown_receipts_do_not_look_at_every_lease(world):
    begun_at = time.thread_time()
    await world.publish(b"t", *(b"%d" % n for n in range(8000)))
    consumer = Prefetching(world, prefetch=8000).start()
    await consumer.consumer.ack(list(range(1, 8001, 2)))  # leaves 4000 leases
    with pytest.raises(UnknownReceiptError, match="100000 of 100000 receipts"):
        await consumer.consumer.ack(list(range(10**9, 10**9 + 200_000, 2)))
    await consumer.consumer.ack(list(range(8000, 0, -2)))
    assert consumer.consumer.room == 8000
    assert time.thread_time() - begun_at < 10  # on the processor; to look at each takes minutes


async def test_a_receipt_of_another_consumer_is_unknown(world):
    await world.publish(b"t", b"a", b"b")
    one, other = Prefetching(world, prefetch=1).start(), Prefetching(world, prefetch=1).start()
    with pytest.raises(UnknownReceiptError):
        one.consumer.ack(list(other.got))
    other.consumer.ack(list(other.got))
    one.consumer.ack(list(one.got))


@pytest.mark.parametrize("receipts", [[1, 2, 3], [2], [1, 3]])
async def test_receipts_of_a_deleted_topic_never_settle_new_messages(receipts, world):
    await world.publish(b"t", b"a", b"b", b"c")
    consumer = Prefetching(world).start()
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"x", b"y", b"z")
    with pytest.raises(UnknownReceiptError):
        consumer.consumer.ack(receipts)
    consumer.consumer.close()
    await settle_down()
    assert await world.drain(b"t") == [b"x", b"y", b"z"]


async def test_a_late_receipt_of_a_deleted_topic_names_no_message_that_came_after_it(world):
    await world.publish(b"t", b"old")
    consumer = Prefetching(world).start()
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"new")
    assert consumer.got == {1: b"old", 2: b"new"}
    with pytest.raises(UnknownReceiptError):
        consumer.consumer.ack([1])
    assert consumer.consumer.room == 2
    consumer.consumer.close()
    assert await world.drain(b"t") == [b"new"]


async def test_a_late_receipt_from_before_a_fault_names_no_message_that_came_after_it(world):
    await world.publish(b"t", b"a", b"b")
    consumer = Prefetching(world).start()
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"c")
    await settle_down()
    assert consumer.got == {1: b"a", 2: b"b", 3: b"a"}
    with pytest.raises(UnknownReceiptError):
        consumer.consumer.ack([1, 2])
    consumer.consumer.close()
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_room_comes_back_after_the_topic_was_deleted(world):
    await world.publish(b"t", b"a", b"b", b"c")
    consumer = Prefetching(world).start()
    await world.broker.delete_topic(b"t")
    for receipts in ([2], [1], [3]):
        with pytest.raises(UnknownReceiptError):
            consumer.consumer.ack(receipts)
    assert consumer.consumer.room == 3


@world_with(max_message_bytes=MAX_HELD_BYTES)
async def test_what_a_consumer_holds_is_bounded_in_bytes(world):
    payload = bytes(MAX_HELD_BYTES // 2)
    for _ in range(4):
        await world.publish(b"t", payload)
    consumer = Prefetching(world, prefetch=100).start()
    assert (sorted(consumer.got), consumer.consumer.room) == ([1, 2], 0)
    consumer.settle("ack", 1)
    assert sorted(consumer.got) == [1, 2, 3]


async def test_unknown_receipts_are_told_without_looking_at_each_lease(world):
    for n in range(50):
        await world.publish(b"t", b"%d" % n)
    consumer = Prefetching(world, prefetch=50).start()
    with pytest.raises(UnknownReceiptError, match="99950 of 100000"):
        await consumer.consumer.ack(list(range(1, 100_001)))
    assert consumer.consumer.room == 50


async def test_a_second_request_is_refused(world):
    consumer = Prefetching(world).start()
    with pytest.raises(MessageOutstandingError):
        consumer.consumer.request()


@pytest.mark.parametrize("prefetch", [0, -1, 10_001])
async def test_a_prefetch_out_of_range_is_refused(prefetch, world):
    with pytest.raises(InvalidPrefetchError):
        Prefetching(world, prefetch=prefetch)


async def test_settling_without_receipts_and_without_messages_is_an_error(world):
    with pytest.raises(NothingOutstandingError):
        Prefetching(world).start().consumer.ack()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_settled_how_every_message_is_done_once(data):
    async def body(world):
        for size in (1, 4, 2, 5):
            await world.publish(b"t", *(b"%d-%d" % (size, n) for n in range(size)))
        consumer = Prefetching(world, prefetch=7).start()
        held = dict(consumer.got)
        acked = []
        for _ in range(40):
            receipts = data.draw(st.lists(st.sampled_from(sorted(held)), unique=True)) if held else []
            act = data.draw(st.sampled_from(["ack", "nack", "back", "ack"]))
            if not receipts:
                continue
            payloads = [held.pop(receipt) for receipt in receipts]
            acked += payloads if act == "ack" else []
            before = set(consumer.got)
            consumer.settle(act, *receipts)
            held |= {receipt: consumer.got[receipt] for receipt in set(consumer.got) - before}
        consumer.consumer.close()
        assert sorted(acked + await world.drain(b"t")) == sorted(
            b"%d-%d" % (size, n) for size in (1, 4, 2, 5) for n in range(size)
        )

    run(body)
