"""Messages received once: leases that belong to no connection, settled by receipt, and over in time."""

import pytest

from miniqueue.broker.consume.dispatcher import MAX_RETURNED
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import (
    DrainingError,
    InvalidDelayError,
    InvalidPrefetchError,
    InvalidTopicError,
    MemoryLimitError,
    RequestError,
    StorageError,
)
from miniqueue.server.resp.commands.session import Actor
from tests.broker.support import started_world, world_with
from tests.budget.counting import counting
from tests.fakes import settle_down
from tests.serving import eventually

T = b"t"


class Asked:
    """One request, and what came of it; `receipts` are those of the messages, in order."""

    def __init__(self, world, topic=T, **options) -> None:
        self.answers: list = []
        self.errors: list = []
        self.receiving = world.broker.leases.receive(
            topic, ReceiveOptions(**options), self.answers.append, self.errors.append
        )

    @property
    def is_answered(self) -> bool:
        assert len(self.answers) + len(self.errors) <= 1
        return bool(self.answers or self.errors)

    @property
    def leases(self) -> list:
        return [lease for _, lease in self.answers[0].leases]

    @property
    def payloads(self) -> list[bytes]:
        return [payload for lease in self.leases for payload in lease.payloads]

    @property
    def receipts(self) -> list[bytes]:
        prefix = self.answers[0].prefix
        return [b"%b%d" % (prefix, lease.receipt + n) for lease in self.leases for n in range(lease.count)]


def take(world, count=1, **options) -> Asked:
    """Receive what is there now."""
    asked = Asked(world, max_count=count, **options)
    assert asked.is_answered
    return asked


def counts(world, topic=T) -> tuple[int, int, int, int]:
    """Return how many messages are ready, leased, delayed and acknowledged."""
    stats = world.broker.stats()[topic]
    return stats.ready, stats.leased, stats.delayed, stats.acknowledged


def pass_time(world, seconds: float) -> None:
    world.clock.advance(seconds)
    world.broker.tick()


async def test_messages_are_received_and_settled_one_by_one_or_together(world):
    await world.publish(T, b"a", b"b", b"c", b"d")
    first, rest = take(world), take(world, 10)
    assert (first.payloads, rest.payloads) == ([b"a"], [b"b", b"c", b"d"])
    assert counts(world) == (0, 4, 0, 0)
    leasing = world.broker.leases
    assert leasing.ack(T, first.receipts) == [True]
    assert leasing.ack(T, rest.receipts[::-1]) == [True] * 3
    assert counts(world) == (0, 0, 0, 4)
    await world.restart()
    assert counts(world) == (0, 0, 0, 4)


async def test_nothing_there_is_answered_at_once(world):
    assert take(world).payloads == []
    assert world.broker.stats() == {}


async def test_a_settled_receipt_is_refused_and_touches_nothing(world):
    await world.publish(T, b"a", b"b")
    one = take(world)
    leasing = world.broker.leases
    assert leasing.nack(T, one.receipts) == [True]
    again = take(world)
    assert (again.payloads, again.receipts == one.receipts) == ([b"a"], False)
    for act in (leasing.ack, leasing.nack, leasing.back):
        assert act(T, one.receipts) == [False]
    assert leasing.dack(T, one.receipts, 1) == [False]
    assert leasing.reject(T, one.receipts, b"bad") == [False]
    assert leasing.extend(T, one.receipts, 1) == [False]
    assert counts(world) == (1, 1, 0, 0)


async def test_each_receipt_of_a_batch_has_a_result(world):
    await world.publish(T, b"a", b"b", b"c")
    await world.publish(b"other", b"x")
    a, b, c = take(world, 3).receipts
    (x,) = take(world, topic=b"other").receipts
    assert world.broker.leases.ack(T, [c, x, b"what", a, c]) == [True, False, False, True, False]
    assert counts(world) == (0, 1, 0, 2)
    assert counts(world, b"other") == (0, 1, 0, 0)
    assert world.broker.leases.ack(T, [b]) == [True]
    assert world.broker.leases.ack(b"nosuch", [b, b]) == [False, False]


async def test_what_comes_back_is_where_it_belongs(world):
    await world.publish(T, b"a", b"b", b"c", b"d", b"e")
    a, b, c, d, e = take(world, 5).receipts
    leasing = world.broker.leases
    leasing.back(T, [a])
    leasing.dack(T, [b], 5)
    leasing.nack(T, [d, c])
    assert leasing.reject(T, [e], b"broken") == [True]
    assert world.broker.stats()[T].moved == 1
    assert take(world, 9).payloads == [b"d", b"c", b"a"]
    pass_time(world, 6)
    (back,) = take(world, 9).leases
    assert (back.payloads, back.counts.dacks) == ([b"b"], 1)


async def test_a_lease_is_over_after_its_time_and_the_message_comes_to_the_front(world):
    await world.publish(T, b"a", b"b", b"c")
    old = take(world, 2)
    pass_time(world, 29.999)
    assert counts(world) == (1, 2, 0, 0)
    pass_time(world, 0.001)
    assert counts(world) == (3, 0, 0, 0)
    again = take(world, 3)
    assert again.payloads == [b"a", b"b", b"c"]
    assert [lease.counts.timeouts for lease in again.leases] == [1, 1, 0]
    assert world.broker.leases.ack(T, old.receipts) == [False, False]
    assert world.broker.leases.ack(T, again.receipts) == [True] * 3


async def test_the_wall_clock_does_not_end_leases(world):
    await world.publish(T, b"a")
    take(world)
    world.clock.time_ms += 3_600_000
    world.broker.tick()
    assert counts(world) == (0, 1, 0, 0)


@world_with(lease_seconds=5.0)
async def test_the_broker_says_how_long_a_lease_is_unless_the_consumer_does(world):
    await world.publish(T, b"a", b"b")
    take(world), take(world, lease_seconds=10.0)
    pass_time(world, 5)
    assert counts(world) == (1, 1, 0, 0)
    pass_time(world, 5)
    assert counts(world) == (2, 0, 0, 0)


async def test_an_extended_lease_lasts_from_now_on(world):
    await world.publish(T, b"a", b"b", b"c")
    a, b, _ = take(world, 3).receipts
    pass_time(world, 20)
    assert world.broker.leases.extend(T, [b, b"x", a], 30) == [True, False, True]
    pass_time(world, 10)
    assert take(world, 3).payloads == [b"c"]
    pass_time(world, 19)
    assert world.broker.leases.extend(T, [a], 0.5) == [True]
    pass_time(world, 0.5)
    assert take(world, 3).payloads == [b"a"]
    pass_time(world, 0.5)
    assert take(world, 3).payloads[0] == b"b"
    assert world.broker.leases.extend(T, [a, b], 30) == [False, False]


@pytest.mark.parametrize("has_own_leases", [False, True])
async def test_very_many_leases_end_in_turns(has_own_leases):
    async with started_world() as world:
        payloads = [b"%d" % n for n in range(3 * MAX_RETURNED)]
        for each in payloads if has_own_leases else ():
            world.broker.publish_with(T, each, PublishOptions(headers=((b"a", b"b"),)))
        if not has_own_leases:
            world.broker.publish(T, payloads)
        await world.commit()
        first = Asked(world, max_count=len(payloads))
        await settle_down()
        assert first.payloads == payloads
        pass_time(world, 30)
        assert counts(world) == (MAX_RETURNED, 2 * MAX_RETURNED, 0, 0)
        pass_time(world, 1)  # while the turns go on
        await settle_down()
        assert counts(world) == (3 * MAX_RETURNED, 0, 0, 0)
        again = Asked(world, max_count=len(payloads))
        await settle_down()
        assert again.payloads == payloads


async def test_after_a_restart_messages_come_again_and_old_receipts_name_nothing(world):
    await world.publish(T, b"a", b"b")
    old = take(world, 2)
    world.broker.leases.ack(T, old.receipts[:1])
    await world.restart()
    new = Asked(world, max_count=2, wait_seconds=5.0)
    await settle_down()
    assert new.payloads == [b"b"]
    assert world.broker.leases.ack(T, old.receipts) == [False, False]
    assert world.broker.leases.ack(T, new.receipts) == [True]


async def test_a_settle_that_a_crash_takes_back_is_refused_after_it(world):
    await world.publish(T, b"a")
    old = take(world)
    assert world.broker.leases.ack(T, old.receipts) == [True]
    world.store = await world.store.as_of(len(world.store.batches))
    await world.broker.stop()  # the broker whose store is gone
    await world.start()
    new = Asked(world, wait_seconds=5.0)
    await settle_down()
    assert new.payloads == [b"a"]
    assert world.broker.leases.ack(T, old.receipts) == [False]
    assert counts(world) == (0, 1, 0, 0)


async def test_leases_end_with_their_topic_and_receipts_do_not_name_what_comes_after(world):
    await world.publish(T, b"a")
    old = take(world)
    await world.broker.delete_topic(T)
    assert world.broker.leases.ack(T, old.receipts) == [False]
    await world.publish(T, b"b")
    new = take(world)
    assert new.payloads == [b"b"]
    assert set(new.receipts).isdisjoint(old.receipts)
    assert world.broker.leases.ack(T, old.receipts) == [False]
    pass_time(world, 30)
    assert counts(world) == (1, 0, 0, 0)


async def test_a_fault_of_the_store_ends_leases(world):
    await world.publish(T, b"a")
    old = take(world)
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(Exception, match="may or may not"):
        await world.publish(T, b"b")
    await settle_down()
    assert world.broker.leases.ack(T, old.receipts) == [False]
    again = Asked(world, wait_seconds=5.0)
    await settle_down()
    assert again.payloads == [b"a"]


async def test_acknowledged_as_they_are_handed_out(world):
    await world.publish(T, b"a", b"b")
    asked = take(world, 2, is_acked=True)
    assert (asked.payloads, asked.answers[0].prefix) == ([b"a", b"b"], b"")
    assert counts(world) == (0, 0, 0, 2)
    await world.restart()
    assert counts(world) == (0, 0, 0, 2)


# --- waiting -------------------------------------------------------------------------------------------------


async def test_who_waits_is_answered_as_soon_as_there_is_something(world):
    asked = Asked(world, max_count=5, wait_seconds=60.0)
    assert not asked.is_answered
    assert world.broker.stats()[T].waiting == 1
    await world.publish(T, b"a", b"b")
    await settle_down()
    assert asked.payloads == [b"a", b"b"]
    assert (world.broker.stats()[T].waiting, world.broker.stats()[T].consumers) == (0, 0)


async def test_a_wait_ends_with_nothing(world):
    asked = Asked(world, wait_seconds=0.01)
    await eventually(lambda: asked.is_answered)
    assert asked.payloads == []
    assert world.broker.stats() == {}


async def test_who_gives_up_swallows_nothing(world):
    asked, other = Asked(world, wait_seconds=60.0), Asked(world, wait_seconds=60.0)
    asked.receiving.give_up()
    asked.receiving.give_up()
    assert asked.payloads == []
    await world.publish(T, b"a")
    await settle_down()
    assert other.payloads == [b"a"]


async def test_subscribers_and_those_who_receive_stand_in_one_line(world):
    subscriber = world.consumer(T)
    first = Asked(world, wait_seconds=60.0)
    subscriber.consumer.request()
    last = Asked(world, max_count=9, wait_seconds=60.0)
    await world.publish(T, b"a", b"b", b"c", b"d")
    await settle_down()
    assert (first.payloads, subscriber.payloads, last.payloads) == ([b"a"], [b"b"], [b"c", b"d"])


async def test_what_is_in_the_store_is_waited_for_also_without_a_wait(world):
    await world.publish(T, b"a")
    await world.restart()
    asked = Asked(world)
    await eventually(lambda: asked.is_answered)
    assert asked.payloads == [b"a"]


async def test_a_topic_that_cannot_be_read_is_an_error(world):
    await world.publish(T, b"a")
    await world.restart()
    world.store.fail_scans = {world.store.scan_count + 1}
    asked = Asked(world, wait_seconds=60.0)
    await settle_down()
    assert isinstance(asked.errors[0], StorageError)
    assert world.broker.stats()[T].consumers == 0


# --- limits --------------------------------------------------------------------------------------------------


async def test_a_batch_is_bounded_in_bytes(world):
    await world.publish_each(T, *[bytes(1 << 20)] * 6)
    assert len(take(world, 6).payloads) == 4
    assert len(take(world, 6).payloads) == 2


async def test_what_is_leased_is_bounded_in_bytes():
    async with started_world(limits=BrokerLimits(max_memory_bytes=20 << 20)) as world:
        memory = world.broker.memory
        await world.publish_each(T, *[bytes(1 << 20)] * 20)
        CURRENT_ACTOR.set(Actor(account=memory.connect("192.0.2.1")))
        receipts = list[bytes]()
        while not memory.over_count:
            asked = Asked(world, max_count=5)
            await settle_down()
            receipts += asked.receipts
        assert 12 <= len(receipts) <= 20
        with pytest.raises(MemoryLimitError, match="this broker"):
            Asked(world)
        with pytest.raises(MemoryLimitError):
            await world.publish_each(T, b"12345")
        assert all(world.broker.leases.ack(T, receipts))
        world.broker.tick()
        await world.publish_each(T, b"12345")
        assert Purpose.LEASES not in memory.amounts()


@pytest.mark.parametrize("wait_seconds", [0, 30])
async def test_many_that_ask_at_once_get_no_more_than_there_is_memory_for(wait_seconds):
    async with started_world(limits=BrokerLimits(max_memory_bytes=20 << 20)) as world:
        groups = [b"g%d" % number for number in range(4)]
        for group in groups:
            await world.broker.groups.create(T, group)
        if not wait_seconds:
            await world.publish_each(T, *[bytes(1 << 20)] * 16)
            await world.restart()  # what they get is read from the store
        memory = world.broker.memory
        CURRENT_ACTOR.set(Actor(account=memory.connect("192.0.2.1")))
        options = {"max_count": 5, "wait_seconds": wait_seconds}
        asked = [Asked(world, group=group, **options) for _ in range(8) for group in groups]
        CURRENT_ACTOR.set(b"")
        if wait_seconds:
            await world.publish(T, *[bytes(1 << 20)] * 16)
        await eventually(lambda: all(each.is_answered for each in asked))
        refused = [each.errors[0] for each in asked if each.errors]
        assert 0 < len(refused) < len(asked)
        assert {type(error) for error in refused} == {MemoryLimitError}
        assert memory.used_bytes < 20 << 20
        for each in asked:
            assert each.errors or all(world.broker.leases.ack(T, each.receipts))
        world.broker.tick()
        assert Purpose.LEASES not in memory.amounts()


async def test_who_acknowledges_at_once_gets_one_message_if_there_is_no_memory():
    async with started_world(limits=BrokerLimits(max_memory_bytes=20 << 20)) as world:
        memory = world.broker.memory
        await world.publish_each(T, *[bytes(1 << 20)] * 4)
        account = memory.connect("192.0.2.1")
        CURRENT_ACTOR.set(Actor(account=account))
        account.add(Purpose.OUTPUT, 19 << 20)
        assert len(take(world, 5, is_acked=True).payloads) == 1
        account.add(Purpose.OUTPUT, -(19 << 20))
        assert len(take(world, 5, is_acked=True).payloads) == 3


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda leasing: leasing.ack(b"a/b", [b"x"]), InvalidTopicError),
        (lambda leasing: leasing.extend(b"a/b", [b"x"], 1), InvalidTopicError),
        (lambda leasing: leasing.dack(T, [b"x"], -1), InvalidDelayError),
        (lambda leasing: leasing.extend(T, [b"x"], 0), InvalidDelayError),
        (lambda leasing: leasing.extend(T, [b"x"], float("nan")), InvalidDelayError),
        (lambda leasing: leasing.extend(T, [b"x"], 43_201), InvalidDelayError),
        (lambda leasing: leasing.reject(T, [b"x"], bytes(1025)), RequestError),
        (lambda leasing: leasing.receive(b"a/b", ReceiveOptions(), print, print), InvalidTopicError),
        (lambda leasing: leasing.receive(T, ReceiveOptions(max_count=11), print, print), InvalidPrefetchError),
    ],
)
@world_with(limits=BrokerLimits(max_prefetch=10))
async def test_what_cannot_be_is_refused(act, error, world):
    with pytest.raises(error):
        act(world.broker.leases)
    assert world.broker.stats() == {}


async def test_nothing_is_handed_out_or_settled_during_a_stop(world):
    await world.publish(T, b"a", b"b")
    asked = take(world)
    await world.broker._engine.journal.drain()
    with pytest.raises(DrainingError):
        take(world)
    with pytest.raises(DrainingError):
        world.broker.leases.ack(T, asked.receipts)


async def test_who_asks_again_when_a_read_has_failed_waits_for_the_next_one(world):
    await world.publish(b"t", b"a")
    await world.restart()
    world.store.fail_scans = {world.store.scan_count + 1}
    errors, answers = [], []

    def ask_again(error):
        errors.append(error)
        world.broker.leases.receive(b"t", ReceiveOptions(wait_seconds=5), answers.append, errors.append)

    world.broker.leases.receive(b"t", ReceiveOptions(wait_seconds=5), answers.append, ask_again)
    await settle_down()
    assert (len(errors), len(answers)) == (1, 1)


async def test_messages_are_counted_whose_lease_timed_out(world):
    await world.publish(T, b"a", b"b", b"c", b"d")
    take(world, 2, lease_seconds=5)
    take(world, 1, lease_seconds=50)
    settled = take(world, 1, lease_seconds=5)
    world.broker.leases.ack(T, settled.receipts)
    pass_time(world, 5)
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 2
    (again,) = take(world, 1, lease_seconds=5).receipts
    pass_time(world, 5)
    assert (await world.broker.inspect.stats(T))["lease_timeouts"] == 3
    assert world.broker.leases.ack(T, [again]) == [False]


async def test_the_receipts_of_a_settle_are_not_parsed_for_each_group(world):
    """Before, thousands of receipts and a thousand groups blocked the event loop for seconds."""
    await world.publish(T, b"x")
    counts, groups = [], 0
    for group_count in (2, 40):
        while groups < group_count:
            await world.broker.groups.create(T, b"g%d" % groups)
            asked = Asked(world, group=b"g%d" % groups)
            await settle_down()
            assert asked.answers[0].leases
            groups += 1
        with counting() as counter:
            assert world.broker.leases.ack(T, [b"none-%d" % number for number in range(500)]) == [False] * 500
        counts.append(counter.count)
    assert counts[1] < 2 * counts[0]
