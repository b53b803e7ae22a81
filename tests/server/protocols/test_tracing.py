"""What happened to a message, told on both protocols, and who is named in it."""

import asyncio

import orjson
import pytest

from miniqueue.server.resp.server import RespServer
from tests.fakes import START_MS
from tests.server.access import sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS, Client
from tests.serving import serving

UNKNOWN = (
    b"-NOMESSAGE nothing is known of what happened to such a message; the topic's setting trace says whether it is "
    b"noted\r\n"
)


def bulk(*words: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def step(event: bytes, *rest: bytes) -> bytes:
    """Encode a step as version 2 of RESP has it."""
    words = bulk(b"event", event, b"at_ms") + b":%d\r\n" % START_MS
    return b"*%d\r\n" % (8 + len(rest)) + words + bulk(b"topic", b"t", b"id", b"0-0", *rest)


async def test_resp_tells_the_steps_of_a_message(server, client):
    other = Client(server)
    await client.say(b"TOPIC CREATE t trace true")
    await client.say(b"PUBLISH t a")
    await other.say(b"SUBSCRIBE t")
    await other.say(b"ACK")
    reported = await client.say(b"TRACE t 0-0")
    sessions = [one.connection.session for one in (client, other)]
    first, second = (b"resp 127.0.0.1:50000 client %d" % session.id for session in sessions)
    assert reported == b"*4\r\n" + step(b"published", b"by", first) + step(b"committed") + step(
        b"delivered", b"group", b"default", b"by", second, b"receipt", b"1"
    ) + step(b"acknowledged", b"group", b"default")
    await client.say(b"HELLO 3")
    assert (await client.say(b"TRACE t 0-0")).startswith(b"*4\r\n%5\r\n$5\r\nevent\r\n$9\r\npublished\r\n")


async def test_resp_names_members_and_receipts(client):
    await client.say(b"TOPIC CREATE t trace true")
    await client.say(b"PUBLISH t a")
    receipt = (await client.say(b"RECEIVE t GROUP g MEMBER m")).split(b"\r\n")[3]
    await client.say(b"REJECT t " + receipt + b" broken")
    reported = await client.say(b"TRACE t 0-0")
    assert bulk(b"member", b"m", b"receipt", receipt) in reported
    assert step(b"rejected", b"group", b"g", b"reason", b"broken") in reported
    assert bulk(b"event", b"dead_lettered") in reported
    assert bulk(b"to") + b"*4\r\n" + bulk(b"topic", b"t.dlq", b"id", b"0-0") in reported
    assert bulk(b"from") + b"*4\r\n" + bulk(b"topic", b"t", b"id", b"0-0") in reported


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"TRACE t 0-1-1", UNKNOWN),
        (b"TRACE t 0-9999999999999999999-9999999999999999999", UNKNOWN),
        (b"TRACE t 999999999-1-1", UNKNOWN),
        (b"TRACE t 65535.low-9999999999999999999", UNKNOWN),
        (b"TRACE t", b"-ERR invalid number of args"),
    ],
)
async def test_resp_refuses_to_trace_what_is_not_there(line, reply, client):
    await client.say(b"PUBLISH t a")
    assert (await client.say(line)).startswith(reply)


async def test_resp_names_the_user_and_follows_a_message_only_where_the_user_may_look(world):
    users = [user("ada", admin=("*",)), user("bob", monitor=("t",))]
    server = RespServer(world.broker, PARAMETERS, sign_in_for(*users))
    client, other = Client(server), Client(server)
    for one, name in ((client, "ada"), (other, "bob")):
        one.send(b"AUTH", token_of(name))
        await asyncio.sleep(0)
    await client.say(b"PING")
    await client.say(b"TOPIC CREATE t trace true max_deliveries 1")
    await client.say(b"PUBLISH t a")
    await client.say(b"RECEIVE t")
    world.clock.advance(60)
    world.broker.tick()
    whole, part = await client.say(b"TRACE t 0-0"), await other.say(b"TRACE t 0-0")
    assert b" user ada\r\n" in whole
    assert whole.count(b"event") - part.count(b"event") == 1  # the event of its arrival


async def test_the_trace_has_the_reason_of_a_nack(world):
    client = Client(RespServer(world.broker, PARAMETERS))
    await client.say(b"TOPIC CREATE t trace true")
    await client.say(b"PUBLISH t a")
    receipt = (await client.say(b"RECEIVE t")).split(b"\r\n")[3]
    assert await client.say(b"NACK t %b DELAY 5 REASON why" % receipt) == b"+OK\r\n"
    assert b"nacked" in (trace := await client.say(b"TRACE t 0-0"))
    assert b"reason\r\n$3\r\nwhy\r\n" in trace


async def test_a_user_called_default_is_named_and_who_needs_not_sign_in_is_not(world):
    signed_in = Client(RespServer(world.broker, PARAMETERS, sign_in_for(user("default", admin=("*",)))))
    signed_in.send(b"AUTH", token_of("default"))
    await signed_in.say(b"PING")
    await signed_in.say(b"TOPIC CREATE t trace true")
    await signed_in.say(b"PUBLISH t a")
    anyone = Client(RespServer(world.broker, PARAMETERS))
    await anyone.say(b"RECEIVE t")
    reported = await anyone.say(b"TRACE t 0-0")
    assert reported.count(b" user default\r\n") == 1
    assert reported.index(b" user default\r\n") < reported.index(b"delivered")


async def test_who_becomes_another_user_has_published_as_the_one_before(world):
    users = [user("ada", admin=("*",)), user("bob", admin=("*",))]
    client = Client(RespServer(world.broker, PARAMETERS, sign_in_for(*users)))
    client.send(b"AUTH", token_of("ada"))
    await client.say(b"PING")
    await client.say(b"TOPIC CREATE t trace true")
    await client.say(b"PUBLISH t a")
    client.send(b"AUTH", token_of("bob"))
    await client.say(b"PING")
    await client.say(b"RECEIVE t")
    reported = await client.say(b"TRACE t 0-0")
    assert (reported.count(b" user ada\r\n"), reported.count(b" user bob\r\n")) == (1, 1)
    assert reported.index(b" user ada\r\n") < reported.index(b" user bob\r\n")


async def test_http_tells_the_same(certificates):
    async with serving(certificates) as served:
        await served.request("PUT", "/topics/t", b'{"trace":true}')
        await served.request("POST", "/publish/t", b"a")
        await served.request("POST", "/topics/t/receive")
        replies = [
            await served.request("GET", f"/topics/{rest}/trace")
            for rest in ("t/messages/0-0", "t/messages/0-1", "t/messages/x", "none/messages/0-0")
        ]
        reported = orjson.loads(replies[0][-1])
    assert [reply[0] for reply in replies] == [200, 404, 400, 404]
    published, committed, delivered = reported["trace"]
    assert published.pop("by").startswith("http 127.0.0.1:")
    assert published == {"event": "published", "atMs": START_MS, "topic": "t", "id": "0-0"}
    assert committed == published | {"event": "committed"}
    assert (delivered["group"], delivered["receipt"][-2:]) == ("default", "-1")
