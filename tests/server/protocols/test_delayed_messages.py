"""Messages published with a delay, over both protocols."""

import orjson
import pytest

from tests.fakes import START_MS, settle_down
from tests.serving import serving

NOT_THERE = b"There is no such message: it was cancelled, or has become due"


async def test_over_resp_they_are_listed_found_cancelled_and_due_at_their_time(world, client):
    assert await client.say(b"PUB t a DELAY 60") == b"$17\r\n0-1700000060000-1\r\n"
    assert await client.say(b"PUB t b AT 1700000030000 HEADER trace 7f") == b"$17\r\n0-1700000030000-2\r\n"
    assert await client.say(b"LEN t") == b":2\r\n"
    listed = await client.say(b"PEEK t STATE delayed COUNT 1")
    assert listed.startswith(b"*1\r\n*3\r\n$17\r\n0-1700000030000-2\r\n$1\r\nb\r\n")
    assert b"$9\r\ndue_at_ms\r\n:1700000030000\r\n" in listed
    assert b"\r\na\r\n" in await client.say(b"PEEK t STATE delayed AFTER 0-1700000030000-2")
    assert b"\r\nb\r\n" in await client.say(b"PEEK t ID 0-1700000030000-2")
    assert await client.say(b"CANCEL t 0-1700000060000-1") == b"+OK\r\n"
    assert await client.say(b"CANCEL t 0-1700000060000-1") == b"-NOMESSAGE %b\r\n" % NOT_THERE
    world.clock.advance(30)
    world.broker.tick()
    await settle_down()
    assert b"\r\n0-0\r\n$1\r\nb\r\n" in await client.say(b"PEEK t")
    assert await client.say(b"CANCEL t 0-1700000030000-2") == b"-NOMESSAGE %b\r\n" % NOT_THERE
    assert await client.say(b"PURGE t") == b":1\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"CANCEL t 0-0", b"-BADOPTION the id of a delayed message is three numbers, as in 0-1700000000000-17\r\n"),
        (b"CANCEL t", b"-ERR invalid number of args, want: 3; syntax: CANCEL topic id\r\n"),
        (b"CANCEL other 0-1-1", b"-NOTOPIC There is no such topic\r\n"),
        (b"CANCEL t 99999-1-1", b"-NOMESSAGE %b\r\n" % NOT_THERE),
        (b"PEEK t AFTER 0-1-1", b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n"),
        (
            b"PEEK t STATE leased AFTER 0-1-1",
            b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n",
        ),
        (b"PEEK t STATE delayed AFTER 0-1-1", b"*0\r\n"),
        (b"PEEK t ID 0-1-1", b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n"),
        (b"PUB t x DELAY -1", None),
        (b"PUB t x DELAY 1e300", None),
        (b"PUB t x AT 9223372036854775808", None),
    ],
)
async def test_what_is_refused(line, reply, world, client):
    await world.publish(b"t", b"a")
    said = await client.say(line)
    assert said == reply if reply is not None else said.startswith(b"-BAD")


async def test_over_http_they_are_listed_found_cancelled_and_due_at_their_time(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/publish/t?delay=60", b"a"))[0] == 201
        assert (await served.request("POST", "/publish/t?at=1700000030000", b"b"))[0] == 201
        status, listed = await served.request("GET", "/topics/t/messages?state=delayed")
        assert status == 200
        assert [(message["id"], message["dueAtMs"] - START_MS) for message in orjson.loads(listed)["messages"]] == [
            ("0-1700000030000-2", 30_000),
            ("0-1700000060000-1", 60_000),
        ]
        path = "/topics/t/messages/0-1700000060000-1"
        assert orjson.loads((await served.request("GET", path))[1])["state"] == "delayed"
        assert await served.request("DELETE", path) == (200, b'{"cancelled":"0-1700000060000-1"}')
        assert await served.request("DELETE", path) == (404, b'{"error":"%b","code":"NOMESSAGE"}' % NOT_THERE)
        assert (await served.request("GET", path))[0] == 404
        assert (await served.request("DELETE", "/topics/t/messages/0-0"))[0] == 400
        served.clock.advance(30)
        served.broker.tick()
        await settle_down()
        figures = orjson.loads((await served.request("GET", "/topics/t"))[1])
        assert (figures["ready"], figures["delayed"], figures["published"]) == (1, 0, 1)
