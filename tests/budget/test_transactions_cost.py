"""What the longest transactions cost in one event-loop iteration: all that a transaction does is done in one."""

import asyncio
import re
from collections.abc import Callable, Sequence

import pytest

from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.budget.test_turns_cost import MOST, IterationLoop, measure
from tests.fakes import settle_down
from tests.server.resp.clients import PARAMETERS, Client, command

#: Commands of a transaction that is sent in one piece: more take more than one iteration anyway.
IN_PIECE = 20
ACTS = 1000
Commands = Sequence[tuple[bytes, ...]]


def of_receipts(*words: bytes) -> Callable[[Sequence[bytes]], Commands]:
    """Return what settles messages one by one; a star becomes the number of the message, an R its receipt."""

    def commands(receipts: Sequence[bytes]) -> Commands:
        return [
            tuple(receipt if word == b"R" else word.replace(b"*", b"%d" % number) for word in words)
            for number, receipt in enumerate(receipts, 1)
        ]

    return commands


def of_numbers(*words: bytes) -> Commands:
    """Return the commands of a transaction; a star becomes the number of the command."""
    return [tuple(word.replace(b"*", b"%d" % number) for word in words) for number in range(ACTS)]


#: By name: the number of messages of each lease, and what settles them.
SETTLES = {
    "ACK, received one by one": (1, of_receipts(b"ACK", b"in", b"R")),
    "ACK, received together": (ACTS, of_receipts(b"ACK", b"in", b"R")),
    "ACK, the last first": (ACTS, lambda receipts: of_receipts(b"ACK", b"in", b"R")(receipts[::-1])),
    "NACK, received one by one": (1, of_receipts(b"NACK", b"in", b"R")),
    "NACK, received together": (ACTS, of_receipts(b"NACK", b"in", b"R")),
    "BACK, received together": (ACTS, of_receipts(b"BACK", b"in", b"R")),
    "BACK, the last first": (ACTS, lambda receipts: of_receipts(b"BACK", b"in", b"R")(receipts[::-1])),
    "DACK": (1, of_receipts(b"DACK", b"in", b"R", b"*")),
    "DACK, received together": (ACTS, of_receipts(b"DACK", b"in", b"R", b"*")),
    "REJECT": (1, of_receipts(b"REJECT", b"in", b"R", b"reason *")),
    "REJECT, received together": (ACTS, of_receipts(b"REJECT", b"in", b"R", b"reason")),
    "EXTEND": (1, of_receipts(b"EXTEND", b"in", b"R", b"*")),
}
PUBLISHES = {
    "PUBLISH to one topic": of_numbers(b"PUBLISH", b"a", b"x"),
    "PUBLISH to many topics": of_numbers(b"PUBLISH", b"topic-*", b"x"),
    "PUBLISH to new topics": of_numbers(b"PUBLISH", b"new-*", b"x"),
    "PUB with keys": of_numbers(b"PUB", b"a", b"x", b"KEY", b"k*"),
    "PUB with keys, to partitions": of_numbers(b"PUB", b"wide", b"x", b"KEY", b"k*"),
    "PUB with headers": of_numbers(b"PUB", b"a", b"x", *[b"HEADER", b"name", b"*"] * 3),
    "PUB with much else": of_numbers(
        *(b"PUB", b"a", b"x", b"TTL", b"5", b"KEY", b"k", b"HEADER", b"n", b"*", b"DELAY", b"*", b"DEDUP", b"d*")
    ),
    "PUB with dedup ids": of_numbers(b"PUB", b"a", b"x", b"DEDUP", b"d*"),
    "PUB with delays": of_numbers(b"PUB", b"a", b"x", b"DELAY", b"1*"),
    "PUB with unique keys": of_numbers(b"PUB", b"a", b"x", b"UNIQUE", b"k*"),
    "PUB that replaces": of_numbers(b"PUB", b"a", b"x", b"UNIQUE", b"waits-*", b"REPLACE"),
    "PUB to new lanes": of_numbers(b"PUB", b"topic-*", b"x", b"PRIORITY", b"high"),
    "PUBEACH, half with headers": of_numbers(
        b"PUBEACH", b"a", b"id-*", *([b"x", b"3", b"HEADER", b"n", b"v", b"y", b"0"] * 5)
    ),
    "MPUBLISH": of_numbers(b"MPUBLISH", b"a", *[b"x"] * 10),
}


async def queue(client: Client, commands: Commands) -> None:
    """Queue the commands of a transaction."""
    await client.say(b"MULTI")
    for first in range(0, len(commands), IN_PIECE):
        client.connection.data_received(b"".join(command(*words) for words in commands[first : first + IN_PIECE]))
        await asyncio.sleep(0)
    await settle_down()
    assert client.transport.take().count(b"+QUEUED\r\n") == len(commands)


async def execute(client: Client, commands: Commands) -> tuple[bytes, int]:
    """Send a transaction; return its reply, and what the most expensive iteration of EXEC cost."""
    await queue(client, commands)
    replies: list[bytes] = []

    async def act() -> None:
        client.connection.data_received(command(b"EXEC"))
        while not (reply := client.transport.take()):  # noqa: ASYNC110 - each iteration is measured
            await asyncio.sleep(0)
        replies.append(reply)

    measured = await measure("EXEC", act)
    return replies[0], measured.count


async def longest(client: Client, commands: Commands) -> tuple[int, int]:
    """Carry out the longest beginning that can be a transaction; return its length, and the highest cost."""
    count, highest = len(commands), 0
    while True:
        reply, cost = await execute(client, commands[:count])
        highest = max(highest, cost)
        if not reply.startswith(b"-"):
            assert reply.startswith(b"*%d\r\n" % count), reply[:200]
            return count, highest
        refused = re.match(rb"-LIMIT command ([0-9]+) of [0-9]+: too much work for one commit", reply)
        assert refused, reply
        count = max(int(refused[1]) - 1, count * 9 // 10)


async def prepared(world: World) -> Client:
    """Return a client of a broker with many topics."""
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    await client.say(b"TOPIC CREATE wide partitions 8")
    for number in range(ACTS):
        broker.publish(b"topic-%d" % number, [b"x"])
    await client.say(b"PUBLISH a x")
    for number in range(0, ACTS, IN_PIECE):
        client.connection.data_received(
            b"".join(command(b"PUB", b"a", b"x", b"UNIQUE", b"waits-%d" % (number + n)) for n in range(IN_PIECE))
        )
        await settle_down()
    client.transport.take()
    return client


async def receive(client: Client, world: World, count: int) -> list[bytes]:
    """Lease the messages of a topic, so many together; return their receipts."""
    await client.say(b"TOPIC DELETE in")
    world.broker.publish(b"in", [b"x"] * ACTS)
    await world.commit()
    receipts: list[bytes] = []
    while len(receipts) < ACTS:
        reply = await client.say(b"RECEIVE in COUNT %d" % count)
        receipts += re.findall(rb"[0-9a-f]{16}-[0-9]+", reply)
    return receipts


async def measure_settles() -> dict[str, tuple[int, int]]:
    world = World()
    client = await prepared(world)
    costs = {
        name: await longest(client, commands(await receive(client, world, count)))
        for name, (count, commands) in SETTLES.items()
    }
    await world.broker.stop()
    return costs


async def measure_publishes() -> dict[str, tuple[int, int]]:
    world = World()
    client = await prepared(world)
    costs = {name: await longest(client, commands) for name, commands in PUBLISHES.items()}
    await world.broker.stop()
    return costs


@pytest.mark.slow
@pytest.mark.parametrize("measure_all", [measure_settles, measure_publishes])
def test_no_transaction_holds_the_loop_too_long(measure_all):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        costs = runner.run(measure_all())
    assert {name: cost for name, (_, cost) in costs.items() if cost > MOST} == {}
    assert {name: count for name, (count, _) in costs.items() if count < 15} == {}
