"""PAUSE and RESUME on both protocols."""

import orjson
import pytest

from miniqueue.errors.requests import PausedError
from tests.fakes import FakeConsumer, settle_down
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
        (
            b"PAUSE t IN 5 6",
            b"-ERR invalid number of args, want: 4; syntax: PAUSE topic [IN|OUT|BOTH] [seconds] [GROUP g]\r\n",
        ),
        (b"PAUSE t IN 5x", b"-BADDELAY A delay is a number of seconds, or a duration such as 1h30m, 0 or more\r\n"),
        (b"RESUME t IN 5", b"-ERR invalid number of args, want: 3; syntax: RESUME topic [IN|OUT|BOTH] [GROUP g]\r\n"),
        (
            b"PAUSE t IN GROUP default",
            b"-BADOPTION a group has only the side out: all groups read what is published\r\n",
        ),
        (b"PAUSE t GROUP other", b"-NOGROUP The topic has no such group\r\n"),
        (b"RESUME u GROUP default", b"-NOTOPIC There is no such topic\r\n"),
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


async def test_a_paused_group_gets_nothing_until_it_is_resumed_and_others_do(speaker, world):
    await speaker.create_group("t", "default")
    await speaker.create_group("t", "g")
    await speaker.publish("t", b"a")
    await speaker.pause_group("t", "g")
    assert [one["msg"] for one in await speaker.receive("t")] == [b"a"]
    assert await speaker.receive("t", group="g") == []
    await world.restart()
    speaker = type(speaker)(world)
    waiting = FakeConsumer(world.broker, b"t", b"g")
    waiting.consumer.request()
    await settle_down()
    assert waiting.payloads == []
    groups = await speaker.groups("t")
    assert [bool(groups[name]["paused"]) for name in ("default", "g")] == [False, True]
    await speaker.resume_group("t", "g")
    assert waiting.payloads == [b"a"]
    assert world.broker.admin.settings_of(b"t").paused_groups == ()


async def test_the_pause_of_a_group_ends_by_itself(speaker, world):
    await speaker.create_group("t", "g")
    await speaker.publish("t", b"a")
    await speaker.pause_group("t", "g", 5)
    waiting = FakeConsumer(world.broker, b"t", b"g")
    waiting.consumer.request()
    for seconds, payloads in ((4.9, []), (0.2, [b"a"])):
        world.clock.advance(seconds)
        world.broker.tick()
        await settle_down()
        assert waiting.payloads == payloads


async def test_a_paused_group_is_not_redriven_and_a_deleted_one_is_forgotten(speaker, world):
    await speaker.create_group("t.dlq", "g")
    await speaker.create_group("t.dlq", "h")
    await speaker.publish("t.dlq", b"a")
    await speaker.pause_group("t.dlq", "g")
    with pytest.raises(PausedError):
        await world.broker.redrive(b"t.dlq", target=b"t")
    await speaker.delete_group("t.dlq", "g")
    assert world.broker.admin.settings_of(b"t.dlq").paused_groups == ()


async def test_http_shows_that_a_topic_is_paused(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/publish/t", b"a"))[0] == 201
        assert await served.request("POST", "/topics/t/pause?side=in&seconds=60") == (200, b"")
        assert (await served.request("POST", "/publish/t", b"a"))[0] == 503
        assert orjson.loads((await served.request("GET", "/topics/t"))[1])["paused_in"] is True
        assert await served.request("POST", "/topics/t/resume") == (200, b"")
