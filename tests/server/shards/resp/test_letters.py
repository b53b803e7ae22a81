"""The dead letters of a spread topic: their settings, and where they go."""

from collections import Counter
from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_name
from miniqueue.errors.requests import ShardAwayError
from tests.server.shards.http.fleet import COUNT, TOPICS
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

TOPIC = TOPICS[1].encode()
LETTERS = TOPIC + b".dlq"
PARTS = 5


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


async def reject(client: DoorClient, *keys: bytes) -> None:
    """Publish a message of each key, and make it a dead letter."""
    for key in keys:
        await client.ask(b"PUB", TOPIC, b"of " + key, b"KEY", key)
    for receipt, _, _ in value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100")):
        assert await client.ask(b"REJECT", TOPIC, receipt, b"SYNC", b"wrong") == b"+OK\r\n"


async def settings_of(client: DoorClient, topic: bytes) -> dict[bytes, bytes]:
    return map_of(value_of(await client.ask(b"TOPIC", b"GET", topic)))


async def test_dead_letters_have_settings_of_their_own(client, fleet):
    assert (await client.ask(b"TOPIC", b"SET", LETTERS, b"max_messages", b"50")).startswith(b"-NOTOPIC")
    assert (await client.ask(b"TOPIC", b"GET", LETTERS)).startswith(b"-NOTOPIC")
    await reject(client, b"a")
    assert (await settings_of(client, LETTERS))[b"max_messages"] == b"default"
    assert await client.ask(b"TOPIC", b"SET", LETTERS, b"max_messages", b"50") == b"+OK\r\n"
    settings = await settings_of(client, LETTERS)
    assert (settings[b"max_messages"], settings[b"spread"]) == (b"50", b"%d" % PARTS)
    for number in range(PARTS):
        name = part_name(LETTERS, number)
        assert fleet.broker_with(name.decode()).admin.settings_of(name).max_messages == 10
    assert await client.ask(b"PAUSE", LETTERS, b"IN") == b"+OK\r\n"
    assert (await client.ask(b"PUB", LETTERS, b"x")).startswith(b"-PAUSED")
    assert value_of(await client.ask(b"TOPICS")) == [TOPIC, LETTERS]


async def test_dead_letters_can_be_created_before_there_are_any(client):
    create = b"TOPIC", b"CREATE", LETTERS, b"retention", b"forever"
    assert await client.ask(*create) == b"+OK\r\n"
    assert (await client.ask(*create)).startswith(b"-EXISTS")
    await reject(client, b"a", b"b")
    assert await client.ask(b"LEN", LETTERS) == b":2\r\n"
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"8") == b"+OK\r\n"
    assert (await settings_of(client, LETTERS))[b"spread"] == b"8"
    assert len(value_of(await client.ask(b"PARTITIONS", LETTERS))) == 8


async def test_dead_letters_are_deleted_alone_or_with_their_topic(client, fleet):
    assert (await client.ask(b"TOPIC", b"DELETE", LETTERS)).startswith(b"-NOTOPIC")
    await reject(client, b"a", b"b")
    assert await client.ask(b"TOPIC", b"DELETE", LETTERS) == b"+OK\r\n"
    assert value_of(await client.ask(b"TOPICS")) == [TOPIC]
    assert await client.ask(b"TOPIC", b"CREATE", LETTERS) == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    assert [member.broker.topics() for member in fleet.members] == [[]] * COUNT


async def test_parts_keep_the_settings_of_their_groups_when_the_topic_is_set(client):
    assert await client.ask(b"GROUP", b"CREATE", TOPIC, b"audit", b"IDLE", b"30") == b"+OK\r\n"
    assert await client.ask(b"PAUSE", TOPIC, b"GROUP", b"audit") == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"lease_seconds", b"7") == b"+OK\r\n"
    group = map_of(value_of(await client.ask(b"STATS", TOPIC, b"GROUP", b"audit")))
    assert (float(group[b"idle_seconds"]), group[b"paused"]) == (30, 1)


async def test_events_show_dead_letters_as_those_of_one_topic(client, connect, fleet):
    ears = [connect(door) for door in range(COUNT)]
    for ear in ears:
        assert await ear.ask(b"EVENTS", b"dead-letter", b"topic-created", b"topic-deleted") == b"+OK\r\n"
    await until(lambda: all(len(member.broker.notices._listeners) == COUNT for member in fleet.members))
    keys = [b"k%d" % number for number in range(20)]
    await reject(client, *keys)
    for member in fleet.members:
        member.broker.tick()
    created = [value_of(each) for each in await ears[0].hear(2 * COUNT)]
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    deleted = [value_of(each) for each in await ears[1].hear(3 * COUNT + 1)][2 * COUNT :]
    events = [(kind, map_of(details)) for _, kind, details in (*created, *deleted)]
    assert Counter((kind, details[b"topic"]) for kind, details in events) == {
        (b"topic-created", LETTERS): COUNT,
        (b"dead-letter", TOPIC): COUNT,
        (b"topic-deleted", TOPIC): 1,
        (b"topic-deleted", LETTERS): COUNT,
    }
    assert sum(details.get(b"count", 0) for _, details in events) == len(keys)


async def test_a_part_is_not_created_by_a_publish_that_comes_after_its_deletion(client, fleet):
    name = part_name(TOPIC, 0)
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    with pytest.raises(ShardAwayError, match="was deleted"):
        fleet.broker_with(name.decode()).publish(name, [b"late"])
