"""Lanes and groups in the tools: check finds nothing wrong after any commit, and export knows whose messages leave."""

import random

import orjson
import pytest

from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromMessage
from miniqueue.errors import RequestError
from miniqueue.storage.memory import MemoryStore
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.exporting.exporter import Exporter
from miniqueue.tools.importing.importer import Importer, import_all
from tests.fakes import START_MS, settle_down

GROUPS = (b"default", b"a", b"b")


def problems_in(pairs: dict[bytes, bytes]) -> list[str]:
    audit = Audit()
    for pair in sorted(pairs.items()):
        audit.take(*pair)
    audit.finish()
    return [str(problem) for problem in audit.problems.kept]


def lines_of(pairs: dict[bytes, bytes]) -> list[bytes]:
    return list(Exporter().lines(iter(sorted(pairs.items()))))


class Walk:
    """Does anything to a topic with groups and lanes."""

    def __init__(self, world, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.receipts: list[bytes] = []

    async def step(self) -> None:
        act = self.chance.choice([self.publish, self.publish, self.receive, self.receive, self.settle, self.regroup])
        await act()
        await settle_down()

    async def publish(self) -> None:
        options = PublishOptions(priority=self.chance.choice(list(Priority)))
        for _ in range(self.chance.randint(1, 3)):
            self.world.broker.publish_with(b"t", b"%d" % self.chance.randrange(10**6), options)

    async def receive(self) -> None:
        answers = []
        options = ReceiveOptions(self.chance.randint(1, 3), group=self.chance.choice(GROUPS))
        receiving = self.world.broker.leases.receive(b"t", options, answers.append, answers.append)
        await settle_down()
        receiving.give_up()
        for _, lease in answers[0].leases:
            self.receipts += [b"%b%d" % (answers[0].prefix, lease.receipt + n) for n in range(lease.count)]

    async def settle(self) -> None:
        leasing = self.world.broker.leases
        self.chance.shuffle(self.receipts)
        some, self.receipts = self.receipts[:2], self.receipts[2:]
        act = self.chance.choice(["ack", "ack", "nack", "back", "dack"])
        getattr(leasing, act)(b"t", some, *([0.0] if act == "dack" else []))

    async def regroup(self) -> None:
        groups, group = self.world.broker.groups, self.chance.choice(GROUPS)
        start = self.chance.choice([*Edge, FromMessage(0, self.chance.randrange(20))])
        try:
            act = self.chance.randrange(4)
            if act == 0:
                await groups.delete(b"t", group)
            elif act == 1:
                await groups.create(b"t", group, start)
            else:
                await groups.seek(b"t", group, start, is_dry=act == 2)
        except RequestError:
            pass  # there is none, or is one


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_wrong_after_any_commit(seed, world):
    walk = Walk(world, seed)
    for _ in range(60):
        await walk.step()
    for count in range(1, len(world.store.batches) + 1):
        assert problems_in((await world.store.as_of(count)).pairs()) == [], count


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_every_group_gets_what_it_lacks_after_a_restart_anywhere(seed, world):
    walk = Walk(world, seed)
    for _ in range(40):
        await walk.step()
        if walk.chance.random() < 0.2:
            await world.restart()
            walk.receipts.clear()
    await world.restart()
    world.clock.advance(1)
    world.broker.tick()
    exists = b"t" in world.broker.topics()
    figures = [group async for group in world.broker.groups.figures(b"t")] if exists else []
    for group in figures:
        walk.receipts.clear()
        answers = []
        for _ in range(group.lag):
            options = ReceiveOptions(100, group=group.name, wait_seconds=1)
            receiving = world.broker.leases.receive(b"t", options, answers.append, answers.append)
            for _ in range(5):
                await settle_down()
            receiving.give_up()
        assert sum(lease.count for received in answers for _, lease in received.leases) == group.lag
    assert all(topic.fault is None for topic in world.broker._engine.topics.by_name.values())


async def test_lanes_leave_and_come_back(world):
    for priority in Priority:
        for n in range(2):
            world.broker.publish_with(b"t", b"%b %d" % (priority.encode(), n), PublishOptions(priority=priority))
    await world.commit()
    lines = lines_of(world.store.pairs())
    assert {orjson.loads(line)["id"] for line in lines} >= {"0-0", "0.high-1", "0.low-0"}
    store = MemoryStore()
    importer = await Importer.begin(store, START_MS)
    assert await import_all([importer], lines) == (6, 1)
    pairs = dict(await store.scan(b"", b"\xff", max_items=1000, max_bytes=1 << 20))
    assert problems_in(pairs) == []
    assert lines_of(pairs) == lines


async def test_what_a_group_lacks_is_exported_wherever_it_was_moved(world):
    await world.publish_each(b"t", b"1", b"2", b"3")
    await world.broker.groups.create(b"t", b"a", Edge.LATEST)
    await world.broker.groups.seek(b"t", b"default", FromMessage(0, 1))
    await settle_down()
    groups, *lines = map(orjson.loads, lines_of(world.store.pairs()))
    assert groups == {"topic": "t", "groups": ["default", "a"]}
    assert [(line["text"], line["for"]) for line in lines] == [("2", ["default"]), ("3", ["default"])]
