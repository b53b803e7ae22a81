"""TOPIC and REDRIVE over RESP."""

import asyncio

from miniqueue.core.settings.settings import DEFAULTS
from tests.fakes import settle_down
from tests.server.resp.clients import Client


async def test_the_settings_of_a_topic_are_told_as_they_can_be_set(client):
    assert await client.say(b"TOPIC CREATE t max_deliveries 5") == b"+OK\r\n"
    assert (await client.say(b"TOPIC CREATE t")).startswith(b"-EXISTS ")
    assert await client.say(b"TOPIC SET t retry_delays 1,2.5 max_deliveries default") == b"+OK\r\n"
    words = (await client.say(b"TOPIC GET t")).split(b"\r\n")[2::2]
    settings = dict(zip(words[::2], words[1::2], strict=False))
    assert {name.decode() for name in settings} == DEFAULTS.keys()
    assert (settings[b"lease_seconds"], settings[b"max_deliveries"], settings[b"retry_delays"]) == (
        b"default",
        b"0",
        b"1,2.5",
    )
    assert await client.say(b"TOPIC SET t " + b" ".join(words)) == b"+OK\r\n"
    await client.say(b"HELLO 3")
    assert (await client.say(b"TOPIC GET t")).startswith(b"%%%d\r\n" % len(DEFAULTS))


async def test_what_follows_a_topic_of_many_partitions_waits_until_it_is_there(world, client):
    for line in (b"TOPIC CREATE t partitions 300", b"PUB t a KEY k", b"TOPIC SET t partitions 600", b"LEN t"):
        client.send(*line.split())
    await settle_down()
    await world.commit()
    await settle_down()
    created, _, _, grown, length = client.transport.take().split(b"\r\n", 4)
    assert (created, grown, length) == (b"+OK", b"+OK", b":1\r\n")
    assert (await client.say(b"TOPIC CREATE t partitions 300")).startswith(b"-EXISTS ")
    assert (await client.say(b"TOPIC SET t partitions 500")).startswith(b"-BADSETTING ")
    assert world.broker._engine.topics.by_name[b"t"].partition_count == 600


async def test_help_has_a_line_for_each_setting(client):
    lines = (await client.say(b"TOPIC HELP")).decode().split("\r\n")
    assert lines[0] == f"*{len(DEFAULTS)}"
    assert [line.partition(":")[0] for line in lines[2::2]] == list(DEFAULTS)
    assert lines[4] == (
        "max_deliveries: after this number of deliveries, a message that would return becomes a dead letter; "
        "a whole number from 0, no limit, to 1000000; default 0"
    )
    assert (await client.say(b"TOPIC HELP t")).startswith(b"-ERR invalid number of args, want: 2; syntax: TOPIC HELP")


async def test_dead_letters_are_moved_back(world, server, client):
    await client.say(b"TOPIC CREATE t max_deliveries 1")
    await client.say(b"PUBLISH t a")
    await client.say(b"SUBSCRIBE t")
    await client.say(b"NACK")
    other = Client(server)
    await world.commit()
    assert (await other.say(b"REDRIVE t.dlq LIMIT 0")).startswith(b"-ERR a limit is a whole number")
    assert (await other.say(b"REDRIVE t.dlq RATE fast")).startswith(b"-ERR a rate is a number")
    assert (await other.say(b"REDRIVE nothing")).startswith(b"-NOTOPIC ")
    assert (await other.say(b"REDRIVE t.dlq TO t.dlq")).startswith(b"-ERR messages cannot be moved to the topic")
    assert (await other.say(b"REDRIVE t.dlq TO a/b")).startswith(b"-BADTOPIC ")
    assert await other.say(b"REDRIVE t.dlq LIMIT 5") == b":1\r\n"
    assert client.transport.take() == b"$1\r\na\r\n"


async def test_dead_letters_are_moved_to_another_topic(world, client):
    await client.say(b"PUBLISH t.dlq a")
    assert await client.say(b"REDRIVE t.dlq TO other LIMIT 5 RATE 10") == b":1\r\n"
    assert await world.drain(b"other") == [b"a"]


async def test_a_redrive_that_is_stopped_tells_what_was_moved_and_what_remains(world, client):
    await client.say(b"TOPIC CREATE t max_messages 1")
    for payload in (b"a", b"b", b"c"):
        await world.publish(b"dead", payload)
    refused = await client.say(b"REDRIVE dead TO t")
    assert refused.startswith(b"-LIMIT the topic holds as many messages as it may (max_messages of the topic)")
    assert refused.endswith(b"; nothing more fits into t; 1 were moved, 2 remain\r\n")
    await client.say(b"HELLO 3")
    report = await client.say(b"REDRIVE dead TO t LIMIT 1 REPORT")
    assert report.startswith(b"%3\r\n$5\r\nmoved\r\n:0\r\n$9\r\nremaining\r\n:2\r\n$5\r\nerror\r\n$")
    assert b"LIMIT the topic holds" in report
    assert (await client.say(b"REDRIVE dead REPORT TO t")).startswith(b"-ERR syntax error")


async def test_a_redrive_reports_what_its_limit_left(world, client):
    for payload in (b"a", b"b", b"c"):
        await world.publish(b"dead", payload)
    await client.say(b"HELLO 3")
    report = await client.say(b"REDRIVE dead TO t LIMIT 1 REPORT")
    assert report == b"%3\r\n$5\r\nmoved\r\n:1\r\n$9\r\nremaining\r\n:2\r\n$5\r\nerror\r\n_\r\n"
    assert await client.say(b"REDRIVE dead TO report") == b":2\r\n"


async def slowly_redriven(monkeypatch, world, client) -> asyncio.Event:
    """Begin to redrive three messages, one in each pause; return what ends a pause."""
    for _ in range(3):
        await client.say(b"PUBLISH dead x")
    is_over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await is_over.wait()

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    assert await client.say(b"REDRIVE dead TO t RATE 1") == b""
    return is_over


async def test_a_redrive_ends_when_its_client_has_left(monkeypatch, world, client):
    is_over = await slowly_redriven(monkeypatch, world, client)
    assert client.transport.is_reading()
    client.transport.lose()
    is_over.set()
    await settle_down()
    assert world.broker.stats()[b"dead"].ready == 2


async def test_who_closes_its_side_while_it_waits_is_told_what_was_moved_by_then(monkeypatch, world, client):
    is_over = await slowly_redriven(monkeypatch, world, client)
    client.connection.eof_received()
    is_over.set()
    await settle_down()
    assert client.transport.take() == b":1\r\n"
    assert world.broker.stats()[b"dead"].ready == 2
