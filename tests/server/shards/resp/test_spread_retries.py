"""Publishes to a spread topic that are repeated: each message is stored once, whichever process gets the repetition."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_name
from miniqueue.core.settings.fields import FOREVER_MS
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

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
    replies = [value_of(await client.ask(*before, b"id", *after)) for client in clients]
    ids, _ = replies[0]
    assert replies == [[ids, 0], [ids, 1], [ids, 1]]
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == (len(ids) if after else 1)


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


# --- after the topic got more parts ---------------------------------------------------------------------------

MORE = PARTS + 4


async def grow(client: DoorClient, count: int = MORE) -> None:
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"%d" % count) == b"+OK\r\n"


@pytest.mark.parametrize("way", WAYS)
async def test_a_repetition_after_a_growth_is_a_duplicate(clients, way):
    before, after = WAYS[way]
    ids = [b"id%d" % number for number in range(10)]
    first = [value_of(await clients[0].ask(*before, each, *after)) for each in ids]
    stored = value_of(await clients[0].ask(b"LEN", TOPIC))
    for count in (MORE, MORE + 7):
        await grow(clients[0], count)
        for client in clients:
            again = [value_of(await client.ask(*before, each, *after)) for each in ids]
            assert again == [[stored_ids, 1] for stored_ids, _ in first]
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == stored


async def test_a_batch_that_reached_some_parts_before_a_growth_is_completed(clients, fleet):
    """Keys whose parts change, and a part that has messages of the batch by both numbers."""
    batch = [word for number in range(20) for word in (b"m%d" % number, b"2", b"KEY", b"k%d" % number)]
    part = part_name(TOPIC, 7)
    full = fleet.members[PLACING.shard_of(part)].broker
    full.admin.change(part, {"paused_in_until_ms": FOREVER_MS})
    assert b"are not confirmed" in await clients[0].ask(b"PUBEACH", TOPIC, b"id", *batch)
    full.admin.change(part, {"paused_in_until_ms": 0})
    await grow(clients[0])
    for client in clients:
        ids, _ = value_of(await client.ask(b"PUBEACH", TOPIC, b"id", *batch))
        assert len({*ids}) == 20
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == 20


async def test_a_unique_key_stays_unique_after_a_growth_as_long_as_its_message_is_there(clients, fleet):
    keys = [b"k%d" % number for number in range(10)]
    ids = [value_of(await clients[0].ask(b"PUB", TOPIC, b"x", b"UNIQUE", key))[0] for key in keys]
    await grow(clients[0])
    fleet.clock.advance(100_000)
    again = [value_of(await clients[1].ask(b"PUB", TOPIC, b"x", b"UNIQUE", key, b"DEDUP", key)) for key in keys]
    assert again == [[each, 1] for each in ids]
    for key in keys:
        await clients[2].ask(b"PUB", TOPIC, b"new", b"UNIQUE", key, b"REPLACE")
    received = value_of(await clients[0].ask(b"RECEIVE", TOPIC, b"COUNT", b"100", b"AUTOACK"))
    assert [message[1] for message in received] == [b"new"] * 10
    for key in keys:
        await clients[0].ask(b"PUB", TOPIC, b"x", b"UNIQUE", key)
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == 10


async def test_replies_after_a_growth_have_the_order_of_the_commands(clients):
    ids = [b"id%d" % number for number in range(20)]
    first = [value_of(await clients[0].ask(b"PUB", TOPIC, b"x", b"DEDUP", each))[0] for each in ids]
    await grow(clients[0])
    pipeline = [words for each in ids for words in ((b"PUB", TOPIC, b"x", b"DEDUP", each), (b"PING", each))]
    clients[1].tell(*pipeline)
    heard = await clients[1].hear(40)
    assert list(map(value_of, heard[::2])) == [[each, 1] for each in first]
    assert [value_of(each) for each in heard[1::2]] == ids


async def test_dedup_ids_are_looked_for_in_other_parts_for_their_window_only(clients, fleet):
    await grow(clients[0])
    assert fleet.members[2].broker.earlier_of(TOPIC).recent == [PARTS]
    fleet.clock.advance(200)
    assert fleet.members[2].broker.earlier_of(TOPIC) == ([PARTS], [])


async def test_a_shard_that_may_know_a_publish_is_waited_for(clients, fleet):
    ids = [b"id%d" % number for number in range(20)]
    first = [value_of(await clients[0].ask(b"PUB", TOPIC, b"x", b"DEDUP", each))[0] for each in ids]
    await grow(clients[0])
    fleet.lose(2)
    replies = [value_of(await clients[0].ask(b"PUB", TOPIC, b"x", b"DEDUP", each)) for each in ids]
    refused = [reply for reply, known in zip(replies, first, strict=True) if reply != [known, 1]]
    assert refused
    assert all(str(reply).startswith("TRYAGAIN") for reply in refused)
    fleet.find()
    replies = [value_of(await clients[0].ask(b"PUB", TOPIC, b"x", b"DEDUP", each)) for each in ids]
    assert replies == [[known, 1] for known in first]


async def test_no_client_sets_how_many_parts_there_were(clients):
    await grow(clients[0])
    for value in (b"4 17", b"default"):
        assert (await clients[0].ask(b"TOPIC", b"SET", TOPIC, b"spread_before", value)).startswith(b"-BADSETTING")
    assert map_of(value_of(await clients[1].ask(b"TOPIC", b"GET", TOPIC)))[b"spread_before"].startswith(b"%d " % PARTS)


def transaction_of(number: int) -> list[tuple[bytes, ...]]:
    """Return publishes of one key, each of which is recognized by an id, or of an id alone."""
    name = b"%d" % number
    return [
        (b"PUB", TOPIC, b"x", b"KEY", name, b"DEDUP", b"a" + name),
        (b"PUBEACH", TOPIC, b"b" + name, b"x", b"2", b"KEY", name, b"y", b"2", b"KEY", name),
        (b"PUB", TOPIC, b"x", b"KEY", name, b"UNIQUE", b"c" + name),
    ]


async def transact(client: DoorClient, *commands: tuple[bytes, ...]) -> bytes:
    client.tell((b"MULTI",), *commands, (b"EXEC",))
    *_, executed = await client.hear(2 + len(commands))
    return executed


async def test_a_transaction_that_is_repeated_after_a_growth_is_a_duplicate(clients):
    first = [value_of(await transact(clients[0], *transaction_of(number))) for number in range(10)]
    alone = [value_of(await transact(clients[0], (b"PUB", TOPIC, b"x", b"DEDUP", b"%d" % each))) for each in range(10)]
    stored = value_of(await clients[0].ask(b"LEN", TOPIC))
    for count in (MORE, MORE + 7):
        await grow(clients[0], count)
        for client in clients:
            again = [value_of(await transact(client, *transaction_of(number))) for number in range(10)]
            assert again == [[[known, 1] for known, _ in outcomes] for outcomes in first]
            again = [value_of(await transact(client, (b"PUB", TOPIC, b"x", b"DEDUP", b"%d" % n))) for n in range(10)]
            assert again == [[[known, 1]] for [[known, _]] in alone]
    assert value_of(await clients[0].ask(b"LEN", TOPIC)) == stored


async def test_a_transaction_waits_for_a_shard_that_may_know_its_publishes(clients, fleet):
    first = [value_of(await transact(clients[0], *transaction_of(number))) for number in range(10)]
    await grow(clients[0])
    fleet.lose(2)
    replies = [str(value_of(await transact(clients[0], *transaction_of(number)))) for number in range(10)]
    assert {reply.split()[0] for reply in replies if not reply.startswith("[")} == {"EXECABORT"}
    fleet.find()
    replies = [value_of(await transact(clients[0], *transaction_of(number))) for number in range(10)]
    assert replies == [[[known, 1] for known, _ in outcomes] for outcomes in first]


async def test_a_transaction_whose_topic_gets_more_parts_before_exec_is_to_be_repeated(clients):
    words = b"PUB", TOPIC, b"x", b"KEY", b"k", b"DEDUP", b"id"
    clients[1].tell((b"MULTI",), words)
    await clients[1].hear(2)
    await grow(clients[0])
    assert (await clients[1].ask(b"EXEC")).startswith(b"-TRYAGAIN")
    assert await clients[1].ask(b"LEN", TOPIC) == b":0\r\n"
    assert value_of(await transact(clients[1], words))[0][1] == 0
    assert value_of(await transact(clients[2], words))[0][1] == 1
