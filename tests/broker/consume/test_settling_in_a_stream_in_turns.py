"""Very many messages that a stream settles with one command: in turns, in their order, and interrupted in between."""

import asyncio

import pytest

from miniqueue.broker.consume.consumer import MAX_SETTLED, SETTLED_IN_TURN
from miniqueue.broker.consume.dispatcher import MAX_TURNS_IN_COMMIT
from miniqueue.core.options.settle import NackOptions
from miniqueue.errors import BrokenOffError, InternalError, UnknownReceiptError
from tests.broker.support import World
from tests.fakes import settle_down
from tests.server.resp.clients import started_server

T = b"t"
COUNT = 3 * MAX_SETTLED + 20
PAYLOADS = [b"%d" % number for number in range(COUNT)]
#: The order in which a command names the receipts, which are counted from 1.
NAMED = [*range(COUNT, 0, -2), *range(COUNT - 1, 0, -2)]


async def holding(world: World):
    """Return a consumer that holds all messages."""
    await world.publish(T, *PAYLOADS)
    consumer = world.broker.consumer(T, lambda _: None, pytest.fail, COUNT)
    consumer.request()
    assert consumer.held_count == COUNT
    return consumer


async def begun(consumer, receipts: list[int] = NAMED) -> "asyncio.Task[None]":
    """Begin to return messages; stop when the first part is done."""
    task = asyncio.ensure_future(consumer.nack(receipts))
    while consumer.held_count == COUNT:  # noqa: ASYNC110 - each iteration is looked at
        await asyncio.sleep(0)
    assert consumer.held_count == COUNT - SETTLED_IN_TURN
    return task


async def drained(world: World) -> list[bytes]:
    found: list[bytes] = []
    while world.broker.stats()[T].ready:
        found += await world.drain(T)
    return found


async def check_nothing_is_lost(world: World, consumer) -> None:
    """Leave, wait until the store has been opened again, and receive all messages."""
    consumer.close()
    while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
        await asyncio.sleep(0.01)
    assert sorted(await drained(world)) == sorted(PAYLOADS)


@pytest.mark.parametrize("options", [NackOptions(None, b""), NackOptions(None, b"broken")])
async def test_many_that_fail_are_at_the_front_in_the_order_of_the_command(options, world):
    consumer = await holding(world)
    await world.publish(T, b"next")
    await consumer.nack(NAMED, options)
    assert await drained(world) == [*[PAYLOADS[receipt - 1] for receipt in NAMED], b"next"]


async def test_many_go_to_the_back_in_the_order_of_the_command(world):
    consumer = await holding(world)
    await consumer.back(NAMED)
    assert await drained(world) == [PAYLOADS[receipt - 1] for receipt in NAMED]


async def test_many_are_acknowledged_and_receipts_of_others_are_counted(world):
    consumer = await holding(world)
    with pytest.raises(UnknownReceiptError) as refused:
        await consumer.ack([*NAMED, 7, COUNT + 5])
    assert (refused.value.unknown_count, refused.value.count) == (2, COUNT + 2)
    assert world.broker.stats()[T].acknowledged == COUNT


async def test_consecutive_messages_of_few_leases_are_acknowledged_at_once(world):
    consumer = await holding(world)
    assert consumer.ack(range(1, COUNT + 1)) is None
    assert world.broker.stats()[T].acknowledged == COUNT


async def test_the_end_of_the_stream_meanwhile_returns_the_others(world):
    consumer = await holding(world)
    task = await begun(consumer)
    consumer.close()
    with pytest.raises(UnknownReceiptError):
        await task
    await settle_down()
    assert sorted(await drained(world)) == sorted(PAYLOADS)


async def test_if_the_store_is_reopened_meanwhile_nothing_is_lost(world):
    consumer = await holding(world)
    task = await begun(consumer)
    world.broker._engine.journal.distrust(InternalError("a bug"))
    with pytest.raises(BrokenOffError):
        await task
    await check_nothing_is_lost(world, consumer)


async def test_if_the_topic_is_recreated_meanwhile_the_new_one_is_not_touched(world):
    consumer = await holding(world)
    task = await begun(consumer)
    deleting = asyncio.ensure_future(world.broker.delete_topic(T))
    await asyncio.sleep(0)
    await world.publish(T, b"new")
    await deleting
    with pytest.raises(UnknownReceiptError):
        await task
    consumer.close()
    assert await drained(world) == [b"new"]


def words(receipts: list[int]) -> list[bytes]:
    return [b"%d" % receipt for receipt in receipts]


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_command_is_answered_before_the_next_one_even_if_the_client_leaves(leaves):
    async with started_server() as (world, _, client):
        await world.publish(T, *PAYLOADS)
        await client.say(b"SUBSCRIBE t PREFETCH %d" % COUNT)
        client.send(b"ACK", *words(NAMED[:-1]), b"9999")
        client.send(b"ACK", *words(NAMED[-1:]))
        assert client.transport.take() == b""
        if leaves:
            client.transport.lose()
        await settle_down()
        assert world.broker.stats()[T].acknowledged == COUNT
        if not leaves:
            expected = b"-NOLEASE 1 of %d receipts belong to no message outstanding here\r\n+OK\r\n" % COUNT
            assert client.transport.take() == expected


@pytest.mark.parametrize("fails", [False, True])
async def test_a_commit_has_the_messages_of_few_turns_however_long_it_takes(fails, world):
    consumer, store = await holding(world), world.store
    store.may_write.clear()
    task = asyncio.ensure_future(consumer.nack(NAMED))
    await settle_down()
    assert consumer.held_count == COUNT - MAX_TURNS_IN_COMMIT * SETTLED_IN_TURN
    if fails:
        store.fail_writes.add(store.write_count)
    store.may_write.set()
    if not fails:
        await task
        assert await drained(world) == [PAYLOADS[receipt - 1] for receipt in NAMED]
        return
    with pytest.raises(BrokenOffError):
        await task
    await check_nothing_is_lost(world, consumer)
