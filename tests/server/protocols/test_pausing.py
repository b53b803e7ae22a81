"""PAUSE and RESUME on both protocols."""

import orjson
import pytest

from tests.server.protocols.speakers import RefusedError
from tests.serving import serving

PAUSED = b"-PAUSED The topic is paused: it takes no messages now\r\n"


@pytest.mark.parametrize(("side", "is_in"), [("in", True), ("out", False), ("both", True)])
async def test_a_paused_topic_takes_or_hands_out_nothing_until_it_is_resumed(side, is_in, speaker, world):
    await speaker.publish("t", b"a")
    await speaker.pause("t", side, 60)
    topic = world.broker._engine.topics.by_name[b"t"]
    assert (topic.is_paused_in, topic.is_paused_out) == (is_in, side != "in")
    if is_in:
        with pytest.raises(RefusedError, match="PAUSED The topic is paused: it takes no messages now"):
            await speaker.publish("t", b"x")
    assert [one["msg"] for one in await speaker.receive("t")] == ([b"a"] if side == "in" else [])
    await speaker.resume("t")
    await speaker.publish("t", b"y")
    assert (topic.is_paused_in, topic.is_paused_out) == (False, False)


@pytest.mark.parametrize(
    ("line", "is_paused"),
    [
        (b"PAUSE t", (True, True)),
        (b"PAUSE t in", (True, False)),
        (b"PAUSE t OUT 5", (False, True)),
        (b"PAUSE t 5", (True, True)),
        (b"pause t both 0.5", (True, True)),
        (b"PAUSE t .5", (True, True)),
        (b"PAUSE t OUT .5", (False, True)),
        (b"RESUME t", (False, False)),
    ],
)
async def test_resp_pauses(line, is_paused, world, client):
    await world.publish(b"t", b"a")
    assert await client.say(line) == b"+OK\r\n"
    topic = world.broker._engine.topics.by_name[b"t"]
    assert (topic.is_paused_in, topic.is_paused_out) == is_paused
    assert await client.say(b"PUBLISH t x") == (PAUSED if is_paused[0] else b"+OK\r\n")
    assert await client.say(b"RESUME t BOTH") == b"+OK\r\n"
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PAUSE t IN 5 6", b"-ERR invalid number of args, want: 4; syntax: PAUSE topic [IN|OUT|BOTH] [seconds]\r\n"),
        (b"PAUSE t IN 5x", b"-BADDELAY A delay is a number of seconds, 0 or more\r\n"),
        (b"RESUME t IN 5", b"-ERR invalid number of args, want: 3; syntax: RESUME topic [IN|OUT|BOTH]\r\n"),
        (b"RESUME t 5", b"-BADOPTION a side is one of in, out, both\r\n"),
    ],
)
async def test_resp_refuses(line, reply, world, client):
    await world.publish(b"t", b"a")
    assert await client.say(line) == reply
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/t/resume?seconds=1", 400),
        ("/topics/t/resume?side=", 400),
    ],
)
async def test_http_refuses(certificates, path, status):
    async with serving(certificates) as served:
        await served.broker.publish(b"t", [b"a"]).commit.wait()
        assert (await served.request("POST", path))[0] == status
        await served.broker.publish(b"t", [b"a"]).commit.wait()


async def test_http_shows_that_a_topic_is_paused(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/publish/t", b"a"))[0] == 201
        assert await served.request("POST", "/topics/t/pause?side=in&seconds=60") == (200, b"")
        assert (await served.request("POST", "/publish/t", b"a"))[0] == 503
        assert orjson.loads((await served.request("GET", "/topics/t"))[1])["paused_in"] is True
        assert await served.request("POST", "/topics/t/resume") == (200, b"")
