"""Messages that move between two shards, there and back, while time passes that a seed decides."""

import asyncio
from collections import Counter
from random import Random

from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.server.shards.transfers.carrier import Carrier
from tests.broker.transfers.shards import COUNT, HERE, THERE, Shards, topic_in
from tests.fakes import FaultyStore

FOUND = topic_in(0, "found")
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


class Moves:
    """Publishes messages, and moves them between two shards, there and back."""

    def __init__(self, shards: Shards, turns: Turns) -> None:
        self._both = shards.both
        self._turns = turns
        self._tasks: list[asyncio.Task[None]] = []
        #: How many writes the store of the first shard had when each message was confirmed.
        self.confirmed: dict[bytes, int] = {}
        self.count = 0

    async def begin(self) -> None:
        here = self._both[0].broker
        await here.admin.create(HERE, {"dead_letter_topic": THERE.decode()}).wait()
        await here.admin.create(FOUND, {"dead_letter_topic": THERE.decode()}).wait()
        works = [self._publish(), self._reject(), self._redrive(), *map(self._carry, range(COUNT))]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def end(self) -> None:
        """Publish the rest, let messages move, then stop."""
        await self._tasks[0]
        count = self.count
        while self.count < count + 5:  # noqa: ASYNC110 - what moves sets no event
            await asyncio.sleep(0.001)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _publish(self) -> None:
        for number in range(MESSAGES):
            payload = b"%d" % number
            await self._both[0].publish(self._turns.chance.choice([HERE, FOUND]), payload)
            self.confirmed[payload] = len(self._both[0].store.batches)
            await self._turns(20)

    async def _reject(self) -> None:
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

    async def _redrive(self) -> None:
        broker = self._both[1].broker
        while True:
            target = self._turns.chance.choice([None, FOUND])
            if THERE in broker.topics():
                self.count += await broker.redrive(THERE, target=target)
            await self._turns(5)

    async def _carry(self, source: int) -> None:
        inbox = self._both[1 - source].broker.inbox

        async def send(_shard, parcel):
            await self._turns()
            taken = await inbox.take(source, parcel)
            await self._turns()
            return taken

        await Carrier(self._both[source].broker.outbox, send).run([1 - source])


async def found_in(stores: list[FaultyStore]) -> Counter[bytes]:
    """Start both shards on stores, and let everything arrive; return how often each message is there."""
    shards, found = Shards(), Counter[bytes]()
    for shard, store in zip(shards.both, stores, strict=True):
        shard.store = store
        shard.clock.advance(60)
    async with shards:
        await shards.carry_all()
        assert [len(shard.broker.outbox) for shard in shards.both] == [0] * COUNT
        for shard, topics in zip(shards.both, ([HERE, FOUND], [THERE]), strict=True):
            for topic in topics:
                found.update(await shard.drain(topic))
    return found
