"""An ordered topic through crashes and faults of its store: each key is handed out number after number all the same."""

import asyncio
import random

import pytest

from miniqueue.core.keyed import log_index
from miniqueue.errors import MiniqueueError
from tests.broker.model.test_keys import ORDERED, Group, publish, topic, until
from tests.broker.support import World, started_world
from tests.fakes import FaultyStore, settle_down

ACTS = ("publish", "settle", "tick", "commit", "evict", "crash", "fault")
WEIGHTS = (4, 10, 2, 1, 0.5, 0.4, 0.4)
SETTLES = (("ack",), ("ack",), ("ack",), ("nack",), ("back",), ("dack", 1.5))


class Machine:
    """Publishes and settles at random; the store may forget what was settled and not committed, and nothing else."""

    def __init__(self, world: World, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.group = Group(world, 4)
        self.published = dict.fromkeys("abcd", 0)
        self.acked: set[str] = set()
        self.next: dict[str, int | None] = dict.fromkeys(
            "abcd", 1
        )  # the next number of each key; None where a crash may have undone

    async def step(self) -> None:
        act = self.random.choices(ACTS, WEIGHTS)[0]
        await getattr(self, act)()
        await settle_down()
        self.check()

    def check(self) -> None:
        """One message of each key is out, and it is the one that must come next."""
        held = sorted(self.group.held)
        assert len({text[0] for text in held}) == len(held)
        for text in held:
            key, number = text[0], int(text[1:])
            assert self.next[key] in (None, number)
            assert all(f"{key}{before}" in self.acked for before in range(1, number))
            self.next[key] = number

    async def publish(self) -> None:
        key = self.random.choice("aaabcd")
        self.published[key] += 1
        await publish(self.world, f"{key}{self.published[key]}")

    async def settle(self, *acts: tuple) -> None:
        if held := sorted(self.group.held):
            text, act = self.random.choice(held), self.random.choice(acts or SETTLES)
            await self.group.settle(text, *act)
            if act == ("ack",):
                self.acked.add(text)
                self.next[text[0]] = int(text[1:]) + 1

    async def tick(self) -> None:
        self.world.clock.advance(1)
        self.world.broker.tick()

    async def commit(self) -> None:
        await self.world.commit()

    async def evict(self) -> None:
        self.world.broker._engine.topics.by_name[b"t"].evict()

    async def crash(self) -> None:
        """The process dies; what was written is there."""
        store = await self.world.store.as_of(len(self.world.store.batches))
        await self.world.broker.stop()
        self.world.store = store
        await self.world.start()
        self._begin_anew()

    async def fault(self) -> None:
        """The next write fails, and may have been carried out."""
        store: FaultyStore = self.world.store
        closed_count = store.close_count
        store.applies_failed = self.random.random() < 0.5
        store.fail_writes = {store.write_count + 1}
        key = self.random.choice("abcd")
        with pytest.raises(MiniqueueError):
            await publish(self.world, f"{key}{self.published[key] + 1}")
        self.published[key] += store.applies_failed
        await until(lambda: store.close_count > closed_count and self.world.broker.refusal is None)
        for one in self.group.consumers:
            one.consumer.close()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.group = Group(self.world, 4)
        self.next = dict.fromkeys("abcd")

    async def finish(self) -> None:
        """Everything comes."""
        self.world.clock.advance(100)
        await self.tick()
        await settle_down()
        while self.group.held:
            self.check()
            await self.settle(("ack",))
            await settle_down()
        count = sum(self.published.values())
        assert len(self.acked) == count
        assert self.world.broker.stats()[b"t"].ready == 0


@pytest.mark.parametrize("seed", range(8))
async def test_each_key_comes_number_after_number(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 500)

    async with started_world() as world:
        await topic(world, **ORDERED)
        machine = Machine(world, seed)
        for _ in range(120):
            await machine.step()
        async with asyncio.timeout(60):
            await machine.finish()
