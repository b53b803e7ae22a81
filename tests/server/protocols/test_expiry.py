"""Times to live over RESP and HTTP: said with the publish or of the topic, and seen in figures."""

import orjson
import pytest

from tests.fakes import START_MS
from tests.server.protocols.speakers import RefusedError
from tests.server.resp.clients import Client
from tests.serving import NDJSON, eventually, serving


async def test_a_message_with_a_time_to_live_is_not_handed_out_behind_it(speaker, world):
    await speaker.publish("t", b"a", ttl=1.5)
    await speaker.publish("t", b"b")
    await speaker.publish("t", b"c", ttl=60)
    assert (await speaker.show("t", "0-2"))["expires_at_ms"] == START_MS + 60_000
    world.clock.advance(2)
    received = await speaker.receive("t", count=10, autoack=True)
    assert [(one["msg"], one.get("expires_at_ms")) for one in received] == [(b"b", None), (b"c", START_MS + 60_000)]
    figures = await speaker.figures("t")
    assert (figures["expired"], figures["dropped"]) == (1, 1)


async def test_what_expires_in_a_topic_becomes_a_dead_letter_where_it_is_set(speaker, world):
    await speaker.create("t", ttl_seconds=5, expired="dead-letter")
    await speaker.publish("t", b"a")
    await speaker.publish("t", b"b", ttl=1)
    await speaker.publish("t", b"c", ttl=60)
    world.clock.advance(5)
    assert [one["msg"] for one in await speaker.receive("t", count=10)] == [b"c"]
    await world.commit()
    letters = await speaker.receive("t.dlq", count=10)
    assert [(one["msg"], "expired" in str(one["origin"])) for one in letters] == [(b"a", True), (b"b", True)]
    assert not any("expires_at_ms" in one for one in letters)
    figures = await speaker.figures("t")
    assert (figures["expired"], figures["moved"]) == (2, 2)
    with pytest.raises(RefusedError, match="BADSETTING expired must be drop or dead-"):
        await speaker.create("u", expired="keep")


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


async def test_a_json_line_has_a_time_to_live(certificates):
    async with serving(certificates) as served:
        await served.request("POST", "/publish/t", b'{"msg":"Yg==","ttl":1}\n{"msg":"Yw==","ttl":60}\n', NDJSON)
        served.clock.advance(1)
        _, body = await served.request("POST", "/topics/t/receive?count=10")
        assert [orjson.loads(line)["msg"] for line in body.splitlines()] == ["Yw=="]


async def test_what_nobody_takes_is_gone_after_some_ticks(certificates):
    async with serving(certificates) as served:
        await served.request("POST", "/publish/t?ttl=1", b"a")
        served.clock.advance(2)

        def is_gone() -> bool:
            served.broker.tick()
            return served.broker.stats()[b"t"].expired == 1

        await eventually(is_gone)
