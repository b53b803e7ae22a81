"""Batches with keys of several parts of a spread topic."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.ids import following_ids
from miniqueue.core.message.numerals import sizes_of
from miniqueue.core.message.parts import part_for, part_name
from tests.server.shards.http.fleet import COUNT, TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import value_of

TOPIC = TOPICS[1].encode()
PARTS = 5
KEYS = [b"key-%d" % number for number in range(12)]


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


def each(keys: list[bytes], dedup_id: bytes = b"", prefix: bytes = b"") -> tuple[bytes, ...]:
    """Return a PUBEACH with a message for each key, b"" for none."""
    words = [
        word
        for number, key in enumerate(keys)
        for word in ((b"%b%d" % (prefix, number), *((b"2", b"KEY", key) if key else (b"0",))))
    ]
    return (b"PUBEACH", TOPIC, dedup_id, *words)


def packed(keys: list[bytes], dedup_id: bytes = b"", payload: bytes = b"0") -> tuple[bytes, ...]:
    """Return a PUBPACKED with a message for each key, the first one with this payload."""
    columns = [[payload, *(b"%d" % number for number in range(1, len(keys)))], keys]
    return (b"PUBPACKED", TOPIC, dedup_id, *(word for each in columns for word in (sizes_of(each), b"".join(each))))


async def payload_of(client: DoorClient, message_id: bytes) -> bytes:
    partition, _, seq = message_id.rpartition(b"-")
    read = value_of(await client.ask(b"READ", TOPIC, partition, seq, b"COUNT", b"1"))
    return dict(zip(read[::2], read[1::2], strict=True))[b"messages"][0][1]


async def test_ids_have_the_order_of_the_messages(client):
    ids, is_duplicate = value_of(await client.ask(*each(KEYS)))
    assert is_duplicate == 0
    assert [await payload_of(client, message_id) for message_id in ids] == [b"%d" % n for n in range(len(KEYS))]
    assert len({message_id.partition(b"-")[0] for message_id in ids}) == PARTS
    runs, _ = value_of(await client.ask(*packed(KEYS)))
    ids = [each for first, count in zip(runs[::2], runs[1::2], strict=True) for each in following_ids(first, count)]
    assert [await payload_of(client, message_id) for message_id in ids] == [b"%d" % n for n in range(len(KEYS))]
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % (2 * len(KEYS))


@pytest.mark.parametrize("batch", [each, packed])
async def test_messages_without_keys_are_where_the_dedup_id_is(client, batch):
    keys = [b"", KEYS[0], b"", KEYS[1]]
    reply = value_of(await client.ask(*batch(keys, b"7f")))
    again = value_of(await client.ask(*batch(keys, b"7f")))
    assert (reply[0], reply[1], again[1]) == (again[0], 0, 1)
    assert await client.ask(b"LEN", TOPIC) == b":4\r\n"


async def test_batches_of_a_pipeline_keep_the_order_of_each_key(client):
    client.tell(*[each(KEYS, prefix=b"%d:" % number) for number in range(10)], (b"LEN", TOPIC))
    *_, length = await client.hear(11)
    assert length == b":%d\r\n" % (10 * len(KEYS))
    received = value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"1000", b"AUTOACK"))
    for number in range(len(KEYS)):
        own = [payload for _, payload, _ in received if payload.partition(b":")[2] == b"%d" % number]
        assert own == [b"%d:%d" % (batch, number) for batch in range(10)]


async def test_a_part_that_refuses_is_named_by_its_messages(client, fleet):
    part = part_for(KEYS[3], PARTS)
    name = part_name(TOPIC, part)
    await fleet.broker_with(name.decode()).admin.change(name, {"max_messages": 1}).wait()
    await client.ask(b"PUB", TOPIC, b"x", b"KEY", KEYS[3])
    refused = [number for number, key in enumerate(KEYS, 1) if part_for(key, PARTS) == part]
    reply = await client.ask(*each(KEYS, b"7f"))
    assert reply.startswith(b"-LIMIT ")
    assert b"\x1f" not in reply
    named = reply.partition(b"of 12 messages, ")[2].partition(b" are not confirmed")[0]
    first_to_last = [list(map(int, run.split(b"-"))) for run in named.split(b", ")]
    assert [n for run in first_to_last for n in range(run[0], run[-1] + 1)] == refused
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % (1 + len(KEYS) - len(refused))
    await fleet.broker_with(name.decode()).admin.change(name, {"max_messages": None}).wait()
    ids, is_duplicate = value_of(await client.ask(*each(KEYS, b"7f")))
    assert (len(ids), is_duplicate) == (len(KEYS), 0)
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % (1 + len(KEYS))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((b"PUBEACH", TOPIC, b""), b"-ERR"),
        ((b"PUBEACH", TOPIC, b"", b"x"), b"-ERR"),
        ((b"PUBEACH", TOPIC, b"", b"x", b"2", b"KEY"), b"-BADOPTION"),
        ((*each(KEYS), b"x", b"2", b"DELAY", b"5"), b"-BADOPTION"),
        (packed(KEYS, payload=b"x" * ((1 << 20) + 1)), b"-TOOBIG"),
        ((b"PUBPACKED", TOPIC, b"", b"x", b"y"), b"-BADOPTION"),
    ],
)
async def test_a_batch_that_is_wrong_adds_nothing(client, words, code):
    assert (await client.ask(*words)).startswith(code)
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"


async def test_a_batch_for_a_shard_that_does_not_answer_adds_nothing(client, fleet):
    fleet.lose(COUNT - 1)
    assert (await client.ask(*each(KEYS))).startswith(b"-TRYAGAIN")
    present = [member.broker.inspect.content for member in fleet.members]
    assert [(await content())[1] for content in present] == [0] * COUNT


async def test_a_batch_and_single_messages_keep_the_order_of_each_key(client):
    singles = [(b"PUB", TOPIC, b"single:%d" % number, b"KEY", key) for number, key in enumerate(KEYS)]
    client.tell(each(KEYS, prefix=b"batch:"), *singles, (b"LEN", TOPIC))
    *_, length = await client.hear(len(KEYS) + 2)
    assert length == b":%d\r\n" % (2 * len(KEYS))
    received = value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100", b"AUTOACK"))
    for number in range(len(KEYS)):
        own = [payload for _, payload, _ in received if payload.endswith(b":%d" % number)]
        assert own == [b"batch:%d" % number, b"single:%d" % number]
