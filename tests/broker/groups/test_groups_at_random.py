"""A topic with groups under random use: keys, priorities, partitions, settings, moves, crashes and faults of the store.

After some steps what is stored is sound, and every log can be read. At the end every group gets to the end, and nothing
is left in the store.
"""

import asyncio
import random
from contextlib import suppress

import pytest

from miniqueue.broker.cleanup import retention
from miniqueue.core.keyed import log_index
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.options.start import Edge, FromMessage, FromTime
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format.keys import Space
from tests.broker.steady_loop import SteadyLoop
from tests.broker.support import started_world
from tests.fakes import settle_down
from tests.loops import on_loop
from tests.tools.test_audit_of_retention import problems_of

STEPS = 120
GROUPS = (b"default", b"g1", b"g2")
SETTINGS = (
    {},
    {"retention": "forever"},
    {"retention_seconds": 5},
    {"retention_bytes": 60},
    {"retention_seconds": 3, "retention_drops_unread": True},
    {"ordered": True, "retention_seconds": 4, "retention_drops_unread": True},
    {"ordered": True, "max_deliveries": 3},
    {"fair": True, "max_rate": 5},
    {"key_max_concurrency": 1, "max_concurrency": 3},
    {"ordered": True, "max_messages": 15, "limit_policy": "drop-oldest"},
    {"max_messages": 10, "limit_policy": "dead-letter"},
    {"ttl_seconds": 3, "expired": "dead-letter", "ordered": True},
    {"partitions": 3, "ordered": True},
)
MESSAGES = (Space.CHUNK, Space.BITMAP, Space.GAP, Space.RECORD, Space.UNIQUE)


class Use:
    """One run."""

    def __init__(self, world, seed):
        self.world, self.random = world, random.Random(seed)
        self.count = 0
        self.partitions = 1
        self.receipts = {}  # an ordered set: receipts begin with random bytes

    @property
    def broker(self):
        return self.world.broker

    async def publish(self):
        for _ in range(self.random.randint(1, 4)):
            self.count += 1
            options = PublishOptions(
                key=self.random.choice([b"", b"a", b"b", b"c"]),
                priority=self.random.choice([Priority.NORMAL] * 4 + [Priority.HIGH, Priority.LOW]),
                ttl_seconds=self.random.choice([None] * 5 + [2.0]),
                delay_seconds=self.random.choice([None] * 6 + [1.0]),
            )
            self.broker.publish_with(b"t", b"%d" % self.count, options)
        await self.world.commit()

    async def publish_unique(self):
        options = PublishOptions(key=b"a", unique_key=self.random.choice([b"u1", b"u2", b"u3"]))
        await self.broker.publish_unique(b"t", b"u", options)
        await self.world.commit()

    async def receive(self):
        group = self.random.choice(GROUPS)
        lease_seconds = self.random.choice([3.0, 100.0])
        answer = await self.answer(ReceiveOptions(self.random.randint(1, 5), group=group, lease_seconds=lease_seconds))
        for _, lease in answer.leases:
            self.receipts |= {b"%b%d" % (answer.prefix, lease.receipt + n): None for n in range(lease.count)}

    async def answer(self, options):
        answers = []
        receiving = self.broker.leases.receive(b"t", options, answers.append, answers.append)
        await settle_down()
        receiving.give_up()
        assert not isinstance(answers[0], MiniqueueError), answers[0]
        return answers[0]

    def some(self):
        found = self.random.sample([*self.receipts], min(len(self.receipts), self.random.randint(1, 4)))
        for receipt in found:
            del self.receipts[receipt]
        return found

    async def ack(self):
        self.broker.leases.ack(b"t", self.some())
        if self.random.random() < 0.5:
            await self.world.commit()

    async def give_back(self):
        leasing, found = self.broker.leases, self.some()
        act = self.random.choice([leasing.nack, leasing.back, self.delay, self.reject])
        act(b"t", found)

    def delay(self, name, found):
        self.broker.leases.dack(name, found, self.random.choice([0, 1, 2]))

    def reject(self, name, found):
        self.broker.leases.reject(name, found, b"no")

    async def configure(self):
        settings = self.random.choice(SETTINGS)
        self.partitions = max(self.partitions, settings.get("partitions", 1))
        await self.broker.admin.replace(b"t", {**settings, "partitions": self.partitions})[0].wait()

    async def pass_time(self):
        self.world.clock.advance(self.random.choice([0.5, 1, 2, 4, -3]))
        self.broker.tick()

    async def seek(self):
        now_ms = self.world.clock.now_ms()
        places = [Edge.EARLIEST, Edge.LATEST, FromMessage(0, self.random.randint(0, 9)), FromTime(now_ms - 3000)]
        is_dry = self.random.random() < 0.2
        await self.broker.groups.seek(b"t", self.random.choice(GROUPS), self.random.choice(places), is_dry=is_dry)

    async def create(self):
        await self.broker.groups.create(b"t", self.random.choice(GROUPS), self.random.choice([*Edge]))

    async def delete(self):
        await self.broker.groups.delete(b"t", self.random.choice(GROUPS))

    async def purge(self):
        group = self.random.choice([None, *GROUPS])
        await self.broker.purge(b"t", group=group)

    async def redrive(self):
        await self.broker.redrive(b"t.dlq", target=self.random.choice([None, None, b"t"]))

    async def several(self):
        """Do some things at the same time."""
        acts = [self.seek, self.delete, self.create, self.publish, self.ack, self.purge, self.receive, self.configure]
        acts.append(self.redrive)
        await asyncio.gather(*(self.tried(self.random.choice(acts)) for _ in range(3)))

    async def restart(self):
        self.receipts.clear()
        await self.world.restart()

    async def crash(self):
        self.receipts.clear()
        store = await self.world.store.as_of(len(self.world.store.batches))
        await self.broker.stop()
        self.world.store = store
        await self.world.start()

    async def fault(self):
        store = self.world.store
        store.applies_failed = self.random.random() < 0.5
        store.fail_writes = {store.write_count + self.random.choice([1, 2])}
        try:
            self.broker.publish(b"t", [b"fault"])
            await settle_down()
        finally:  # a refused one, too: no other write is to fail
            store.fail_writes = set()
        while self.broker.refusal is not None:
            await settle_down()
        self.receipts.clear()

    async def tried(self, act):
        """Do something that may be refused."""
        with suppress(MiniqueueError):
            await act()

    async def step(self):
        often = [self.publish] * 5 + [self.receive] * 7 + [self.ack] * 6 + [self.give_back] * 3
        now_and_then = [self.configure, self.pass_time, self.pass_time, self.seek, self.publish_unique, self.create]
        rarely = [self.purge, self.redrive, self.several, self.several]
        acts = [self.delete, self.restart, self.crash, self.fault]
        await self.tried(self.random.choice(acts if self.random.random() < 0.15 else often + now_and_then + rarely))
        assert not self.broker.failed.done()

    async def check(self):
        await settle_down()
        await self.world.commit()
        await settle_down()
        assert problems_of(self.world.store.pairs()) == []
        assert self.broker.faults() == {}
        for bounds in self.broker.inspect.log.bounds(b"t"):
            await self.broker.inspect.log.read(b"t", bounds.partition, ReadOptions(0, max_count=10_000))

    async def finish(self):
        await self.broker.admin.replace(b"t", {})[0].wait()
        await self.rest()
        async for figures in self.broker.groups.figures(b"t"):
            while (await self.answer(ReceiveOptions(50, group=figures.name, is_acked=True))).leases:
                pass
        await self.rest()
        assert [figures.lag async for figures in self.broker.groups.figures(b"t") if figures.lag] == []
        topic_id = self.broker._engine.topics.by_name[b"t"].id.to_bytes(8, "big")
        assert [key for key in self.world.store.pairs() if key[0] in MESSAGES and key[1:9] == topic_id] == []

    async def rest(self):
        """Advance the clock past every delay, lease, and time to live."""
        for _ in range(5):
            self.world.clock.advance(100)
            self.broker.tick()
            await settle_down()
            await self.world.commit()


@pytest.mark.parametrize("seed", range(16))
@on_loop(SteadyLoop)
async def test_groups_get_to_the_end_whatever_happens_on_the_way(seed, monkeypatch):
    if seed % 3 == 0:
        monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 500)
    if seed % 2:
        monkeypatch.setattr(retention, "PAGE_CHUNKS", 1 + seed % 3)

    async with started_world() as world:
        use = Use(world, seed)
        await use.publish()
        for number in range(STEPS):
            await use.step()
            if number % 5 == 0:
                await use.check()
        await use.check()
        await use.finish()
