"""Streams of members that hold messages and settle none: they get an error and end, on both protocols."""

import pytest

from tests.fakes import settle_down
from tests.server.resp.clients import Client
from tests.serving import Lines, serving


async def pass_seconds(world, seconds):
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()


async def test_resp_stream_that_hangs_gets_an_error_and_is_closed_and_its_messages_go_to_another(world, server, client):
    first, second = Client(server), Client(server)
    await first.say(b"SUBSCRIBE t GROUP g MEMBER a SESSION 5")
    await second.say(b"SUBSCRIBE t GROUP g MEMBER b PREFETCH 1")
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"
    assert first.transport.take() == b"$1\r\nx\r\n"
    await pass_seconds(world, 4.9)
    assert not first.transport.is_closed
    await pass_seconds(world, 0.1)
    said = first.transport.take()
    assert said.startswith(b"-SESSIONOVER member a: it held messages and settled none for 5 s")
    assert said.count(b"\r\n") == 1
    assert first.transport.is_lost
    assert second.transport.take() == b"*3\r\n$1\r\n2\r\n$1\r\nx\r\n*2\r\n$8\r\ntimeouts\r\n:1\r\n"
    assert b"$1\r\na\r\n" not in await client.say(b"GROUP MEMBERS t g")
    assert await second.say(b"ACK 2") == b"+OK\r\n"


async def test_resp_stream_that_settles_in_time_goes_on(world, server, client):
    first = Client(server)
    await first.say(b"SUBSCRIBE t GROUP g MEMBER a SESSION 5")
    for number in range(3):
        await client.say(b"PUBLISH t %d" % number)
        await pass_seconds(world, 4)
        first.transport.take()
        assert await first.say(b"ACK") == b"+OK\r\n"
        await pass_seconds(world, 100)
    assert not first.transport.is_closed


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (
            b"MEMBER a SESSION 0.05",
            b"-BADDELAY a session is a number of seconds, or a duration such as 1h30m, from 0.1 to 86400\r\n",
        ),
        (b"MEMBER a SESSION 86401", b"-BADDELAY "),
        (b"MEMBER a SESSION soon", b"-BADDELAY "),
        (b"MEMBER a SESSION nan", b"-BADDELAY "),
        (b"GROUP g SESSION 5", b"-ERR session without a member; "),
    ],
)
async def test_resp_session_that_cannot_be_is_refused(words, reply, client):
    assert (await client.say(b"SUBSCRIBE t " + words)).startswith(reply)
    assert await client.say(b"PING") == b"+PONG\r\n"


async def test_http_stream_that_hangs_gets_an_error_and_ends_and_its_messages_go_to_another(certificates):
    async with serving(certificates) as served:
        streams = []
        for path in ("/subscribe/t?group=g&member=a&session=5", "/subscribe/t?group=g&member=b"):
            stream = await served.begin(path)
            assert await stream.response() == 200
            streams.append(Lines(stream))
            streams[-1].say("INIT")
        first, second = streams
        await served.broker.publish(b"t", [b"x"]).commit.wait()
        assert await first.hear() == {"msg": "eA=="}
        served.clock.advance(5)
        served.broker.tick()
        reported = await first.hear()
        assert reported["code"] == "SESSIONOVER"
        assert await first.hear() is None
        assert await second.hear() == {"msg": "eA=="}


@pytest.mark.parametrize("query", ["member=a&session=0", "member=a&session=x", "session=5", "member=a&session="])
async def test_http_session_that_cannot_be_is_refused(certificates, query):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/subscribe/t?" + query))[0] == 400
