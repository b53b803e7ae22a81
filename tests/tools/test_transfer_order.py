"""The stores of a copy with shards: whenever the copying ends, each message that moves is in one of them."""

import asyncio
from collections import Counter

import pytest

from miniqueue.core.cursor.recording import Kind
from miniqueue.core.log.transfer import Received, Transfer
from miniqueue.storage.format import transfers, values
from miniqueue.tools.transfer_order import TransferOrder, transfers_among
from tests.broker.transfers.shards import COUNT, THERE, Shards
from tests.fakes import settle_down
from tests.loops import LeapingLoop, on_loop
from tests.server.shards.transfers.moving import Moves, SlowStore, Turns, found_in


class Copying:
    """Writes what two shards have written to copies of their stores, some writes at a time."""

    def __init__(self, shards: Shards, turns: Turns, order: TransferOrder | None) -> None:
        self._shards = shards
        self._turns = turns
        self._order = order
        self.counts = [0] * COUNT  # writes that each copy has

    async def copy(self, shard: int) -> None:
        store = self._shards.both[shard].store
        while self.counts[shard] < len(store.batches):
            await self._turns(20)
            most = self._turns.chance.randint(1, 8)
            writes = [transfers_among(batch.items()) for batch in store.batches[self.counts[shard] :][:most]]
            while writes:
                count = len(writes) if self._order is None else await self._order.next_count(shard, writes)
                await self._turns()
                self.counts[shard] += count
                if self._order is not None:
                    self._order.wrote(shard, writes[:count])
                writes = writes[count:]
        if self._order is not None:
            self._order.rests(shard, self._order.moment)


async def found_in_copy(seed: int, order: TransferOrder | None) -> tuple[set[bytes], Counter[bytes]]:
    """Copy two shards, and end that at some moment; return what must be in the copy, and what is."""
    turns, shards = Turns(seed), Shards()
    for shard in shards.both:
        shard.store = SlowStore(turns)
    async with shards:
        moves = Moves(shards, turns)
        await moves.begin()
        await moves.end()
        copying = Copying(shards, turns, order)
        tasks = [asyncio.create_task(copying.copy(shard)) for shard in range(COUNT)]
        await turns(1000)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        stores = [await shard.store.as_of(copying.counts[n]) for n, shard in enumerate(shards.both)]
    due = {payload for payload, count in moves.confirmed.items() if count <= copying.counts[0]}
    return due, await found_in(stores)


@pytest.mark.parametrize("seed", range(25))
@on_loop(LeapingLoop)
async def test_each_message_is_in_the_copy_once(seed):
    due, found = await found_in_copy(seed, TransferOrder(COUNT))

    assert due <= found.keys()
    assert set(found.values()) <= {1}


@on_loop(LeapingLoop)
async def test_without_an_order_messages_would_be_missing_and_twice():
    results = [await found_in_copy(seed, None) for seed in range(10)]

    assert any(due - found.keys() for due, found in results)
    assert any(max(found.values(), default=0) > 1 for _, found in results)


# --- what is waited for ---------------------------------------------------------------------------------------


def sent(number: int):
    transfer = Transfer(THERE, Kind.REDRIVEN, False, "", 0, 0, b"0 t", 0, b"x", b"")
    return [
        (transfers.outbox(number), transfers.encode_transfer(transfer)),
        (transfers.SENT, values.encode_number(number)),
    ]


def arrived(number: int, *missing: int):
    return [(transfers.received(0), transfers.encode_received(Received(number, frozenset(missing))))]


def deleted(number: int):
    return [(transfers.outbox(number), None)]


async def test_what_has_arrived_is_written_after_what_was_sent():
    order = TransferOrder(COUNT)
    waiting = asyncio.ensure_future(order.next_count(1, [arrived(17)]))
    await settle_down()
    assert not waiting.done()
    order.wrote(0, [sent(16)])
    await settle_down()
    assert not waiting.done()
    order.wrote(0, [sent(17)])
    assert await waiting == 1


async def test_what_was_sent_is_deleted_after_it_has_arrived():
    order = TransferOrder(COUNT)
    assert await order.next_count(0, [sent(16), sent(17), deleted(16)]) == 2
    order.wrote(0, [sent(16), sent(17)])
    waiting = asyncio.ensure_future(order.next_count(0, [deleted(16), deleted(17)]))
    order.wrote(1, [arrived(17, 16)])
    await settle_down()
    assert not waiting.done()
    order.wrote(1, [arrived(17)])
    assert await waiting == 2


async def test_what_the_broker_has_lost_is_not_waited_for_once_all_have_nothing_else_to_write():
    order = TransferOrder(COUNT)
    moment = order.moment
    waiting = asyncio.ensure_future(order.next_count(1, [arrived(17)]))
    await settle_down()
    order.rests(0, moment)  # it was asked before
    await settle_down()
    assert not waiting.done()
    order.rests(0, order.moment)
    assert await waiting == 1


async def test_stores_that_wait_for_each_other_do_not_wait_forever():
    order = TransferOrder(COUNT)
    order.wrote(0, [sent(16)])
    writes = {0: [deleted(16), sent(17)], 1: [[*arrived(16), *arrived(17)]]}
    waiting = {asyncio.ensure_future(order.next_count(shard, each)): shard for shard, each in writes.items()}
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    (first,), (second,) = done, others
    order.wrote(waiting[first], writes[waiting[first]][: first.result()])
    assert await second > 0
