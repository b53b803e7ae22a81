"""LEN, STATS and PEEK over RESP."""

import asyncio

import pytest

from miniqueue.server.resp.commands import logs
from miniqueue.server.views import messages
from tests.fakes import START_MS, settle_down
from tests.server.resp.clients import Client


async def fill(world):
    """Leave one message ready, one leased, one delayed; one was acknowledged."""
    await world.publish(b"t", b"a", b"b", b"c", b"d")
    holders = [await world.holding(b"t") for _ in range(3)]
    holders[0].consumer.ack()
    holders[1].consumer.dack(60)


def message(message_id, payload, *words, is_map=False):
    parts = [part if isinstance(part, bytes) else b":%d\r\n" % part for part in map(bulk_of, words)]
    opening = b"%%%d\r\n" % (len(words) // 2) if is_map else b"*%d\r\n" % len(words)
    return b"*3\r\n" + bulk_of(message_id) + bulk_of(payload) + opening + b"".join(parts)


def bulk_of(word):
    return b"$%d\r\n%b\r\n" % (len(word), word) if isinstance(word, bytes) else word


def times(published_at_ms=START_MS):
    return (b"published_at_ms", published_at_ms)


READY = message(b"0-3", b"d", b"state", b"ready", *times(), b"deliveries", 0)
LEASED = message(b"0-2", b"c", b"state", b"leased", *times(), b"deliveries", 1)
DELAYED = message(
    *(b"0-1", b"b", b"state", b"delayed", *times()),
    *(b"due_at_ms", START_MS + 60_000, b"deliveries", 1, b"dacks", 1),
)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"LEN t", b":3\r\n"),
        (b"LEN other", b":0\r\n"),
        (b"PEEK t", b"*1\r\n" + READY),
        (b"peek t state READY count 5", b"*1\r\n" + READY),
        (b"PEEK t STATE leased", b"*1\r\n" + LEASED),
        (b"PEEK t STATE delayed", b"*1\r\n" + DELAYED),
        (b"PEEK t STATE leased AFTER 0-2", b"*0\r\n"),
        (b"PEEK t ID 0-3", READY),
        (b"PEEK t ID 0-2", LEASED),
        (b"PEEK t ID 0-1", DELAYED),
        (b"PEEK t ID 0-0", b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n"),
        (b"LEN " + b"x" * 256, None),
        (b"PEEK t STATE dead", b"*0\r\n"),
        (b"PURGE t STATE dead", b"-BADOPTION dead messages cannot be purged\r\n"),
        (
            b"PEEK t AFTER 17",
            b"-BADOPTION the id of a message is its partition and its number, as in 0-17 or 0.high-17\r\n",
        ),
        (b"PEEK t COUNT", b"-ERR syntax error at 'COUNT'\r\n"),
        (b"PEEK t WHAT 1", b"-ERR syntax error at 'WHAT'\r\n"),
        (b"PEEK t COUNT 1 COUNT 1", b"-ERR syntax error at 'COUNT'\r\n"),
        (b"PEEK t ID 0-1 COUNT 1", b"-ERR invalid PEEK; ID can be combined with GROUP only\r\n"),
        (b"PURGE t STATE delayed", b":1\r\n"),
        (b"PURGE t", b":2\r\n"),
        (b"PURGE t OLDER 0 STATE ready", b":1\r\n"),
        (b"PURGE t OLDER 1", b":0\r\n"),
        (b"STATS t t", b"-ERR invalid number of args, want: 2; syntax: STATS [topic [GROUP g]]\r\n"),
    ],
)
async def test_command_and_reply(line, reply, world, client):
    await fill(world)
    said = await client.say(line)
    assert said == reply if reply is not None else said.startswith(b"-BADTOPIC")


async def test_in_version_3_figures_and_attributes_are_maps(world, client):
    await fill(world)
    await client.say(b"HELLO 3")
    assert await client.say(b"PEEK t ID 0-3") == message(
        *(b"0-3", b"d", b"state", b"ready", *times(), b"deliveries", 0), is_map=True
    )
    figures = await client.say(b"STATS t")
    assert figures.startswith(b"%39\r\n$5\r\ndepth\r\n:3\r\n$5\r\nready\r\n:1\r\n")
    assert b"$14\r\noldest_seconds\r\n,0.0\r\n" in figures


async def test_totals_are_told_without_a_topic(world, client):
    await fill(world)
    await world.publish(b"u", b"x")
    totals = await client.say(b"STATS")
    assert b"$6\r\ntopics\r\n:2\r\n$5\r\ndepth\r\n:4\r\n" in totals


async def test_replies_keep_their_order_while_the_store_is_read(world, client):
    await fill(world)
    world.store.may_scan.clear()
    client.send(b"PUBLISH", b"t", b"x")
    client.send(b"PEEK", b"t", b"COUNT", b"1")
    client.send(b"LEN", b"t")
    client.send(b"PING")
    await settle_down()
    assert client.transport.take() == b"+OK\r\n"
    world.store.may_scan.set()
    await settle_down()
    assert client.transport.take() == b"*1\r\n" + READY + b":4\r\n+PONG\r\n"


async def test_a_client_that_leaves_while_the_store_is_read_harms_nobody(world, client):
    await fill(world)
    world.store.may_scan.clear()
    client.send(b"PEEK", b"t")
    await settle_down()
    client.transport.lose()
    world.store.may_scan.set()
    await settle_down()
    assert client.connection.tasks == set()


async def test_a_command_that_fails_by_a_bug_is_answered_and_the_connection_goes_on(monkeypatch, world, client):
    async def fail(*_arguments):
        raise RuntimeError("a bug")

    monkeypatch.setattr(world.broker.inspect, "peek", fail)
    assert await client.say(b"PEEK t") == b"-ERR internal error; see the broker's log\r\n"
    assert await client.say(b"PING") == b"+PONG\r\n"


@pytest.mark.parametrize("line", [b"PEEK t COUNT 200", b"SEARCH t COUNT 200", b"PARTITIONS t"])
async def test_a_long_reply_is_complete_whatever_becomes_of_its_topic(monkeypatch, world, server, client, line):
    monkeypatch.setattr(logs, "PARTITIONS_IN_TURN", 1)
    monkeypatch.setattr(messages, "BYTES_IN_TURN", 1)
    await world.broker.admin.create(b"t", {"partitions": 8}).wait()
    await world.publish(b"t", *[b"x"] * 40)
    name = "each" if line.startswith(b"PARTITIONS") else "finish"
    expected, work, begun = await client.say(line), getattr(world.broker.share, name), asyncio.Event()

    async def noted(*args):
        begun.set()
        return await work(*args)

    monkeypatch.setattr(world.broker.share, name, noted)
    gone = Client(server)
    for one in (client, gone):
        one.send(*line.split())
    await begun.wait()
    await world.broker.delete_topic(b"t")
    gone.transport.lose()
    await settle_down()
    assert client.transport.take() == expected
    assert await client.say(b"PING") == b"+PONG\r\n"
