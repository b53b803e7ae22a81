"""Publishes to a spread topic that are repeated: each message is stored once, whichever process gets the repetition."""

from collections.abc import Callable

import pytest

from tests.server.shards.http.fleet import COUNT, TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import value_of

TOPIC = TOPICS[1].encode()
#: So many that one of them, chosen by chance, is hardly the right one every time.
PARTS = 8
#: The ways to publish with a dedup id: the words before the id, and those after it.
WAYS = {
    "PUB": ((b"PUB", TOPIC, b"x", b"DEDUP"), ()),
    "PUB with a key": ((b"PUB", TOPIC, b"x", b"KEY", b"k", b"DEDUP"), ()),
    "PUBBATCH": ((b"PUBBATCH", TOPIC), (b"x", b"y")),
    "PUBEACH": ((b"PUBEACH", TOPIC), (b"x", b"0", b"y", b"0")),
    "PUBEACH with keys": ((b"PUBEACH", TOPIC), (b"x", b"2", b"KEY", b"a", b"y", b"2", b"KEY", b"b", b"z", b"0")),
}


@pytest.fixture
async def clients(connect: Callable[..., DoorClient]) -> list[DoorClient]:
    clients = [connect(door) for door in range(COUNT)]
    assert await clients[0].ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return clients


@pytest.mark.parametrize("way", WAYS)
async def test_a_repetition_through_any_process_is_a_duplicate(clients, way):
    before, after = WAYS[way]
    first, *others = [value_of(await client.ask(*before, b"id", *after)) for client in clients]
    ids = first[0] if after else [first]
    assert [other[0] if after else [first] for other in others] == [ids] * len(others)
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == len(ids)


@pytest.mark.parametrize("way", WAYS)
async def test_other_content_under_the_same_id_is_a_mismatch_in_a_spread_topic(clients, way):
    before, after = WAYS[way]
    for number in range(10):
        dedup_id = b"id%d?digest=" % number
        first = await clients[0].ask(*before, dedup_id + b"one", *after)
        assert not first.startswith(b"-")
        assert (await clients[1].ask(*before, dedup_id + b"two", *after)).startswith(b"-MISMATCH")
        plain = await clients[2].ask(*before, b"id%d" % number, *after)
        assert not plain.startswith(b"-")
    stored = 10 * (3 if way == "PUBEACH with keys" else 2 if after else 1)
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == stored


async def test_other_content_in_a_transaction_under_the_same_id_is_a_mismatch_in_a_spread_topic(clients):
    for number in range(10):
        for words in ((b"PUB", TOPIC, b"x", b"DEDUP"), (b"PUBBATCH", TOPIC)):
            after = () if words[0] == b"PUB" else (b"x",)
            dedup_id = b"%b%d?digest=" % (words[0], number)
            await clients[0].ask(*words, dedup_id + b"one", *after)
            clients[1].tell((b"MULTI",), (*words, dedup_id + b"two", *after), (b"EXEC",))
            *_, executed = await clients[1].hear(3)
            assert b"MISMATCH" in executed
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == 20


async def test_a_unique_key_is_unique_among_messages_with_dedup_ids_of_their_own(clients):
    """The Python client gives each publish an id."""
    for number in range(10):
        await clients[number % COUNT].ask(b"PUB", TOPIC, b"x", b"UNIQUE", b"k", b"DEDUP", b"id%d" % number)
    await clients[0].ask(b"PUB", TOPIC, b"x", b"UNIQUE", b"k")
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == 1


async def test_a_message_with_a_dedup_id_replaces_the_one_with_its_unique_key(clients):
    for number in range(10):
        words = (b"UNIQUE", b"k", b"REPLACE", b"DEDUP", b"id%d" % number)
        await clients[number % COUNT].ask(b"PUB", TOPIC, b"%d" % number, *words)
    [[_, payload, _]] = value_of(await clients[0].ask(b"RECEIVE", TOPIC, b"COUNT", b"100"))
    assert payload == b"9"
