"""REDRIVE moves a dead letter to its origin, which only the broker sets: no publisher can."""

import pytest

from miniqueue.core.message import attributes
from tests.server.protocols.test_duplicates import NDJSON, post

ORIGIN = b'{"topic":"secret","id":"0-0","published_at":1,"died_at":2}'


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PUB t x ORIGIN secret", b"-BADOPTION there is no option origin"),
        (b"PUB t x ORIGIN " + ORIGIN, b"-BADOPTION there is no option origin"),
        (b"REQUEST t x ORIGIN secret TIMEOUT 0.001", b"-"),
    ],
)
async def test_no_command_takes_one(line, reply, client):
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"TOPICS") == b"*0\r\n"


@pytest.mark.parametrize(
    ("query", "body", "headers"),
    [
        (b"origin=secret", b"x", ()),
        (b"", b'{"msg":"","origin":' + ORIGIN + b"}", (NDJSON,)),
        (b"dedup=1", b'{"msg":"","origin":' + ORIGIN + b"}", (NDJSON,)),
    ],
)
async def test_no_request_takes_one(query, body, headers, world):
    _, _, (answer,) = await post(world, query, body, *headers)
    assert "error" in answer
    assert world.broker.topics() == []


async def test_a_header_of_that_name_is_a_header(world, client):
    await client.say(b"PUB t.dlq x HEADER origin secret")
    held = await world.holding(b"t.dlq")
    described = attributes.decode(held.leases[0].attributes[0])
    assert described.origin is None
    assert described.headers == ((b"origin", b"secret"),)
    held.consumer.nack()
    assert await client.say(b"REDRIVE t.dlq") == b":0\r\n"
    assert world.broker.topics() == [b"t.dlq"]
