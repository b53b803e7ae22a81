"""The log of a topic over RESP and HTTP: READ, PARTITIONS, and the routes of partitions."""

import asyncio

import pytest

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.message.attributes import Attributes
from miniqueue.wire.attribute_words import BYTES_IN_TURN
from miniqueue.wire.resp_replies import encode
from tests.fakes import START_MS, settle_down
from tests.serving import serving

ATTRIBUTES = [b"", Attributes(key=b"k").encode()]


async def fill(broker, clock):
    """Publish a message, and a second later two, of which one has attributes."""
    await broker.publish(b"t", [b"a"]).commit.wait()
    clock.advance(1)
    await broker.publish(b"t", [b"b", b"c"], ATTRIBUTES).commit.wait()


def page(earliest, missed, following, *messages, end=3):
    return encode(
        ["earliest", earliest, "end", end, "missed", missed, "next", following, "messages", list(messages)], 2
    )


A = [b"0-0", b"a", ["published_at_ms", START_MS]]
B = [b"0-1", b"b", ["published_at_ms", START_MS + 1000]]
C = [b"0-2", b"c", ["published_at_ms", START_MS + 1000, "key", b"k"]]
ARITY = b"-ERR invalid number of args, want: "
SYNTAX = b"READ topic partition (offset | TIME ms) [COUNT n] [BYTES n]\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"READ t 0 0", page(0, 0, 3, A, B, C)),
        (b"READ t 0 time %d" % (START_MS + 1), page(0, 0, 3, B, C)),
        (b"READ t 0 0 BYTES 0", b"-BADOPTION a number of bytes is a whole number from 1 to 4194304\r\n"),
        (b"READ t 0 0 COUNT", b"-ERR syntax error at 'COUNT'\r\n"),
        (b"READ t 0 0 WHAT 1", b"-ERR syntax error at 'WHAT'\r\n"),
        (b"READ t 0 TIME", ARITY + b"at least 5; syntax: " + SYNTAX),
        (b"READ t 0 TIME x", b"-BADOPTION time is ms since 1970, or a time such as 2026-12-01T08:00:00Z\r\n"),
        (b"READ t 0", ARITY + b"at least 4; syntax: " + SYNTAX),
        (b"PARTITIONS t", encode([["partition", "0", "earliest", 0, "end", 3, "earliest_at_ms", START_MS]], 2)),
    ],
)
async def test_command_and_reply(line, reply, world, client):
    await fill(world.broker, world.clock)
    assert await client.say(line) == reply


async def test_version_3_has_maps(world, client):
    await fill(world.broker, world.clock)
    await client.say(b"HELLO 3")
    wanted = {"earliest": 0, "end": 3, "missed": 0, "next": 3}
    messages = [[message[0], message[1], dict(zip(*[iter(message[2])] * 2, strict=True))] for message in (A, B, C)]
    assert await client.say(b"READ t 0 0") == encode({**wanted, "messages": messages}, 3)
    assert await client.say(b"PARTITIONS t") == encode(
        [{"partition": "0", "earliest": 0, "end": 3, "earliest_at_ms": START_MS}], 3
    )


async def test_messages_that_are_gone_are_told(world, client):
    await fill(world.broker, world.clock)
    holder = await world.holding(b"t")
    holder.consumer.ack()
    await world.commit()
    assert await client.say(b"READ t 0 0") == page(1, 1, 3, B, C)


async def ask(certificates, *paths):
    async with serving(certificates) as served:
        await fill(served.broker, served.clock)
        return [await served.request("GET", path) for path in paths]


@pytest.mark.parametrize(
    ("options", "following", "numbers"),
    [
        ({}, 3, [0, 1, 2]),
        ({"offset": 1, "count": 1}, 2, [1]),
        ({"offset": 2, "count": 10, "bytes": 1}, 3, [2]),
        ({"offset": 0, "bytes": 1}, 1, [0]),
        ({"offset": 3}, 3, []),
        ({"count": 0}, 0, []),
        ({"time": 0, "count": 1}, 1, [0]),
        ({"time": START_MS + 1}, 3, [1, 2]),
        ({"time": START_MS + 1001}, 3, []),
    ],
)
async def test_a_page_of_a_partition(options, following, numbers, speaker, world):
    await fill(world.broker, world.clock)
    known = [
        {"id": "0-0", "msg": b"a", "published_at_ms": START_MS},
        {"id": "0-1", "msg": b"b", "published_at_ms": START_MS + 1000},
        {"id": "0-2", "msg": b"c", "published_at_ms": START_MS + 1000, "key": "k"},
    ]
    page = {"earliest": 0, "end": 3, "missed": 0, "next": following}
    assert await speaker.read("t", 0, **options) == page | {"messages": [known[number] for number in numbers]}
    assert await speaker.partitions("t") == [{"partition": "0", "earliest": 0, "end": 3, "earliest_at_ms": START_MS}]


async def test_what_is_given_back_since_there_is_too_much_of_it_is_missed(speaker, world):
    await speaker.create("t", retention_bytes=2, retention_drops_unread=True)
    await speaker.publish("t", b"aaa")
    await speaker.publish("t", b"bbb")
    world.broker.tick()
    await settle_down()
    assert (await speaker.read("t", 0, offset=0))["missed"] == 1
    figures = await speaker.figures("t")
    reported = {name: figures[name] for name in ("missed", "dropped", "ready", "retained", "retained_bytes")}
    assert reported == {"missed": 1, "dropped": 1, "ready": 1, "retained": 1, "retained_bytes": 3}
    assert float(figures["retained_seconds"]) == 0.0


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/t/partitions/0?offset=0&time=0", 400),
        ("/topics/t/partitions/0?what=0", 400),
    ],
)
async def test_what_cannot_be_read_is_refused_over_http(certificates, path, status):
    assert [status_seen for status_seen, _ in await ask(certificates, path)] == [status]


async def test_what_is_retained_over_resp(world, client):
    assert await client.say(b"TOPIC CREATE t retention forever") == b"+OK\r\n"
    assert await client.say(b"TOPIC SET t retention_seconds 60") == (
        b"-BADSETTING retention must be consumed where retention_seconds, retention_bytes, or "
        b"retention_messages is set\r\n"
    )
    await fill(world.broker, world.clock)
    await world.drain(b"t")
    await world.commit()
    assert await client.say(b"READ t 0 0") == page(0, 0, 3, A, B, C)
    reported = await client.say(b"STATS t")
    for name, figure in [(b"retained", b":3"), (b"retained_bytes", b":9"), (b"missed", b":0")]:
        assert b"$%d\r\n%b\r\n%b\r\n" % (len(name), name, figure) in reported
    assert await client.say(b"TOPIC SET t retention default retention_seconds 60") == b"+OK\r\n"
    world.clock.advance(59.5)
    world.broker.tick()
    await settle_down()
    assert await client.say(b"READ t 0 0") == page(1, 1, 3, B, C)


@pytest.mark.parametrize("page", [("read", 0), ("peek",), ("search",)], ids=lambda page: page[0])
async def test_bug_a_page_cost_nothing_while_it_was_encoded(page, speaker, world):
    """So many pages could be encoded at the same time that they used more than `-max-memory` together."""
    keys = [Attributes(key=bytes(100)).encode()] * 400
    await world.broker.publish(b"t", [b"x"] * len(keys), keys).commit.wait()
    act, *words = page
    making, charged = asyncio.ensure_future(getattr(speaker, act)("t", *words, count=len(keys))), list[int]()
    while not making.done():
        await asyncio.sleep(0)
        charged.append(world.broker.memory.amounts().get(Purpose.OUTPUT, 0))
    assert len(list(filter(None, charged))) >= sum(map(len, keys)) // BYTES_IN_TURN
