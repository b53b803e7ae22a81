"""RESP clients that do not read, or have much uncommitted: they wait, and nothing is lost."""

import asyncio

import pytest

from miniqueue.server.resp import replies
from tests.fakes import settle_down
from tests.server.resp.clients import command, started_server


async def test_a_peer_that_does_not_read_is_not_read_from(client):
    client.connection.pause_writing()
    assert not client.transport.is_reading()
    client.send(b"PING")
    assert not client.transport.is_reading()
    client.connection.resume_writing()
    assert client.transport.is_reading()


async def test_a_peer_that_has_much_uncommitted_is_not_read_from_until_it_is_committed(monkeypatch):
    monkeypatch.setattr(replies, "MAX_UNCOMMITTED_BYTES", replies.WAITING_BYTES + len(b"+OK\r\n") + 10)

    async with started_server() as (world, _server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"x" * 10)
        assert client.transport.is_reading()
        client.send(b"PUBLISH", b"t", b"x")
        assert not client.transport.is_reading()
        client.connection.resume_writing()
        assert not client.transport.is_reading()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.is_reading()


@pytest.mark.parametrize("words", [(b"MPUBLISH", b"u", b""), (b"PUBLISH", b"u", b""), (b"TOPIC", b"DELETE", b"u")])
async def test_what_waits_without_a_byte_of_payload_is_bounded_too(words, monkeypatch):
    monkeypatch.setattr(replies, "MAX_UNCOMMITTED_BYTES", 10 * replies.WAITING_BYTES)

    async with started_server() as (world, _server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"x")
        await settle_down()
        for _ in range(9):
            assert client.transport.is_reading()
            client.send(*words)
        assert not client.transport.is_reading()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.is_reading()


async def test_replies_wait_for_a_peer_that_does_not_read_and_none_is_lost(world, client):
    for n in range(100):
        await world.publish(b"topic-%03d" % n + b"x" * 200, b"x")
    client.transport.high_water_bytes = 1
    client.connection.data_received(command(b"TOPICS") * 500 + command(b"ECHO", b"last"))
    await settle_down()
    written = client.transport.take()
    assert len(written) < 2 * replies.MAX_UNSENT_BYTES
    assert not client.transport.is_reading()
    client.transport.high_water_bytes = None
    client.connection.resume_writing()
    for _ in range(10):  # each has a turn of its own
        await settle_down()
        written += client.transport.take()
    assert (written.count(b"*100\r\n"), written[-10:]) == (500, b"$4\r\nlast\r\n")
    assert client.transport.is_reading()


async def test_a_peer_that_does_not_read_is_not_sent_the_same_message_over_and_over(world, client):
    await world.publish(b"t", b"x" * 10_000)
    client.transport.high_water_bytes = 50_000
    client.connection.data_received(command(b"SUBSCRIBE", b"t") + command(b"NACK") * 500)
    await settle_down()
    assert len(client.transport.take()) < 70_000
    client.transport.high_water_bytes = None
    client.connection.resume_writing()
    await settle_down()
    assert client.transport.take().endswith(b"+OK\r\n$10000\r\n" + b"x" * 10_000 + b"\r\n")
    assert world.broker.stats()[b"t"].leased == 1
    assert client.transport.is_reading()


async def test_bytes_that_are_no_command_are_refused_only_after_what_was_postponed(client):
    client.transport.high_water_bytes = 1
    client.connection.data_received(command(b"ECHO", b"x" * 10_000) * 200 + b"%1\r\n")
    await settle_down()
    assert b"-ERR" not in client.transport.take()
    client.transport.high_water_bytes = None
    client.connection.resume_writing()
    await settle_down()
    assert client.transport.take().splitlines()[-1].startswith(b"-ERR Protocol error")


async def test_replies_behind_a_commit_are_bounded_too(world, client):
    world.store.may_write = asyncio.Event()
    client.connection.data_received(command(b"PUBLISH", b"t", b"x") + command(b"ECHO", b"x" * 10_000) * 500)
    await settle_down()
    assert (client.transport.take(), client.transport.is_reading()) == (b"", False)
    assert client.connection._replies.unsent_bytes < 2 * replies.MAX_UNSENT_BYTES
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take().count(b"$10000\r\n") == 500
    assert client.transport.is_reading()
