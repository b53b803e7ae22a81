"""A store as a broker of format 1 left it: nothing is lost, doubled or out of order, and the counts are right.

`store_of_format_1.txt` has its keys and values, in hex. Topic `plain` holds a, b in one commit and c in another;
`empty` was consumed; of `states` m0 and m8 are acknowledged, m1 came back to the front, m2 to the back, m3 is delayed,
m4 was held by a consumer that left, m5 to m7 were held at the end, and m9 waits.
"""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from miniqueue.broker.stored import opening
from miniqueue.storage.format import keys
from miniqueue.tools.audit.store import Audit
from tests.broker.support import World, started_world

LINES = Path(__file__).with_name("store_of_format_1.txt").read_text().splitlines()


@asynccontextmanager
async def run_on_format_1():
    async with started_world() as world:
        await world.broker.stop()
        for line in LINES:
            key, value = map(bytes.fromhex, line.split())
            world.store._put(key, value)
        await world.start()
        yield world
        await world.broker.stop()
        refuse_problems(world)
        await world.start()


def refuse_problems(world: World) -> None:
    audit = Audit()
    for key, value in sorted(world.store.pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert audit.problems.count == 0


def counts(world: World) -> dict[bytes, tuple[int, ...]]:
    stats = world.broker.stats().items()
    return {name: (of.published, of.acknowledged, of.ready, of.delayed, of.size_bytes) for name, of in stats}


async def test_everything_is_there_in_its_order_and_counted():
    async with run_on_format_1() as world:
        assert counts(world) == {b"empty": (1, 1, 0, 0, 0), b"plain": (3, 0, 3, 0, 3), b"states": (10, 2, 7, 1, 16)}
        assert await world.drain(b"plain") == [b"a", b"b", b"c"]
        assert await world.drain(b"states") == [b"m4", b"m1", b"m5", b"m6", b"m7", b"m9", b"m2"]
        world.clock.advance(5)
        world.broker.tick()
        assert await world.drain(b"states") == [b"m3"]
        assert counts(world)[b"states"] == (10, 10, 0, 0, 0)


@pytest.mark.parametrize("settles", [False, True])
async def test_what_is_published_goes_on_behind_it_over_any_number_of_starts(settles):
    async with run_on_format_1() as world:
        expected = [b"a", b"b", b"c"]
        for number in range(3, 7):
            assert world.broker.publish(b"plain", [b"new"]).first_seq == number
            assert world.broker.publish(b"empty", [b"new"]).first_seq == number - 2
            await world.commit()
            expected.append(b"new")
            if settles:
                (await world.holding(b"plain")).consumer.ack()
                expected.pop(0)
            await world.restart()
            refuse_problems(world)
            assert counts(world)[b"plain"][2::2] == (len(expected), sum(map(len, expected)))
        assert await world.drain(b"plain") == expected
        assert await world.drain(b"empty") == [b"new"] * 4


async def test_its_key_of_commits_stays_unread():
    async with run_on_format_1() as world:
        await world.publish(b"plain", b"new")
        content = await opening.read_content(world.store, {}, 0)
        assert content.next_topic_id == 4
        assert world.store.pairs()[b"\x01"] == bytes.fromhex(LINES[0].split()[1])
        assert keys.head(1, 0) in world.store.pairs()
