"""Members that come, go and fall silent at random: nothing is lost, and the order of each partition holds."""

import random
from contextlib import suppress

import pytest

from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import MiniqueueError
from tests.broker.consume.test_members import Reader, create, wait_for_move
from tests.broker.support import World
from tests.fakes import settle_down

KEYS = [b"key-%d" % number for number in range(9)]


class Walk:
    """Does anything to a group of members, and watches what they are handed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.readers: dict[bytes, Reader] = {}
        self.published = 0
        self.done: list[bytes] = []

    async def step(self) -> None:
        acts = [self.publish, self.publish, self.settle, self.settle, self.settle, self.join, self.leave, self.wait]
        await self.chance.choice(acts)()
        await self.check()

    async def publish(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            key = self.chance.choice(KEYS)
            self.world.broker.publish_with(b"t", b"%b %d" % (key, self.published), PublishOptions(key=key))
            self.published += 1
        await self.world.commit()

    async def join(self) -> None:
        name = b"m%d" % self.chance.randrange(6)
        if name not in self.readers:
            self.readers[name] = Reader(self.world, name, prefetch=self.chance.choice([2, 5]))

    async def leave(self) -> None:
        if self.readers:
            self.readers.pop(self.chance.choice([*self.readers])).consumer.close()

    async def wait(self) -> None:
        self.world.clock.advance(self.chance.choice([0.1, 1.0]))
        await wait_for_move()

    async def settle(self) -> None:
        """Acknowledge the oldest message that a member holds, or return it."""
        for reader in self.readers.values():
            held = [(receipt, payload) for lease in reader.leases for receipt, payload in numbered(lease)]
            reader.leases = []
            for receipt, payload in held:
                if self.chance.random() < 0.2:
                    with suppress(MiniqueueError):  # it was handed to another
                        reader.consumer.nack([receipt])
                    continue
                try:
                    reader.consumer.ack([receipt])
                except MiniqueueError:
                    continue
                self.done.append(payload)
            reader.consumer.refill()

    async def check(self) -> None:
        await settle_down()
        figures = await self.world.broker.groups.figures_of(b"t", b"default")
        shares = [len(numbers) for numbers in figures.members.values()]
        if shares and not figures.moving:
            assert max(shares) - min(shares) <= 1
            assert sum(shares) == 5


def numbered(lease):
    return list(enumerate(lease.payloads, lease.receipt))


@pytest.mark.parametrize("seed", range(12))
async def test_everything_is_handed_out_and_done_once(seed, world):
    await create(world, 5)
    walk = Walk(world, seed)
    for _ in range(80):
        await walk.step()
    for name in [*walk.readers]:
        walk.readers.pop(name).consumer.close()
    world.clock.advance(2)
    await wait_for_move()
    rest = await world.drain(b"t")
    assert sorted([*walk.done, *rest], key=by_number) == sorted({*walk.done, *rest}, key=by_number)
    assert len(walk.done) + len(rest) == walk.published


def by_number(payload: bytes) -> int:
    return int(payload.split()[1])


@pytest.mark.parametrize("seed", range(12))
async def test_what_is_first_handed_out_of_a_partition_is_in_order(seed, world):
    await create(world, 5)
    walk = Walk(world, seed)
    seen: dict[int, list[int]] = {number: [] for number in range(5)}
    for _ in range(80):
        await walk.step()
        for reader in walk.readers.values():
            for lease in reader.leases:
                if not sum(lease.counts):
                    for payload in lease.payloads:
                        seen[partition_for(payload.split()[0], 5)].append(by_number(payload))
        await walk.settle()
    for numbers in seen.values():
        assert numbers == sorted(numbers)
