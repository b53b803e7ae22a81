"""Messages with times to live, keys and priorities, and everything that consumers do to them, in any order.

No message is handed out after its time, none twice at a time, and each that has time left is there at the end.
"""

import random

import pytest

from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.tools.audit.store import Audit
from tests.fakes import settle_down
from tests.serving import eventually

T = b"t"
STEPS = 150
TIMES = (None, None, 1, 2, 5, 20)
NEVER = float("inf")


class Walk:
    """Does things at random, and knows what must be true.

    Attributes:
      over: when each message expires that may be handed out, by payload.
      held: payloads by receipt.
    """

    def __init__(self, world, seed: int, *, topic_ttl_ms: float) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.over: dict[bytes, float] = {}
        self.held: dict[bytes, bytes] = {}
        self.topic_ttl_ms = topic_ttl_ms
        self.acts = [self.publish] * 4 + [self.receive] * 4 + [self.settle] * 3 + [self.pass_time, self.tick]
        self.published = 0

    async def step(self) -> None:
        await self.chance.choice(self.acts)()
        await settle_down()

    async def publish(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            payload, ttl = b"m%d" % self.published, self.chance.choice(TIMES)
            options = PublishOptions(
                key=self.chance.choice((b"", b"a", b"b", b"c")),
                ttl_seconds=ttl,
                priority=self.chance.choice([*Priority]),
            )
            accepted = self.world.broker.publish_with(T, payload, options)
            self.over[payload] = self.world.clock.now_ms() + (self.topic_ttl_ms if ttl is None else ttl * 1000)
            self.published += 1
        await accepted.commit.wait()

    async def receive(self) -> None:
        answers = []
        options = ReceiveOptions(max_count=self.chance.randint(1, 10))
        self.world.broker.leases.receive(T, options, answers.append, answers.append)
        await eventually(lambda: answers)
        for _, lease in answers[0].leases:
            for n, payload in enumerate(lease.payloads):
                assert payload not in self.held.values()
                assert self.over[payload] > self.world.clock.now_ms(), "it has expired"
                self.held[b"%b%d" % (answers[0].prefix, lease.receipt + n)] = payload

    async def settle(self) -> None:
        if not self.held:
            return
        receipts = self.chance.sample(sorted(self.held), self.chance.randint(1, len(self.held)))
        leasing, act = self.world.broker.leases, self.chance.choice(("ack", "nack", "back", "dack"))
        results = getattr(leasing, act)(T, receipts, *[2.0] if act == "dack" else [])
        assert all(results)
        for receipt in receipts:
            payload = self.held.pop(receipt)
            if act == "ack":
                del self.over[payload]

    async def pass_time(self) -> None:
        self.world.clock.advance(self.chance.choice((0.1, 0.5, 1, 3)))
        await self.tick()

    async def tick(self) -> None:
        self.world.broker.tick()
        await settle_down()

    async def restart(self) -> None:
        await self.world.restart()
        self.held.clear()
        assert_sound(self.world.store)

    async def end(self) -> None:
        """Take everything there is; then nothing is left."""
        self.world.broker.leases.ack(T, list(self.held))
        for payload in self.held.values():
            del self.over[payload]
        self.world.clock.advance(3)
        left = {payload for payload, at_ms in self.over.items() if at_ms > self.world.clock.now_ms()}
        await self.tick()
        assert set(await self.world.drain(T)) == left
        for _ in range(10):
            await self.tick()
        await self.world.commit()
        stats = self.world.broker.stats()[T]
        assert (stats.ready, stats.leased, stats.delayed, stats.size_bytes) == (0, 0, 0, 0)
        assert stats.published == self.published == stats.acknowledged + stats.dropped
        assert_sound(self.world.store)
        assert not [key for key in self.world.store.pairs() if key[0] in (0x20, 0x21)]


def assert_sound(store) -> None:
    audit = Audit()
    for key, value in sorted(store.pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert [p for p in audit.problems.kept if "no such partition" not in p.cause] == []


@pytest.mark.parametrize("settings", [{}, {"ttl_seconds": 4}, {"ordered": True}, {"fair": True, "ttl_seconds": 4}])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_what_has_expired_goes_and_the_rest_stays(settings, restarts, seed, world):
    await world.broker.admin.replace(T, {**settings, "lease_seconds": 43_200})[0].wait()
    walk = Walk(world, seed, topic_ttl_ms=settings.get("ttl_seconds", NEVER) * 1000)
    for step in range(STEPS):
        await walk.step()
        if restarts and step % 30 == 29:
            await walk.restart()
    await walk.end()
