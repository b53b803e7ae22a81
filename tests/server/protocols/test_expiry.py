"""Times to live over RESP and HTTP: said with the publish or of the topic, and seen in figures."""

import orjson

from tests.fakes import START_MS
from tests.server.resp.clients import Client
from tests.serving import NDJSON, eventually, serving


async def test_a_time_to_live_over_resp(world, client):
    for line in (b"PUB t a TTL 1.5", b"PUB t b", b"PUB t c TTL 60"):
        await client.say(line)
    expires_at = b"$13\r\nexpires_at_ms\r\n:%d\r\n" % (START_MS + 60_000)
    assert expires_at in await client.say(b"PEEK t ID 0-2")
    world.clock.advance(2)
    received = await client.say(b"RECEIVE t COUNT 10 AUTOACK")
    assert [payload in received for payload in (b"$1\r\na\r\n", b"$1\r\nb\r\n", b"$1\r\nc\r\n", expires_at)] == [
        False,
        *[True] * 3,
    ]
    stats = await client.say(b"STATS t")
    assert b"$7\r\nexpired\r\n:1\r\n" in stats
    assert b"$7\r\ndropped\r\n:1\r\n" in stats


async def test_a_stream_is_not_given_what_has_expired(world, server, client):
    for line in (b"PUB t a TTL 1", b"PUB t b TTL 1", b"PUB t c", b"PUB t d TTL 1"):
        await client.say(line)
    stream = Client(server)
    assert await stream.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"
    world.clock.advance(1)
    assert await stream.say(b"NACK") == b"+OK\r\n$1\r\nc\r\n"
    assert await stream.say(b"ACK") == b"+OK\r\n"
    await client.say(b"PUBLISH t e")
    assert stream.transport.take() == b"$1\r\ne\r\n"


async def test_a_topic_with_a_time_to_live_over_resp(world, client):
    assert await client.say(b"TOPIC CREATE t ttl_seconds 5 expired dead-letter") == b"+OK\r\n"
    await client.say(b"MPUBLISH t a b")
    world.clock.advance(5)
    assert await client.say(b"RECEIVE t COUNT 10") == b"*0\r\n"
    await world.commit()
    letters = await client.say(b"RECEIVE t.dlq COUNT 10")
    assert letters.count(b"$6\r\nreason\r\n$7\r\nexpired\r\n") == 2
    assert (await client.say(b"TOPIC SET t expired keep")).startswith(b"-BADSETTING expired must be drop or dead-")


async def test_a_time_to_live_over_http(certificates):
    async with serving(certificates) as served:
        status, _ = await served.request("PUT", "/topics/t", b'{"expired":"dead-letter"}')
        assert status == 201
        assert (await served.request("POST", "/publish/t?ttl=1", b"a"))[0] == 201
        await served.request("POST", "/publish/t", b'{"msg":"Yg==","ttl":1}\n{"msg":"Yw==","ttl":60}\n', NDJSON)
        served.clock.advance(1)
        _, body = await served.request("POST", "/topics/t/receive?count=10")
        assert [orjson.loads(line)["msg"] for line in body.splitlines()] == ["Yw=="]
        _, body = await served.request("GET", "/topics/t")
        figures = orjson.loads(body)
        assert (figures["expired"], figures["moved"], figures["settings"]["expired"]) == (2, 2, "dead-letter")
        _, body = await served.request("POST", "/topics/t.dlq/receive?count=10")
        letters = [orjson.loads(line) for line in body.splitlines()]
        assert [letter["origin"]["reason"] for letter in letters] == ["expired"] * 2
        assert not any("expiresAtMs" in letter for letter in letters)


async def test_what_nobody_takes_is_gone_after_some_ticks(certificates):
    async with serving(certificates) as served:
        await served.request("POST", "/publish/t?ttl=1", b"a")
        served.clock.advance(2)

        def is_gone() -> bool:
            served.broker.tick()
            return served.broker.stats()[b"t"].expired == 1

        await eventually(is_gone)
