"""A start on a disk where the last messages of a topic are damaged: others go on, and nothing is written over."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode
from tests.broker.support import started_world
from tests.fakes import ManualClock

NAMES = [b"%02d" % number for number in range(100)]


def payload(name: bytes, number: int) -> bytes:
    """Return one that fills blocks of its own and cannot be compressed."""
    return Random(f"{name!r} {number}").randbytes(10_000)


def on_disk(path: Path, body: Callable[[Broker], Awaitable[None]]) -> None:
    async def open_store():
        return await LevelDBStore.open(path, sync=SyncMode.NEVER)

    async def main():
        broker = Broker(open_store, clock=ManualClock(), period_seconds=1e6)
        await broker.start()
        try:
            await body(broker)
        finally:
            await broker.stop()

    asyncio.run(main())


async def publish(broker: Broker, name: bytes, *numbers: int) -> None:
    for number in numbers:
        await broker.publish(name, [payload(name, number)]).commit.wait()


async def consume(broker: Broker, name: bytes, count: int) -> list[bytes]:
    """Take and acknowledge so many messages."""
    delivered: asyncio.Queue = asyncio.Queue()
    consumer, payloads = broker.consumer(name, delivered.put_nowait, delivered.put_nowait), []
    for _ in range(count):
        consumer.request()
        payloads += [payload for lease in await delivered.get() for payload in lease.payloads]
        consumer.ack()
    consumer.close()
    return payloads


def damage(path: Path, content: bytes) -> None:
    """Flip a bit in the middle of what a table holds of `content`."""
    (table,) = [table for table in (path / "db").glob("*.ldb") if content[5000:5100] in table.read_bytes()]
    stored = bytearray(table.read_bytes())
    stored[stored.index(content[5000:5100])] ^= 1
    table.write_bytes(stored)


@pytest.mark.parametrize(("damaged_number", "in_doubt"), [(0, {b"98", b"99"}), (1, {b"99"})])
def test_damage_of_one_topic_is_at_most_that_of_the_topic_in_front_of_it(tmp_path, damaged_number, in_doubt):
    """The block behind the last one of that topic may have been its own: that cannot be told."""
    with_messages, damaged = [b"10", b"50", b"97"], b"99"

    async def fill(broker):
        for name in NAMES:
            await publish(broker, name, 0, 1)
        for name in set(NAMES) - {*with_messages, damaged}:
            await consume(broker, name, 2)

    async def look(broker):
        assert set(broker.faults()) == in_doubt
        for name in in_doubt:
            await publish(broker, name, 2)
        for name in set(NAMES) - in_doubt:
            await publish(broker, name, 2)
            numbers = [0, 1, 2] if name in with_messages else [2]
            assert await consume(broker, name, len(numbers)) == [payload(name, number) for number in numbers]
            assert broker.stats()[name].published == 3

    on_disk(tmp_path, fill)
    on_disk(tmp_path, look_for_no_fault)  # moves the log into a table
    damage(tmp_path, payload(damaged, damaged_number))
    on_disk(tmp_path, look)


async def look_for_no_fault(broker: Broker) -> None:
    assert broker.faults() == {}


async def test_a_second_damage_behind_the_first_does_not_bring_its_numbers_back(world):
    seqs = []
    for _ in range(3):
        seqs.append(world.broker.publish(b"t", [b"x"] * 5).first_seq)
        await world.broker.stop()
        key = keys.chunk(1, 0, seqs[-1])
        value = world.store._values[key]
        world.store._values[key] = value[:-6] + b"XX" + value[-4:]
        await world.start()
        assert set(world.broker.faults()) == {b"t"}
        with pytest.raises(CorruptionError):
            world.consumer(b"t").consumer.request()
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("policy", [LimitPolicy.REFUSE, LimitPolicy.DROP_OLDEST])
async def test_numbers_left_out_behind_damage_count_for_nothing(policy):
    async with started_world(limits=BrokerLimits(max_topic_messages=100, policy=policy)) as world:
        await world.publish_each(b"t", *[bytes(60_000)] * 40)
        await world.broker.stop()
        key = keys.chunk(1, 0, 39)
        value = world.store._values[key]
        world.store._values[key] = value[:-6] + b"XX" + value[-4:]
        before = world.store.pairs()
        await world.start()
        for count in range(40, 43):
            await world.publish(b"t", b"new")
            assert before.items() <= world.store.pairs().items()
            assert world.broker.stats()[b"t"].ready == count
            await world.restart()
            assert world.broker.stats()[b"t"].ready == count
            assert set(world.broker.faults()) == {b"t"}
        await world.broker.stop()
        world.store._values[key] = value  # a copy has it; the hole after it stays
        await world.start()
        assert "messages from 40 on are missing" in str(world.broker.faults()[b"t"])
