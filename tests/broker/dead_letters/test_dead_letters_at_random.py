"""Whatever happens to messages with a limit of deliveries: each is in one place, after every commit, and none is lost.

Publishes, receives, settles of every kind, expired leases, redrives and restarts, in any order.
"""

from random import Random

import orjson
import pytest

from miniqueue.core.message.attributes import Attributes
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.tools.exporting.exporter import Exporter
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.support import World
from tests.fakes import FaultyStore, settle_down

T, DEAD = b"t", b"t.dlq"
STEPS = 150


class Walk:
    """Random acts on a broker, and what they must leave behind."""

    def __init__(self, world: World, chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.left: set[str] = set()  # published and not acknowledged
        self.out: list[tuple[bytes, bytes, str]] = []  # topic, receipt and payload of what is leased
        self.count = 0

    async def publish(self) -> None:
        names = [f"m{self.count + n}" for n in range(self.chance.randint(1, 4))]
        self.count += len(names)
        self.left |= set(names)
        extras = [Attributes(key=b"k").encode() if self.chance.random() < 0.5 else b"" for _ in names]
        await self.world.broker.publish(T, [name.encode() for name in names], extras).commit.wait()

    async def receive(self) -> None:
        topic = self.chance.choice((T, T, DEAD))
        received: list = []
        options = ReceiveOptions(max_count=self.chance.randint(1, 4))
        self.world.broker.leases.receive(topic, options, received.append, received.append)
        await settle_down()
        for _, lease in received[0].leases if received else ():
            for n, payload in enumerate(lease.payloads):
                self.out.append((topic, received[0].prefix + b"%d" % (lease.receipt + n), payload.decode()))

    async def settle(self) -> None:
        if not self.out:
            return
        topic, receipt, name = self.out.pop(self.chance.randrange(len(self.out)))
        leasing = self.world.broker.leases
        act = self.chance.choice(("ack", "nack", "nack", "back", "dack", "reject"))
        more = {"dack": [1.0], "reject": [b"broken"]}.get(act, [])
        [is_settled] = getattr(leasing, act)(topic, [receipt], *more)
        if is_settled and (act == "ack" or (act == "reject" and topic == DEAD)):
            self.left.discard(name)

    async def wait(self) -> None:
        self.world.clock.advance(seconds=self.chance.choice((1, 5, 40)))
        self.world.broker.tick()
        await settle_down()

    async def redrive(self) -> None:
        if DEAD in self.world.broker.topics():
            await self.world.broker.redrive(DEAD, limit=self.chance.choice((None, 1, 3)))

    async def restart(self) -> None:
        await self.world.restart()
        self.out.clear()

    async def step(self) -> None:
        acts = [self.publish, *[self.receive] * 4, *[self.settle] * 8, *[self.wait] * 2]
        await self.chance.choice([*acts, self.redrive, self.restart])()


def payloads_in(store: FaultyStore) -> list[str]:
    lines = map(orjson.loads, Exporter().lines(iter(sorted(store.pairs().items()))))
    return sorted(line["text"] for line in lines if "text" in line)  # others are of topics


@pytest.mark.parametrize("seed", range(8))
async def test_each_message_is_in_one_place_after_every_commit(seed, world):
    walk = Walk(world, Random(seed))
    settings = {"max_deliveries": 2, "retry_delays": [2], "retry_jitter": 0.5}
    await world.broker.admin.create(T, settings).wait()
    for _ in range(STEPS):
        await walk.step()
    await world.commit()
    await settle_down()
    assert payloads_in(world.store) == sorted(walk.left)
    crashed = FaultyStore()
    for batch in world.store.batches:
        await crashed.write(batch)
        assert_sound(crashed)
        found = payloads_in(crashed)
        assert len(found) == len(set(found)), "in two places"
