"""Partitions are added at any time, among all that happens to a topic: no message of a key overtakes an older one."""

import random
from contextlib import suppress

import pytest

from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import MiniqueueError, OutcomeUnknownError
from tests.broker.consume.test_members import create
from tests.broker.support import World
from tests.broker.topics.test_growing import look
from tests.fakes import settle_down

KEYS = [b"key-%d" % number for number in range(7)]
STEPS = 120


class Reader:
    """A consumer of a group, also of a member; it checks everything it is handed."""

    def __init__(self, walk: "Walk", group: bytes, member: bytes) -> None:
        self.walk, self.group = walk, group
        self.held: list[tuple[int, bytes]] = []
        prefetch = 1 if member else walk.chance.choice([1, 4])
        self.consumer = walk.world.broker.consumer(b"t", self.take, walk.errors.append, prefetch, group, member)
        self.consumer.request()

    def take(self, leases: list) -> None:
        for lease in leases:
            for receipt, payload in enumerate(lease.payloads, lease.receipt):
                self.held.append((receipt, payload))
                self.walk.check(self.group, payload)

    def settle(self) -> None:
        """Do something to all that is held, and ask for more."""
        held, self.held = self.held, []
        for receipt, payload in held:
            act = self.walk.chance.choice(self.walk.acts)
            with suppress(MiniqueueError):  # it has moved to another member, or its lease ended with a fault
                getattr(self.consumer, act)(*([1.0] if act == "dack" else []), [receipt])
                if act == "ack":
                    self.walk.done[self.group].add(payload)
        with suppress(MiniqueueError):
            self.consumer.refill()


class Walk:
    """Does anything to a topic, and knows what was published of each key, in order."""

    def __init__(self, world: World, seed: int, *, has_members: bool) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.has_members = has_members
        self.acts = ["ack", "ack", "nack"] if has_members else ["ack", "ack", "nack", "back", "dack"]
        self.published: dict[tuple[bytes, Priority], list[bytes]] = {}
        self.done: dict[bytes, set[bytes]] = {b"default": set(), b"other": set()}
        self.readers: list[Reader] = []
        self.errors: list = []
        self.partitions, self.joined = 2, 0

    def check(self, group: bytes, payload: bytes) -> None:
        """Note when something older of the key is not done."""
        for line in self.published.values():
            if payload in line:
                older = line[: line.index(payload)]
                self.errors += [(group, payload, one) for one in older if one not in self.done[group]]

    async def step(self) -> None:
        act = self.chance.choice(
            [self.publish] * 5 + [self.settle] * 6 + [self.join] * 2 + [self.leave, self.pass_time]
        )
        await act()
        assert self.errors == []

    async def publish(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            key, priority = (
                self.chance.choice(KEYS),
                self.chance.choice([Priority.NORMAL, Priority.NORMAL, Priority.HIGH]),
            )
            line = self.published.setdefault((key, priority), [])
            line.append(b"%b %b %d" % (key, priority.value.encode(), len(line)))
            self.world.broker.publish_with(b"t", line[-1], PublishOptions(key=key, priority=priority))
            if self.chance.random() < 0.1 and self.partitions < 12:
                self.partitions += self.chance.choice([1, 2, self.partitions])
                self.world.broker.admin.change(b"t", {"partitions": self.partitions})
        await self.world.commit()

    async def settle(self) -> None:
        for reader in self.readers:
            reader.settle()
        await look(self.world)

    async def join(self) -> None:
        if len(self.readers) < 4:
            self.joined += 1  # each has a name of its own: those that share one share partitions, too
            member = b"m%d" % self.joined if self.has_members else b""
            self.readers.append(Reader(self, self.chance.choice([*self.done]), member))
        await look(self.world)

    async def leave(self) -> None:
        if self.readers:
            self.readers.pop(self.chance.randrange(len(self.readers))).consumer.close()
        await look(self.world)

    async def pass_time(self) -> None:
        self.world.clock.advance(1.5)
        self.world.broker.tick()
        await look(self.world)

    async def begin_anew(self, *, is_fault: bool) -> None:
        """Restart the broker, or have the store fail in a commit that adds nothing but a partition."""
        await self.world.commit()
        if is_fault:
            self.world.store.fail_writes.add(self.world.store.write_count + 1)
            self.world.store.applies_failed = self.chance.random() < 0.5
            with suppress(OutcomeUnknownError):
                await self.world.broker.admin.change(b"t", {"partitions": self.partitions + 1}).wait()
            while self.world.broker.refusal is not None:
                await settle_down()
            self.partitions = self.world.broker.admin.settings_of(b"t").partitions
            for reader in self.readers:
                reader.held.clear()
                with suppress(MiniqueueError):
                    reader.consumer.refill()
            return
        self.readers.clear()
        await self.world.restart()

    async def finish(self) -> None:
        """Read everything, with one reader for each group."""
        for reader in self.readers:
            reader.consumer.close()
        self.acts = ["ack"]
        self.readers = [Reader(self, group, b"last" if self.has_members else b"") for group in self.done]
        everything = {payload for line in self.published.values() for payload in line}
        for _ in range(len(everything) + 50):
            if all(done == everything for done in self.done.values()):
                return
            await self.settle()
            await self.pass_time()
        raise AssertionError({group: everything - done for group, done in self.done.items()})


@pytest.mark.parametrize("has_members", [False, True], ids=["ordered", "members"])
@pytest.mark.parametrize("seed", range(3))
async def test_no_message_overtakes_an_older_one_of_its_key(seed, has_members, world):
    await create(world, 2, ordered=not has_members, handover_seconds=0, retention="forever")
    await world.broker.groups.create(b"t", b"other", Edge.EARLIEST)
    walk = Walk(world, seed, has_members=has_members)
    for number in range(STEPS):
        await walk.step()
        if number % 40 == 39:
            await walk.begin_anew(is_fault=number == 79)
    await walk.finish()
    assert walk.errors == []
