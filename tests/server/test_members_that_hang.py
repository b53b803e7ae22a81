"""Streams of members that hold messages and settle none: they are told so and ended, on both protocols."""

import asyncio

import pytest

from tests.fakes import settle_down
from tests.server.resp_clients import Client, serve
from tests.serving import Lines, serving


async def pass_seconds(world, seconds):
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()


def test_resp_stream_that_hangs_is_told_and_closed_and_its_messages_go_to_another():
    async def body(world, server, client):
        one, two = Client(server), Client(server)
        await one.say(b"SUBSCRIBE t GROUP g MEMBER a SESSION 5")
        await two.say(b"SUBSCRIBE t GROUP g MEMBER b PREFETCH 1")
        assert await client.say(b"PUBLISH t x") == b"+OK\r\n"
        assert one.transport.take() == b"$1\r\nx\r\n"
        await pass_seconds(world, 4.9)
        assert not one.transport.is_closed
        await pass_seconds(world, 0.1)
        said = one.transport.take()
        assert said.startswith(b"-SESSIONOVER member a: it held messages and settled none for 5 s")
        assert said.count(b"\r\n") == 1
        assert one.transport.is_lost
        assert two.transport.take() == b"*3\r\n$1\r\n2\r\n$1\r\nx\r\n*2\r\n$8\r\ntimeouts\r\n:1\r\n"
        assert b"$1\r\na\r\n" not in await client.say(b"GROUP MEMBERS t g")
        assert await two.say(b"ACK 2") == b"+OK\r\n"

    serve(body)


def test_resp_stream_that_settles_in_time_goes_on():
    async def body(world, server, client):
        one = Client(server)
        await one.say(b"SUBSCRIBE t GROUP g MEMBER a SESSION 5")
        for number in range(3):
            await client.say(b"PUBLISH t %d" % number)
            await pass_seconds(world, 4)
            one.transport.take()
            assert await one.say(b"ACK") == b"+OK\r\n"
            await pass_seconds(world, 100)
        assert not one.transport.is_closed

    serve(body)


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (b"MEMBER a SESSION 0.05", b"-BADDELAY a session is a number of seconds, from 0.1 to 86400\r\n"),
        (b"MEMBER a SESSION 86401", b"-BADDELAY "),
        (b"MEMBER a SESSION soon", b"-BADDELAY "),
        (b"MEMBER a SESSION nan", b"-BADDELAY "),
        (b"GROUP g SESSION 5", b"-ERR session without a member; "),
    ],
)
def test_resp_session_that_cannot_be_is_refused(words, reply):
    async def body(world, server, client):
        assert (await client.say(b"SUBSCRIBE t " + words)).startswith(reply)
        assert await client.say(b"PING") == b"+PONG\r\n"

    serve(body)


def test_http_stream_that_hangs_is_told_and_ended_and_its_messages_go_to_another(certificates):
    async def scenario():
        async with serving(certificates) as served:
            streams = []
            for path in ("/subscribe/t?group=g&member=a&session=5", "/subscribe/t?group=g&member=b"):
                stream = await served.begin(path)
                assert await stream.response() == 200
                streams.append(Lines(stream))
                streams[-1].say("INIT")
            one, two = streams
            await served.broker.publish(b"t", [b"x"]).commit.wait()
            assert await one.hear() == {"msg": "eA=="}
            served.clock.advance(5)
            served.broker.tick()
            told = await one.hear()
            assert told["code"] == "SESSIONOVER"
            assert await one.hear() is None
            assert await two.hear() == {"msg": "eA=="}

    asyncio.run(scenario())


@pytest.mark.parametrize("query", ["member=a&session=0", "member=a&session=x", "session=5", "member=a&session="])
def test_http_session_that_cannot_be_is_refused(certificates, query):
    async def scenario():
        async with serving(certificates) as served:
            assert (await served.request("POST", "/subscribe/t?" + query))[0] == 400

    asyncio.run(scenario())
