"""A backup of all shards while messages move between them: restored, it has each message exactly once."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from random import Random

import pytest

from miniqueue.broker import Broker
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.server.monitor import backup
from miniqueue.server.monitor.backup import BackupReply
from miniqueue.server.monitor.followers import Followers
from miniqueue.server.shards.transfers.carrier import Carrier
from miniqueue.wire.pair_stream import PairDecoder
from tests.broker.transfers.shards import COUNT, HERE, THERE, Shards, topic_in
from tests.fakes import FaultyStore
from tests.loops import LeapingLoop, on_loop

FOUND = topic_in(0, "found")
SCOPE = {"type": "http", "method": "GET", "path": "/backup", "headers": [(b"host", b"localhost:8081")]}
MESSAGES = 12


class Turns:
    """Lets other tasks run for a time that a seed decides; on a loop that leaps, this costs none."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    async def __call__(self, most_ms: float = 2.0) -> None:
        await asyncio.sleep(self.chance.random() * most_ms / 1000)


class SlowStore(FaultyStore):
    """A store whose calls take time."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    async def _write(self, *write):
        await self._turns()
        await super()._write(*write)
        await self._turns()

    async def snapshot(self, *, is_followed=False):
        await self._turns(20)
        taken = await super().snapshot()
        await self._turns(20)
        return taken


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


class Moves:
    """Moves messages between two shards, there and back, for as long as it runs."""

    def __init__(self, shards: Shards, turns: Turns) -> None:
        self._both = shards.both
        self._turns = turns
        self.confirmed: list[bytes] = []
        self.count = 0

    async def prepare(self) -> None:
        here = self._both[0].broker
        await here.admin.create(HERE, {"dead_letter_topic": THERE.decode()}).wait()
        await here.admin.create(FOUND, {"dead_letter_topic": THERE.decode()}).wait()

    async def publish(self) -> None:
        for number in range(MESSAGES):
            payload = b"%d" % number
            await self._both[0].publish(self._turns.chance.choice([HERE, FOUND]), payload)
            self.confirmed.append(payload)
            await self._turns(20)

    async def reject(self) -> None:
        broker = self._both[0].broker
        while True:
            received = []
            topic = self._turns.chance.choice([HERE, FOUND])
            options = ReceiveOptions(max_count=self._turns.chance.randint(1, 4))
            broker.leases.receive(topic, options, received.append, received.append)
            while not received:  # noqa: ASYNC110 - what is appended sets no event
                await asyncio.sleep(0)
            leases = [(lease.receipt, lease.count) for _, lease in received[0].leases]
            receipts = [received[0].prefix + b"%d" % (first + n) for first, count in leases for n in range(count)]
            if receipts:
                broker.leases.reject(topic, receipts, b"broken")
            await self._turns(5)

    async def redrive(self) -> None:
        broker = self._both[1].broker
        while True:
            target = self._turns.chance.choice([None, FOUND])
            if THERE in broker.topics():
                self.count += await broker.redrive(THERE, target=target)
            await self._turns(5)

    async def carry(self, source: int) -> None:
        inbox = self._both[1 - source].broker.inbox

        async def send(_shard, parcel):
            await self._turns()
            taken = await inbox.take(source, parcel)
            await self._turns()
            return taken

        await Carrier(self._both[source].broker.outbox, send).run([1 - source])


async def found_after_restoring(seed: int, query: bytes) -> tuple[list[bytes], Counter[bytes]]:
    """Back two shards up while messages move; return those published before, and all in what is restored from it."""
    turns = Turns(seed)
    shards, restored = Shards(), Shards()
    for shard in shards.both:
        shard.store = SlowStore(turns)
    async with shards:
        moves = Moves(shards, turns)
        await moves.prepare()
        works = [moves.publish(), moves.reject(), moves.redrive(), *map(moves.carry, range(COUNT))]
        tasks = [asyncio.create_task(work) for work in works]
        await turns(200)
        before = [*moves.confirmed]
        clients = []
        for number in turns.chance.sample(range(COUNT), COUNT):
            clients.append((number, Client(shards.both[number].broker, turns, query)))
            await clients[-1][1].begin()
        for _, client in clients:
            await client.end()
        for number, client in clients:
            restored.both[number].store = await client.restored()
        await tasks[0]
        moved = moves.count
        while moves.count < moved + 5:  # noqa: ASYNC110 - messages move again
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for shard in restored.both:
        shard.clock.advance(60)
    async with restored:
        await restored.carry_all()
        found = Counter[bytes]()
        for shard, topics in zip(restored.both, ([HERE, FOUND], [THERE]), strict=True):
            for topic in topics:
                found.update(await shard.drain(topic))
        assert [len(shard.broker.outbox) for shard in restored.both] == [0] * COUNT
    return before, found


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
