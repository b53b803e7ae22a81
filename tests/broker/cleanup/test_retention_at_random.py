"""A topic that retains, under random use, restarts and changes of its settings, against what it must keep.

After every step what is stored is sound, a page of the log is a run of what was published, gaps are reported,
and every message is acknowledged, counted as dropped, or left.
"""

import random

import pytest

from miniqueue.broker.cleanup import retention
from miniqueue.core.options.read import ReadOptions
from tests.broker.cleanup.test_retention import tick
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of

STEPS = 60
CHOICES = [
    {},
    {"retention": "forever"},
    {"retention_seconds": 5},
    {"retention_bytes": 20},
    {"retention_messages": 7},
    {"retention_messages": 5, "retention_drops_unread": True},
    {"retention_seconds": 3, "retention_drops_unread": True},
    {"retention_bytes": 15, "retention_drops_unread": True},
]


class Use:
    """One run: what was published, what is settled, and who holds what."""

    def __init__(self, world, seed):
        self.world, self.random = world, random.Random(seed)
        self.published = []
        self.settled = set()
        self.holders = []
        self.settings = {}

    async def publish(self):
        count = self.random.randint(1, 4)
        messages = [b"%d" % n for n in range(len(self.published), len(self.published) + count)]
        self.published += messages
        await self.world.publish(b"t", *messages)

    async def take(self):
        consumer = self.world.consumer(b"t")
        consumer.consumer.request()
        await settle_down()
        if consumer.leases:
            self.holders.append(consumer)
        else:
            consumer.consumer.close()

    async def ack(self):
        if self.holders:
            holder = self.holders.pop(self.random.randrange(len(self.holders)))
            holder.consumer.ack()
            self.settled.add(int(holder.payloads[-1]))
            holder.consumer.close()
            await self.world.commit()

    async def give_back(self):
        if self.holders:
            holder = self.holders.pop(self.random.randrange(len(self.holders)))
            (holder.consumer.nack if self.random.random() < 0.5 else holder.consumer.back)()
            holder.consumer.close()
            await self.world.commit()

    async def configure(self):
        self.settings = self.random.choice(CHOICES)
        await self.world.broker.admin.replace(b"t", self.settings)[0].wait()

    async def pass_time(self):
        self.world.clock.advance(self.random.choice([0.5, 1, 2]))
        await tick(self.world)
        await self.world.commit()

    async def restart(self):
        self.holders = []
        await self.world.restart()

    async def step(self):
        acts = [self.publish, self.take, self.take, self.ack, self.ack, self.give_back, self.pass_time]
        await self.random.choice([*acts, *acts, self.configure, self.restart])()
        await self.check()

    async def check(self):
        assert problems_of(self.world.store.pairs()) == []
        page = await self.world.broker.inspect.log.read(b"t", 0, ReadOptions(0, max_count=10_000))
        first = page.runs[0].first_seq if page.runs else len(self.published)
        assert page.missed_count == first
        read = [payload for part in page.runs for payload in part.payloads]
        assert read == self.published[first : page.next_seq]
        stats = self.world.broker.stats()[b"t"]
        left = len(self.published) - len(self.settled) - stats.dropped
        assert stats.ready + stats.leased + stats.delayed == left
        assert stats.acknowledged == len(self.settled)


@pytest.mark.parametrize("seed", range(25))
async def test_what_is_kept_and_given_back_is_as_it_must_be(seed, monkeypatch, world):
    monkeypatch.setattr(retention, "PAGE_CHUNKS", 1 + seed % 3)
    use = Use(world, seed)
    await use.publish()
    for _ in range(STEPS):
        await use.step()
    await world.broker.admin.replace(b"t", {})[0].wait()
    for holder in use.holders:
        holder.consumer.ack()
    while world.broker.stats()[b"t"].ready:
        await world.drain(b"t")
    await world.commit()
    await tick(world)
    await world.commit()
    assert [key for key in world.store.pairs() if key[0] in (0x12, 0x13, 0x18, 0x20, 0x21)] == []
