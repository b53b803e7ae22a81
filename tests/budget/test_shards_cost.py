"""What the detour to another shard, and spread topics, may cost, in bytecode instructions for each message.

The figures are those of three shards in one process, so that they contain the door, the link, and the owner.
"""

import asyncio
import sys
from pathlib import Path

import hiredis
import pytest

from tests.budget.counting import counting
from tests.budget.test_cost import MAY_BE_BELOW, command
from tests.server.resp.clients import Client
from tests.server.shards.http.fleet import TOPICS, Fleet, fleet_in
from tests.server.shards.http.tunnels import until

#: How a read of a socket is divided among iterations of the loop is not always the same.
SLACK = 0.15

#: Instructions for each message, CPython 3.11: publish one by one, and 32 in a read; 100 received, and acknowledged
#: together, from chunks of 1 to 500; publish 32 in a read of each of 8 clients, and 32 with keys in a read; 100 of a
#: stream, acknowledged together. The clients are at the door of shard 0.
BUDGETS = {
    "a topic of the own shard": (1890, 65.4, 66, 32.9, 140, 20),
    "a topic of another shard": (2780, 104, 110, 73.3, 254, 27.3),
    "a spread topic": (3040, 104, 93.5, 66.5, 658, 165),
}
TOPIC_OF = dict(zip(BUDGETS, TOPICS, strict=True))

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are for CPython 3.11")


async def ask(client: Client, data: bytes, count: int = 1) -> list:
    """Send commands in one read, and return their replies; not with the parsers of miniqueue, which are counted."""
    reader, replies = hiredis.Reader(notEnoughData=None), []
    client.connection.data_received(data)

    def is_enough() -> bool:
        reader.feed(client.transport.take())
        while (reply := reader.gets()) is not None:
            replies.append(reply)
        return len(replies) == count

    await until(is_enough)
    return replies


async def cost_of_publishing(client: Client, topic: bytes, count: int, rounds: int = 12) -> float:
    read = command(b"PUBLISH", topic, b"x" * 100) * count
    for _ in range(rounds):  # makes links
        await ask(client, read, count)
    with counting() as counter:
        for _ in range(rounds):
            await ask(client, read, count)
    return counter.count / count / rounds


async def cost_of_publishing_at_once(fleet: Fleet, topic: bytes, client_count: int = 8, rounds: int = 12) -> float:
    clients = [Client(fleet.members[0].resp) for _ in range(client_count)]
    read = command(b"PUBLISH", topic, b"x" * 100) * 32

    async def publish() -> None:
        await asyncio.gather(*[ask(client, read, 32) for client in clients])

    for _ in range(rounds):
        await publish()
    with counting() as counter:
        for _ in range(rounds):
            await publish()
    for client in clients:
        client.transport.lose()
    return counter.count / 32 / client_count / rounds


async def cost_of_publishing_with_keys(client: Client, topic: bytes, rounds: int = 12) -> float:
    read = b"".join(command(b"PUB", topic, b"x" * 100, b"KEY", b"k%d" % number) for number in range(32))
    await ask(client, read, 32)
    with counting() as counter:
        for _ in range(rounds):
            await ask(client, read, 32)
    return counter.count / 32 / rounds


async def cost_of_receiving(client: Client, topic: bytes, rounds: int = 96) -> float:
    for _ in range(rounds // 2):
        await ask(client, command(b"PUBLISH", topic, b"x" * 100) * 500, 500)
    received_count = 0
    with counting() as counter:
        for _ in range(rounds):
            [messages] = await ask(client, command(b"RECEIVE", topic, b"COUNT", b"100"))
            received_count += len(messages)
            await ask(client, command(b"ACK", topic, *[message[0] for message in messages]))
    return counter.count / received_count


async def cost_of_streaming(client: Client, topic: bytes, rounds: int = 24) -> float:
    for _ in range(rounds // 2):
        await ask(client, command(b"PUBLISH", topic, b"x" * 100) * 500, 500)
    reader, receipts, received_count = hiredis.Reader(notEnoughData=None), list[bytes](), 0

    def has_enough() -> bool:
        reader.feed(client.transport.take())
        while (reply := reader.gets()) is not None:
            if isinstance(reply, list):
                receipts.append(reply[0])
        return len(receipts) >= 100

    with counting() as counter:
        client.connection.data_received(command(b"SUBSCRIBE", topic, b"PREFETCH", b"120"))
        while received_count < 500 * (rounds // 2) - 120:
            await until(has_enough)
            received_count += len(receipts)
            client.connection.data_received(command(b"ACK", *receipts))
            receipts.clear()
    return counter.count / received_count


@pytest.mark.parametrize("kind", BUDGETS)
async def test_the_cost_with_shards_is_within_its_budget(tmp_path: Path, kind: str):
    async with fleet_in(tmp_path) as fleet:
        client, topic = Client(fleet.members[0].resp), TOPIC_OF[kind].encode()
        if kind == "a spread topic":
            await ask(client, command(b"TOPIC", b"CREATE", topic, b"spread", b"6"))
        costs = [await cost_of_publishing(client, topic, count) for count in (1, 32)]
        costs.append(await cost_of_receiving(client, topic))
        costs.append(await cost_of_publishing_at_once(fleet, topic))
        costs.append(await cost_of_publishing_with_keys(client, topic))
        while len((await ask(client, command(b"RECEIVE", topic, b"COUNT", b"1000", b"AUTOACK")))[0]):
            pass
        costs.append(await cost_of_streaming(client, topic))
        client.transport.lose()
    for cost, budget in zip(costs, BUDGETS[kind], strict=True):
        assert budget * (1 - MAY_BE_BELOW) <= cost <= budget * (1 + SLACK), (costs, BUDGETS[kind])
