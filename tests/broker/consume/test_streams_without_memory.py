"""Streams whose clients may use no more memory: they get nothing until some is freed, then each in its turn."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from miniqueue.broker.consume.dispatcher import MAX_DELIVERED, MUCH_UNCOMMITTED_BYTES
from miniqueue.broker.leases.settling import BACK, MAX_LARGE_RETURNED
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.errors import InternalError, MessageOutstandingError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.support import World, started_world, world_with
from tests.fakes import FakeConsumer, settle_down

T = b"t"
MIB = 1 << 20
MAX_MEMORY_BYTES = 20 * MIB
COUNT = 40

pytestmark = world_with(limits=BrokerLimits(max_memory_bytes=MAX_MEMORY_BYTES))


def stream(world: World, account: MemoryAccount | None = None) -> FakeConsumer:
    """Return a stream that has not requested messages yet; by default of a connection of its own."""
    CURRENT_ACTOR.set(Actor(account=account or world.broker.memory.connect("192.0.2.1")))
    consumer = FakeConsumer(world.broker, T)
    CURRENT_ACTOR.set(b"")
    return consumer


def waiting(world: World, count: int) -> list[FakeConsumer]:
    """Return streams that have requested messages."""
    streams = [stream(world) for _ in range(count)]
    for each in streams:
        each.consumer.request()
    return streams


@contextmanager
def full(world: World) -> Iterator[None]:
    """Use all memory while the block runs."""
    world.broker.memory.add(Purpose.OTHER, MAX_MEMORY_BYTES)
    yield
    world.broker.memory.add(Purpose.OTHER, -MAX_MEMORY_BYTES)


async def publish(world: World, count: int) -> None:
    for number in range(count):
        await world.publish(T, bytes([number]) * MIB)


def numbers(streams: list[FakeConsumer]) -> list[int]:
    return [payload[0] for each in streams for payload in each.payloads]


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_many_streams_get_no_more_than_there_is_memory_for(is_waiting, world):
    if not is_waiting:
        await publish(world, COUNT)
    streams = waiting(world, COUNT)
    if is_waiting:
        await publish(world, 18)
    await settle_down()
    assert 15 <= len(numbers(streams)) <= 18
    assert world.broker.memory.used_bytes < MAX_MEMORY_BYTES
    assert sum(each.consumer.is_waiting for each in streams) == COUNT - len(numbers(streams))
    assert world.broker.stats()[T].waiting == COUNT - len(numbers(streams))


async def test_each_gets_its_message_when_another_is_settled(world):
    await publish(world, COUNT)
    streams = waiting(world, COUNT)
    await settle_down()
    while holding := [each for each in streams if each.consumer.is_holding]:
        holding[0].consumer.ack()
        await settle_down()
    assert sorted(numbers(streams)) == list(range(COUNT))
    assert [len(each.leases) for each in streams] == [1] * COUNT
    assert Purpose.LEASES not in world.broker.memory.amounts()


async def test_those_that_wait_for_memory_come_before_a_stream_that_goes_on(world):
    await publish(world, COUNT)
    streams = waiting(world, COUNT)
    await settle_down()
    first, last = streams[0], next(each for each in streams if each.consumer.is_waiting)
    first.consumer.ack()
    first.consumer.refill()
    await settle_down()
    assert (len(first.leases), len(last.leases)) == (1, 1)


async def test_those_that_are_more_than_one_iteration_serves_go_on_in_the_next(world):
    streams = [stream(world) for _ in range(3 * MAX_DELIVERED)]
    with full(world):
        for each in streams:
            each.consumer.request()
    await settle_down()
    await world.publish(T, *[b"small"] * len(streams))
    await settle_down()
    assert all(each.leases for each in streams)


async def test_a_stream_that_waits_for_memory_is_one_that_waits(world):
    await publish(world, 1)
    one = stream(world)
    with full(world):
        one.consumer.request()
        with pytest.raises(MessageOutstandingError):
            one.consumer.request()
        one.consumer.refill()
        assert not one.leases
    await settle_down()
    assert numbers([one]) == [0]


async def test_one_that_leaves_while_it_waits_for_memory_gets_nothing(world):
    await publish(world, 2)
    one, other = stream(world), stream(world)
    with full(world):
        one.consumer.request()
        other.consumer.request()
        one.consumer.close()
    await settle_down()
    assert (one.leases, numbers([other])) == ([], [0])


async def test_a_client_over_its_limit_does_not_hold_up_others(world):
    account = world.broker.memory.connect("192.0.2.1")
    over, other = stream(world, account), stream(world)
    account.add(Purpose.OUTPUT, 17 * MIB)  # more than a connection may use, and less than the process
    for each in (over, other):
        each.consumer.request()
    await world.publish(T, b"a")
    await settle_down()
    assert (over.payloads, other.payloads) == ([], [b"a"])
    await world.publish(T, b"b")
    account.add(Purpose.OUTPUT, -17 * MIB)
    await settle_down()
    assert over.payloads == [b"b"]


async def test_a_fault_of_the_topic_reaches_those_that_wait_for_memory(world):
    one, fault = stream(world), InternalError("damaged")
    with full(world):
        one.consumer.request()
        one.consumer.group.fail(fault)
    assert one.errors == [fault]
    assert not one.consumer.is_waiting


# --- returned together ----------------------------------------------------------------------------------------------


def largest_commit(world: World) -> int:
    """Return the size of the largest write so far, without the chunks that were published."""
    return max(sum(len(value or b"") for value in batch.values()) for batch in world.store.batches)


@pytest.mark.parametrize("way", ["close", "nack", "back"])
async def test_what_many_streams_return_at_once_is_not_in_one_commit(way):
    async with started_world() as world:
        await publish(world, COUNT)
        streams = waiting(world, COUNT)
        await settle_down()
        assert sorted(numbers(streams)) == list(range(COUNT))
        world.store.batches.clear()
        rests = [getattr(each.consumer, way)() for each in streams]
        await asyncio.gather(*(rest for rest in rests if rest is not None))
        for each in streams:
            each.consumer.close()
        while world.broker.stats()[T].leased:
            await settle_down()
        await world.commit()
        assert largest_commit(world) < MUCH_UNCOMMITTED_BYTES + 3 * MIB
        await world.restart()
        assert sorted(payload[0] for payload in await world.drain(T)) == list(range(COUNT))


@pytest.mark.parametrize("way", ["nack", "back", "expires"])
async def test_what_many_receives_return_at_once_is_not_in_one_commit(way):
    async with started_world() as world:
        await publish(world, COUNT)
        receipts: list[bytes] = []

        def answer(received) -> None:
            receipts.extend(received.prefix + b"%d" % lease.receipt for _, lease in received.leases)

        for _ in range(COUNT):
            world.broker.leases.receive(T, ReceiveOptions(lease_seconds=10), answer, pytest.fail)
            await settle_down()
        assert len(receipts) == COUNT
        world.store.batches.clear()
        leases = world.broker.leases
        if way == "expires":
            world.clock.advance(10)
            world.broker.tick()
        else:
            act = leases.nacking((None, b"")) if way == "nack" else leases.dacking(1000.0)
            settling = [leases.settle_in_turns(T, [receipt], act) for receipt in receipts]
            assert await asyncio.gather(*settling) == [[True]] * COUNT
        while world.broker.stats()[T].leased:
            await settle_down()
        await world.commit()
        assert largest_commit(world) < MUCH_UNCOMMITTED_BYTES + 3 * MIB


@pytest.mark.parametrize("act", ["nacking", "dacking", "back", "rejecting"])
async def test_what_one_command_returns_is_in_several_commits_if_it_is_large(act):
    async with started_world() as world:
        await world.broker.admin.create(T, {"dead_letter_topic": "dead", "max_deliveries": 9}).wait()
        await publish(world, COUNT)
        receipts: list[bytes] = []

        def answer(received) -> None:
            receipts.extend(received.prefix + b"%d" % lease.receipt for _, lease in received.leases)

        for _ in range(COUNT):
            world.broker.leases.receive(T, ReceiveOptions(), answer, pytest.fail)
            await settle_down()
        leases = world.broker.leases
        acts = {
            "nacking": leases.nacking((None, b"")),
            "dacking": leases.dacking(1000.0),
            "back": BACK,
            "rejecting": leases.rejecting(T, b"broken"),
        }
        world.store.batches.clear()
        assert await leases.settle_in_turns(T, receipts, acts[act]) == [True] * COUNT
        await world.commit()
        assert largest_commit(world) < MUCH_UNCOMMITTED_BYTES + (MAX_LARGE_RETURNED + 1) * MIB
        await world.restart()
        payloads = await world.drain(b"dead" if act == "rejecting" else T)
        assert [payload[0] for payload in payloads] == ([] if act == "dacking" else list(range(COUNT)))
