"""Transactions with spread topics: everything belongs to one shard, so mostly to one key."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_for, part_name
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import value_of

TOPIC = TOPICS[1].encode()
PARTS = 3
#: A key in each shard.
KEYS = [
    next(
        key
        for key in (b"key-%d" % number for number in range(100))
        if PLACING.shard_of(part_name(TOPIC, part_for(key, PARTS))) == shard
    )
    for shard in range(COUNT)
]


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


async def transact(client: DoorClient, *commands: tuple[bytes, ...]) -> list[bytes]:
    """Return the replies to the commands and to EXEC."""
    client.tell((b"MULTI",), *commands, (b"EXEC",))
    began, *replies = await client.hear(2 + len(commands))
    assert began == b"+OK\r\n"
    return replies


@pytest.mark.parametrize("key", KEYS)
async def test_messages_of_one_key_are_published_and_settled_together(client, key):
    await client.ask(b"PUB", TOPIC, b"job", b"KEY", key)
    [[receipt, _, _]] = value_of(await client.ask(b"RECEIVE", TOPIC))
    *queued, executed = await transact(
        client,
        (b"PUB", TOPIC, b"result", b"KEY", key),
        (b"PUBEACH", TOPIC, b"", b"more", b"2", b"KEY", key, b"any", b"0"),
        (b"PUBLISH", TOPIC, b"also"),
        (b"ACK", TOPIC, receipt),
    )
    assert queued == [b"+QUEUED\r\n"] * 4
    published, batch, plain, settled = value_of(executed)
    parts = {int(each.partition(b"-")[0]) >> 10 for each in (published, *batch[0])}
    assert parts == {part_for(key, PARTS)}
    assert (plain, settled) == (b"OK", b"OK")
    assert await client.ask(b"LEN", TOPIC) == b":4\r\n"


async def test_a_pipeline_of_publishes_without_keys_is_one_commit(client, fleet):
    client.tell((b"MULTI",), *[(b"PUBLISH", TOPIC, b"%d" % number) for number in range(20)], (b"EXEC",))
    *_, executed = await client.hear(22)
    assert value_of(executed) == [b"OK"] * 20
    counts = [member.broker.inspect.depth(part) for member in fleet.members for part in member.broker.parts_here(TOPIC)]
    assert sorted(counts) == [0, 0, 20]


async def test_a_transaction_of_several_shards_is_refused_with_the_names(client):
    first, second, executed = await transact(
        client, (b"PUB", TOPIC, b"x", b"KEY", KEYS[0]), (b"PUB", TOPIC, b"y", b"KEY", KEYS[1])
    )
    assert (first, second[:11], executed[:10]) == (b"+QUEUED\r\n", b"-CROSSSHARD", b"-EXECABORT")
    assert TOPIC in second
    other = TOPICS[2].encode()
    _, second, executed = await transact(client, (b"PUB", TOPIC, b"x", b"KEY", KEYS[0]), (b"PUBLISH", other, b"y"))
    assert (second[:11], executed[:10]) == (b"-CROSSSHARD", b"-EXECABORT")
    assert TOPIC in second
    assert other in second
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"


@pytest.mark.parametrize(
    "words",
    [
        (b"LEN", TOPIC),
        (b"RECEIVE", TOPIC),
        (b"PUBEACH", TOPIC, b"", b"x", b"2", b"KEY", KEYS[0], b"y", b"2", b"KEY", KEYS[1]),
    ],
)
async def test_what_concerns_several_parts_cannot_be_in_a_transaction(client, words):
    refused, executed = await transact(client, words)
    assert (refused[:11], executed[:10]) == (b"-CROSSSHARD", b"-EXECABORT")


async def test_a_transaction_with_a_topic_of_the_same_shard_is_atomic(client):
    *_, executed = await transact(
        client, (b"PUBLISH", TOPICS[2].encode(), b"x"), (b"PUBLISH", TOPIC, b"y"), (b"MPUBLISH", TOPIC, b"a", b"b")
    )
    assert len(value_of(executed)) == 3
    assert await client.ask(b"LEN", TOPIC) == b":3\r\n"
