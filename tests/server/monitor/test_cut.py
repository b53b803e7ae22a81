"""A backup of all shards while messages move between them: restored, it has each message exactly once."""

import asyncio
from collections import Counter
from contextlib import ExitStack

import pytest

from miniqueue.broker import Broker
from miniqueue.server.monitor import backup
from miniqueue.server.monitor.backup import BackupReply
from miniqueue.server.monitor.followers import Followers
from miniqueue.wire.pair_stream import PairDecoder
from tests.broker.transfers.shards import COUNT, Shards
from tests.fakes import FaultyStore
from tests.loops import LeapingLoop, on_loop
from tests.server.shards.transfers.moving import Moves, SlowStore, Turns, found_in

SCOPE = {"type": "http", "method": "GET", "path": "/backup", "headers": [(b"host", b"localhost:8081")]}


class Client:
    """Asks a shard for its store, and withholds the end of the request."""

    def __init__(self, broker: Broker, turns: Turns, query: bytes) -> None:
        self._turns = turns
        self._ended, self._has_begun = asyncio.Event(), asyncio.Event()
        self._decoder, self.pairs = PairDecoder(), list[tuple[bytes, bytes]]()
        reply = BackupReply(broker, Followers(broker, lambda: 0.0))
        self._task = asyncio.create_task(reply(SCOPE | {"query_string": query}, self._receive, self._send))

    async def _receive(self):
        if self._ended.is_set():
            await asyncio.Event().wait()
        await self._ended.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message):
        await self._turns()
        if message["type"] == "http.response.body":
            self.pairs += self._decoder.feed(message["body"])
            self._has_begun.set()

    async def begin(self) -> None:
        await self._has_begun.wait()
        await self._turns()

    async def end(self) -> None:
        self._ended.set()
        await self._turns()

    async def restored(self) -> FaultyStore:
        await self._task
        assert self._decoder.is_complete
        store = FaultyStore()
        await store.write(dict(self.pairs))
        return store


async def found_after_restoring(seed: int, query: bytes) -> tuple[list[bytes], Counter[bytes]]:
    """Back two shards up while messages move; return those published before, and all in what is restored from it."""
    turns, shards = Turns(seed), Shards()
    for shard in shards.both:
        shard.store = SlowStore(turns)
    async with shards:
        moves = Moves(shards, turns)
        await moves.begin()
        await turns(200)
        before = [*moves.confirmed]
        clients: dict[int, Client] = {}
        for number in turns.chance.sample(range(COUNT), COUNT):
            clients[number] = Client(shards.both[number].broker, turns, query)
            await clients[number].begin()
        for client in clients.values():
            await client.end()
        stores = [await clients[number].restored() for number in range(COUNT)]
        await moves.end()
    return before, await found_in(stores)


@pytest.mark.parametrize("seed", range(25))
@on_loop(LeapingLoop)
async def test_each_message_is_there_once(seed):
    before, found = await found_after_restoring(seed, b"cut=1")

    assert set(before) <= found.keys()
    assert set(found.values()) <= {1}


@on_loop(LeapingLoop)
async def test_without_a_pause_messages_would_be_missing_and_twice():
    results = [await found_after_restoring(seed, b"") for seed in range(8)]

    assert any(set(before) - found.keys() for before, found in results)
    assert any(max(found.values(), default=0) > 1 for _, found in results)


# --- clients that do not end their request --------------------------------------------------------------------


@on_loop(LeapingLoop)
async def test_messages_wait_for_a_minute_for_a_client_that_does_not_go_on():
    async with Shards() as shards:
        outbox = shards.both[0].broker.outbox
        client = Client(shards.both[0].broker, Turns(0), b"cut=1")
        await client.begin()
        assert outbox.pause.is_on
        await asyncio.sleep(backup.MAX_PAGE_SECONDS + 1)
        assert not outbox.pause.is_on
        assert not client.pairs


async def test_messages_do_not_wait_for_a_client_that_has_gone():
    async with Shards() as shards:
        broker, sent = shards.both[0].broker, []

        async def gone():
            return {"type": "http.disconnect"}

        async def send(message):
            assert broker.outbox.pause.is_on
            sent.append(message)

        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE | {"query_string": b"cut=1"}, gone, send)

        assert not broker.outbox.pause.is_on
        assert sent[-1]["more_body"]


async def test_messages_wait_for_all_backups_that_begin():
    async with Shards() as shards:
        outbox = shards.both[0].broker.outbox
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(outbox.pause.lasting())
            second.enter_context(outbox.pause.lasting())
            first.close()
            assert outbox.pause.is_on
            second.close()
            assert not outbox.pause.is_on
