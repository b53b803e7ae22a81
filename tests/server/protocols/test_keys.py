"""Order, turns and caps of keys, over RESP and HTTP."""

import re

import orjson
import pytest

from tests.server.resp.clients import Client
from tests.serving import Lines, serving

SETTINGS = {
    "ordered": True,
    "fair": True,
    "max_rate": 0.5,
    "max_concurrency": 10,
    "key_max_rate": 2.0,
    "key_max_concurrency": 3,
}


def payloads(received: bytes) -> list[bytes]:
    return re.findall(rb"\$2\r\n([abc][0-9])\r\n", received)


def receipts(received: bytes) -> list[bytes]:
    return re.findall(rb"[0-9a-f]{16}-[0-9]+", received)


async def publish(client: Client, *messages: bytes) -> None:
    for message in messages:
        assert (await client.say(b"PUB t %b KEY %b" % (message, message[:1]))).startswith(b"$")


async def test_resp_receives_one_message_of_each_key(client):
    assert await client.say(b"TOPIC CREATE t ordered true") == b"+OK\r\n"
    await publish(client, b"a1", b"a2", b"b1", b"a3")
    received = await client.say(b"RECEIVE t COUNT 10")
    assert payloads(received) == [b"a1", b"b1"]
    assert await client.say(b"RECEIVE t COUNT 10") == b"*0\r\n"
    first, second = receipts(received)
    await client.say(b"NACK t " + second)
    await client.say(b"ACK t " + first)
    assert sorted(payloads(await client.say(b"RECEIVE t COUNT 10"))) == [b"a2", b"b1"]


async def test_resp_receives_what_follows_when_it_acknowledges_at_once(client):
    await client.say(b"TOPIC CREATE t ordered true")
    await publish(client, b"a1", b"a2")
    assert payloads(await client.say(b"RECEIVE t COUNT 10 AUTOACK")) == [b"a1"]
    assert payloads(await client.say(b"RECEIVE t COUNT 10 AUTOACK")) == [b"a2"]


async def test_many_who_wait_and_acknowledge_at_once_are_served_one_after_the_other(server, client):
    await client.say(b"TOPIC CREATE t ordered true")
    waiting = [Client(server) for _ in range(300)]
    for waiter in waiting:
        waiter.send(b"RECEIVE", b"t", b"WAIT", b"60", b"AUTOACK")
    for number in range(300):
        client.send(b"PUB", b"t", b"%d" % number, b"KEY", b"k")
    for _ in range(50):
        await client.say(b"PING")
    answers = [waiter.transport.take() for waiter in waiting]
    assert all(b"$%d\r\n%d\r\n" % (len(str(n)), n) in answer for n, answer in enumerate(answers))


async def test_a_stream_gets_the_next_of_its_key_when_another_acknowledges(server, client):
    await client.say(b"TOPIC CREATE t ordered true")
    await publish(client, b"a1", b"a2")
    first, other = Client(server), Client(server)
    assert await first.say(b"SUBSCRIBE t") == b"$2\r\na1\r\n"
    assert await other.say(b"SUBSCRIBE t") == b""
    first.send(b"ACK")
    await client.say(b"PING")
    assert first.transport.take() + other.transport.take() == b"+OK\r\n$2\r\na2\r\n"


async def test_a_stream_that_ends_gives_its_key_back(server, client):
    await client.say(b"TOPIC CREATE t ordered true")
    await publish(client, b"a1", b"a2")
    first, other = Client(server), Client(server)
    await first.say(b"SUBSCRIBE t")
    await other.say(b"SUBSCRIBE t")
    first.transport.lose()
    await client.say(b"PING")
    assert other.transport.take() == b"$2\r\na1\r\n"


async def test_a_lease_that_is_over_comes_back_in_front_of_its_key(world, client):
    await client.say(b"TOPIC CREATE t ordered true")
    await publish(client, b"a1", b"a2")
    assert payloads(await client.say(b"RECEIVE t LEASE 1")) == [b"a1"]
    world.clock.advance(2)
    world.broker.tick()
    received = await client.say(b"RECEIVE t COUNT 2")
    assert payloads(received) == [b"a1"]
    assert b"timeouts" in received


async def test_the_settings_are_set_and_told(speaker):
    await speaker.create("t", **SETTINGS)
    told = await speaker.settings("t")
    assert {name: str(told[name]).lower().removesuffix(".0") for name in SETTINGS} == {
        name: str(value).lower().removesuffix(".0") for name, value in SETTINGS.items()
    }


@pytest.mark.parametrize(
    "words",
    [
        b"ordered perhaps",
        b"fair 1",
        b"max_rate 0.0001",
        b"max_rate -1",
        b"max_rate 1000001",
        b"max_concurrency 1.5",
        b"key_max_concurrency -1",
        b"key_max_rate nan",
    ],
)
async def test_resp_refuses_what_cannot_be(words, client):
    assert (await client.say(b"TOPIC CREATE t " + words)).startswith(b"-BADSETTING " + words.split()[0])


async def test_http_keeps_the_order_of_a_key(certificates):
    async with serving(certificates) as served:
        body = orjson.dumps({"ordered": True})
        assert (await served.request("PUT", "/topics/t", body))[0] in (200, 201)
        for text in (b"a1", b"a2", b"b1"):
            assert (await served.request("POST", f"/publish/t?key={text[:1].decode()}", text))[0] == 201
        first = Lines(await served.begin("/subscribe/t"))
        first.say("INIT")
        assert (await first.hear())["msg"] == "YTE="  # a1
        status, received = await served.request("POST", "/topics/t/receive?count=5")
        (line,) = [orjson.loads(line) for line in received.splitlines()]
        assert (status, line["msg"]) == (200, "YjE=")  # b1
        first.say("NACK")
        assert (await first.hear())["msg"] == "YTE="
        first.say("ACK")
        assert (await first.hear())["msg"] == "YTI="  # a2
