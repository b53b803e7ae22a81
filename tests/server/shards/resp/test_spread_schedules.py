"""Schedules of a spread topic: each is in one part, that of its key, or of its name."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_for, part_name
from tests.fakes import settle_down
from tests.server.shards.http.fleet import TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

TOPIC = TOPICS[1].encode()
PARTS = 5


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


async def test_a_schedule_fires_into_the_part_of_its_key(client, fleet):
    options = b"EVERY", b"5", b"KEY", b"k", b"HEADER", b"KEY", b"other"
    assert await client.ask(b"SCHEDULE", b"SET", b"beat", *options, TOPIC, b"x") == b"+OK\r\n"
    fired = value_of(await client.ask(b"SCHEDULE", b"FIRE", b"beat"))
    assert int(fired.partition(b"-")[0]) >> 10 == part_for(b"k", PARTS)
    assert map_of(value_of(await client.ask(b"SCHEDULE", b"GET", b"beat")))[b"topic"] == TOPIC
    [listed] = value_of(await client.ask(b"SCHEDULE", b"LIST"))
    assert map_of(listed)[b"topic"] == TOPIC
    fleet.clock.advance(6)
    for member in fleet.members:
        member.broker.tick()
    await settle_down()
    assert await client.ask(b"LEN", TOPIC) == b":2\r\n"
    assert await client.ask(b"SCHEDULE", b"DELETE", b"beat") == b"+OK\r\n"


async def test_a_schedule_without_a_key_is_in_the_part_of_its_name(client):
    for _ in range(2):
        assert await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", TOPIC, b"x") == b"+OK\r\n"
    fired = value_of(await client.ask(b"SCHEDULE", b"FIRE", b"beat"))
    assert int(fired.partition(b"-")[0]) >> 10 == part_for(b"beat", PARTS)
    assert len(value_of(await client.ask(b"SCHEDULE", b"LIST"))) == 1


@pytest.mark.parametrize("parts", [b"", b"4", b"5"])
async def test_a_schedule_never_creates_a_part_of_a_topic_that_was_deleted(client, fleet, parts):
    key = next(key for number in range(100) if part_for(key := b"%d" % number, PARTS) == PARTS - 1)
    assert await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", b"KEY", key, TOPIC, b"x") == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    if parts:
        assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", parts) == b"+OK\r\n"
    before = [member.broker.topics() for member in fleet.members]
    if parts != b"5":
        assert (await client.ask(b"SCHEDULE", b"FIRE", b"beat")).startswith(b"-TRYAGAIN")
    fleet.clock.advance(6)
    for member in fleet.members:
        member.broker.tick()
    await settle_down()
    assert [member.broker.topics() for member in fleet.members] == before
    assert await client.ask(b"LEN", TOPIC) == (b":1\r\n" if parts == b"5" else b":0\r\n")


async def test_no_client_can_schedule_messages_of_a_part(client):
    part = part_name(TOPIC, 0)
    assert (await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", part, b"x")).startswith(b"-BADTOPIC")


async def test_a_schedule_of_a_spread_topic_is_set_over_http_too(client, fleet):
    body = b'{"topic":"%b","every":5,"text":"x"}' % TOPIC
    assert [(await fleet.ask("PUT", "/schedules/beat", body, door=door)).status for door in (0, 1)] == [201, 200]
    assert (await fleet.ask("GET", "/schedules/beat")).json["topic"] == TOPIC.decode()
    assert len(value_of(await client.ask(b"SCHEDULE", b"LIST"))) == 1
    assert (await fleet.ask("DELETE", "/schedules/beat")).json == {"deleted": "beat"}
