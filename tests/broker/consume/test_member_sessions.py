"""Streams of members that hang: they hold messages, settle none, and lose them with their partitions."""

import pytest

from miniqueue.broker.consume.membership import MEMBER_BYTES
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.options.consume import DEFAULT_SESSION_SECONDS, ReceiveOptions
from miniqueue.errors import MemoryLimitError, OutcomeUnknownError, ReadOnlyError
from miniqueue.errors.requests import SessionOverError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.consume.test_members import create, fill, members_of, moving_of, receive, wait_for_move
from tests.broker.support import World, started_world, world_with
from tests.fakes import settle_down


class Stream:
    """A stream of a member that keeps the messages and the errors that it gets."""

    def __init__(self, world: World, name: bytes, prefetch: int = 1, **session: float) -> None:
        self.leases: list = []
        self.errors: list = []
        self.consumer = world.broker.consumer(
            b"t", self.leases.extend, self.errors.append, prefetch, b"default", name, **session
        )
        self.consumer.request()

    @property
    def payloads(self) -> list[bytes]:
        return [payload for lease in self.leases for payload in lease.payloads]

    @property
    def receipts(self) -> list[int]:
        return [receipt for lease in self.leases for receipt in range(lease.receipt, lease.receipt + lease.count)]

    @property
    def has_ended(self) -> bool:
        return self.consumer.is_closed


async def pass_seconds(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()


async def test_a_member_that_settles_nothing_for_its_session_loses_messages_and_partitions(world):
    await create(world, 2)
    await fill(world, 1, 2)
    one = Stream(world, b"a", prefetch=2, session_seconds=5)
    assert sorted(one.payloads) == [b"0-0", b"1-0"]
    two = Stream(world, b"b", prefetch=2)
    await pass_seconds(world, 0.75)  # the handover of one partition
    await wait_for_move()
    assert await moving_of(world) == {}
    assert two.payloads == [b"1-0"]
    await pass_seconds(world, 4.2)
    assert not one.has_ended
    await pass_seconds(world, 0.1)
    assert one.has_ended
    assert [type(error) for error in one.errors] == [SessionOverError]
    assert await members_of(world) == {b"b": [0, 1]}
    assert two.payloads == [b"1-0", b"0-0"]
    assert two.leases[1].counts.timeouts == 1
    assert two.leases[1].counts.disconnects == 0


async def test_each_settle_begins_the_session_anew(world):
    await create(world, 1)
    await fill(world, 5, 1)
    one = Stream(world, b"a", prefetch=5, session_seconds=5)
    receipts = one.receipts
    for act in (one.consumer.ack, one.consumer.nack, one.consumer.back):
        await pass_seconds(world, 4)
        act([receipts.pop(0)])
    await pass_seconds(world, 4)
    one.consumer.dack(60, [receipts.pop(0)])
    await pass_seconds(world, 4.9)
    assert not one.has_ended
    await pass_seconds(world, 0.1)
    assert one.has_ended


async def test_a_member_that_holds_nothing_stays_and_its_session_begins_with_a_message(world):
    await create(world, 1)
    one = Stream(world, b"a", session_seconds=5)
    await pass_seconds(world, 1e6)
    await fill(world, 1, 1)
    await pass_seconds(world, 4)
    one.consumer.ack()
    one.consumer.refill()
    await pass_seconds(world, 1e6)
    assert not one.has_ended
    assert await members_of(world) == {b"a": [0]}
    await fill(world, 1, 1)
    await pass_seconds(world, 5)
    assert one.has_ended


async def test_a_second_message_does_not_begin_the_session_anew(world):
    await create(world, 1)
    one = Stream(world, b"a", prefetch=5, session_seconds=5)
    await fill(world, 1, 1)
    await pass_seconds(world, 3)
    await fill(world, 1, 1)
    await pass_seconds(world, 2)
    assert one.has_ended


async def test_without_a_session_of_its_own_a_member_has_five_minutes():
    assert DEFAULT_SESSION_SECONDS == 300
    async with started_world() as world:
        await create(world, 1)
        await fill(world, 1, 1)
        one = Stream(world, b"a")
        await pass_seconds(world, 299)
        assert not one.has_ended
        await pass_seconds(world, 1)
        assert one.has_ended


async def test_consumers_that_are_no_members_hold_messages_for_as_long_as_they_like(world):
    await world.publish(b"t", b"x")
    one = await world.holding(b"t")
    await pass_seconds(world, 1e6)
    assert not one.consumer.is_closed


async def test_consumers_of_one_name_that_hang_together_do_not_hand_each_other_messages(world):
    await create(world, 1)
    await fill(world, 3, 1)
    hanging = [Stream(world, b"a", prefetch=prefetch, session_seconds=5) for prefetch in (1, 10)]
    await settle_down()
    assert sorted(hanging[0].payloads + hanging[1].payloads) == [b"0-0", b"0-1", b"0-2"]
    other = Stream(world, b"b", prefetch=10)
    await pass_seconds(world, 5)
    assert all(stream.has_ended for stream in hanging)
    assert sorted(other.payloads) == [b"0-0", b"0-1", b"0-2"]
    assert [lease.counts.timeouts for lease in other.leases] == [1] * len(other.leases)


async def test_one_consumer_of_a_name_that_hangs_leaves_the_partitions_to_the_other(world):
    await create(world, 1)
    await fill(world, 1, 1)
    hanging = Stream(world, b"a", session_seconds=5)
    other = Stream(world, b"a")
    await pass_seconds(world, 5)
    assert hanging.has_ended
    assert other.payloads == [b"0-0"]
    assert await members_of(world) == {b"a": [0]}


# --- time in which the broker does not serve its clients --------------------------------------------------------


@pytest.mark.parametrize("gap_seconds", [3.1, 6, 1e6])
@world_with(period_seconds=1.0)
async def test_a_gap_of_the_broker_ends_no_session_of_a_stream(gap_seconds, world):
    await create(world, 1)
    await fill(world, 1, 1)
    one = Stream(world, b"a", session_seconds=3)
    await pass_seconds(world, 1)
    await pass_seconds(world, gap_seconds)
    assert not one.has_ended
    assert await members_of(world) == {b"a": [0]}
    one.consumer.ack()


@world_with(period_seconds=1.0)
async def test_time_that_a_stream_had_used_before_a_gap_still_counts(world):
    await create(world, 1)
    await fill(world, 1, 1)
    one = Stream(world, b"a", session_seconds=5)
    for seconds in (2, 100, 2, 0.9):
        await pass_seconds(world, seconds)
        assert not one.has_ended
    await pass_seconds(world, 0.1)
    assert one.has_ended


@world_with(period_seconds=1.0)
async def test_a_short_stall_of_the_broker_counts_for_the_session(world):
    await create(world, 1)
    await fill(world, 1, 1)
    one = Stream(world, b"a", session_seconds=5)
    await pass_seconds(world, 3)
    assert not one.has_ended
    await pass_seconds(world, 2)
    assert one.has_ended


@world_with(period_seconds=1.0)
async def test_a_settle_that_the_broker_handles_before_the_tick_after_a_gap_begins_the_session_anew(world):
    await create(world, 1)
    await fill(world, 2, 1)
    one = Stream(world, b"a", prefetch=2, session_seconds=3)
    world.clock.advance(100)
    one.consumer.ack([one.receipts[0]])
    for seconds in (2, 0.9):
        await pass_seconds(world, seconds)
        assert not one.has_ended
    await pass_seconds(world, 0.1)
    assert one.has_ended


@world_with(period_seconds=1.0)
async def test_a_gap_of_the_broker_ends_no_session_of_a_member_that_receives(world):
    await create(world, 1, session_seconds=3)
    await receive(world, b"a")
    await pass_seconds(world, 100)
    assert await members_of(world) == {b"a": [0]}
    await pass_seconds(world, 2.9)
    assert await members_of(world) == {b"a": [0]}
    await pass_seconds(world, 0.1)
    assert await members_of(world) == {}


async def fail_store(world: World) -> None:
    """Make the store fail, and open it again as soon as that is allowed."""
    world.store.may_scan.clear()
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"other", b"x")
    await settle_down()
    assert world.broker.refusal is ReadOnlyError


async def reopen_store(world: World) -> None:
    world.store.may_scan.set()
    await settle_down()
    assert world.broker.refusal is None


@world_with(period_seconds=1.0)
async def test_time_in_which_the_store_is_closed_ends_no_session(world):
    await create(world, 2, session_seconds=3)
    await fill(world, 1, 2)
    one = Stream(world, b"a", session_seconds=3)
    await receive(world, b"b")
    await pass_seconds(world, 1)
    await fail_store(world)
    for _ in range(10):
        await pass_seconds(world, 1)
    world.clock.advance(1)  # less than a tick
    await reopen_store(world)
    assert not one.has_ended
    assert sorted(await members_of(world)) == [b"a", b"b"]
    await pass_seconds(world, 1.9)
    assert not one.has_ended
    assert sorted(await members_of(world)) == [b"a", b"b"]
    await pass_seconds(world, 0.1)
    assert one.has_ended
    assert await members_of(world) == {}


@world_with(period_seconds=1.0)
async def test_a_store_that_is_reopened_between_two_ticks_ends_no_session(world):
    await create(world, 1)
    await fill(world, 1, 1)
    one = Stream(world, b"a", session_seconds=0.5)
    await fail_store(world)
    world.clock.advance(0.9)
    await reopen_store(world)
    assert not one.has_ended


@world_with(period_seconds=1.0)
async def test_a_gap_of_the_broker_ends_no_handover(world):
    await create(world, 2, handover_seconds=5)
    await fill(world, 1, 2)
    one = Stream(world, b"a", prefetch=2)
    two = Stream(world, b"b")
    assert await moving_of(world) == {1: b"b"}
    for seconds in (2, 100, 2.9):
        world.clock.advance(seconds)
        await wait_for_move()
        assert two.payloads == []
    world.clock.advance(0.1)
    await wait_for_move()
    assert two.payloads == [b"1-0"]
    assert one.payloads == [b"0-0", b"1-0"]


async def test_a_member_is_charged_to_the_client_that_joined_as_long_as_its_session_lasts(world):
    await create(world, 1, session_seconds=3)
    await fill(world, 2, 1)
    connection, other = (world.broker.memory.connect(address) for address in ("192.0.2.1", "192.0.2.2"))
    CURRENT_ACTOR.set(Actor(account=connection))
    await receive(world, b"a", 1)
    owner = connection.owner
    assert owner.amounts()[Purpose.TOPICS] == MEMBER_BYTES + 1
    CURRENT_ACTOR.set(Actor(account=other))
    await receive(world, b"a", 1)
    connection.close()
    assert owner.amounts()[Purpose.TOPICS] == MEMBER_BYTES + 1
    await pass_seconds(world, 3)
    assert await members_of(world) == {}
    assert Purpose.TOPICS not in owner.amounts()
    assert Purpose.TOPICS not in other.owner.amounts()


@world_with(limits=BrokerLimits(max_memory_bytes=20 << 20))
async def test_no_member_joins_without_memory_and_the_group_stays_free(world):
    await create(world, 1)
    memory = world.broker.memory
    CURRENT_ACTOR.set(Actor(account=memory.connect("192.0.2.1")))
    one = Stream(world, b"a")
    memory.add(Purpose.OTHER, 20 << 20)
    with pytest.raises(MemoryLimitError):
        Stream(world, b"b")
    with pytest.raises(MemoryLimitError):
        world.broker.leases.receive(b"t", ReceiveOptions(is_acked=True, member=b"b"), print, print)
    assert await members_of(world) == {b"a": [0]}
    one.consumer.close()
    with pytest.raises(MemoryLimitError):
        world.broker.leases.receive(b"t", ReceiveOptions(is_acked=True, member=b"b"), print, print)
    memory.add(Purpose.OTHER, -(20 << 20))
    world.broker.leases.receive(b"t", ReceiveOptions(is_acked=True), print, print).give_up()
