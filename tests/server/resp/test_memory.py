"""RESP clients that make the broker keep much: it is charged to them, they are refused, and it is given back."""

import asyncio

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.resp import connection as connections
from miniqueue.server.resp.connection import MAX_UNREAD_BYTES
from tests.fakes import settle_down
from tests.loops import LeapingLoop, on_loop
from tests.server.resp.clients import Client, command, started_server
from tests.serving import eventually

MIB = 1 << 20
LIMITS = BrokerLimits(max_memory_bytes=160 * MIB)


async def test_replies_that_are_not_read_are_charged_until_they_are():
    async with started_server(limits=LIMITS) as (world, _server, client):
        client.transport.high_water_bytes = 100
        client.send(b"ECHO", b"x" * 5000)
        assert world.broker.memory.amounts()[Purpose.OUTPUT] > 5000
        client.connection.resume_writing()
        assert Purpose.OUTPUT not in world.broker.memory.amounts()


@pytest.mark.parametrize("is_tls", [True, False])
async def test_ten_thousand_connections_have_little_that_is_not_read_and_not_charged(is_tls):
    """Each could keep 64 KiB that counted for no memory limit: together more than `-max-memory` of some brokers."""
    async with started_server(limits=LIMITS) as (world, server, _client):
        client = Client(server, is_tls=is_tls)
        client.transport.high_water_bytes = client.transport.limit_bytes
        client.send(b"ECHO", bytes(MAX_UNREAD_BYTES - 100))
        assert Purpose.OUTPUT not in world.broker.memory.amounts()
        client.send(b"ECHO", bytes(100))
        assert world.broker.memory.amounts()[Purpose.OUTPUT] > MAX_UNREAD_BYTES
    assert 10_000 * MAX_UNREAD_BYTES < 100 * MIB


async def test_a_large_command_is_charged_until_it_is_complete():
    async with started_server(limits=LIMITS, max_message_bytes=MIB) as (world, _server, client):
        data = command(b"PUBLISH", b"t", bytes(MIB - 100))
        client.connection.data_received(data[:200_000])
        assert world.broker.memory.amounts()[Purpose.INPUT] >= 200_000
        client.connection.data_received(data[200_000:])
        await settle_down()
        assert Purpose.INPUT not in world.broker.memory.amounts()
        assert client.transport.take() == b"+OK\r\n"


async def test_a_large_command_for_which_there_is_no_memory_waits_and_is_then_refused(monkeypatch):
    monkeypatch.setattr(connections, "MEMORY_SECONDS", 0.02)
    monkeypatch.setattr(connections, "MEMORY_CHECK_SECONDS", 0.01)

    async with started_server(limits=LIMITS, max_message_bytes=MIB) as (world, server, client):
        world.broker.memory.add(Purpose.COMMITS, 145 * MIB)
        client.connection.data_received(command(b"PUBLISH", b"t", bytes(MIB - 100))[:200_000])
        assert not client.transport.is_reading()
        await settle_down()
        assert client.transport.take() == b""
        await eventually(lambda: server.refusals.counts == {"memory": 1})
        assert client.transport.take().startswith(b"-LIMIT the memory for this broker is used up")


async def test_it_goes_on_when_there_is_memory_again(monkeypatch):
    monkeypatch.setattr(connections, "MEMORY_CHECK_SECONDS", 0.01)

    async with started_server(limits=LIMITS, max_message_bytes=MIB) as (world, _server, client):
        data = command(b"PUBLISH", b"t", bytes(MIB - 100))
        world.broker.memory.add(Purpose.COMMITS, 145 * MIB)
        client.connection.data_received(data[:200_000])
        world.broker.memory.add(Purpose.COMMITS, -145 * MIB)
        await eventually(client.transport.is_reading)
        client.connection.data_received(data[200_000:])
        await settle_down()
        assert client.transport.take() == b"+OK\r\n"


@on_loop(LeapingLoop)
async def test_the_time_in_which_complete_commands_wait_is_not_time_without_memory():
    async with started_server(limits=LIMITS, max_message_bytes=MIB) as (world, server, client):
        world.broker.memory.add(Purpose.COMMITS, 145 * MIB)
        large = command(b"ECHO", bytes(MIB - 100))
        client.connection.data_received(large[:200_000])
        await asyncio.sleep(connections.MEMORY_SECONDS - 1)
        client.transport.high_water_bytes, enough_bytes = 100, client.transport.high_water_bytes
        client.connection.data_received(large[200_000:] + command(b"PING") + large[:200_000])  # it reads no replies yet
        await asyncio.sleep(connections.MEMORY_SECONDS - 1)
        client.transport.high_water_bytes = enough_bytes
        client.connection.resume_writing()
        await asyncio.sleep(connections.MEMORY_SECONDS - 1)
        assert client.transport.take().endswith(b"\r\n+PONG\r\n")
        assert not client.transport.is_reading()
        await asyncio.sleep(2)
        assert server.refusals.counts == {"memory": 1}


async def test_what_needs_memory_is_refused_and_what_frees_it_is_not():
    async with started_server(limits=LIMITS) as (world, _server, client):
        await world.publish_each(b"t", b"a", b"b")
        client.send(b"RECEIVE", b"t")
        receipt = client.transport.take().split(b"\r\n")[3]
        world.broker.memory.add(Purpose.COMMITS, 145 * MIB)
        for line in (b"PUBLISH t x", b"RECEIVE t", b"PEEK t", b"READ t 0 0", b"SUBSCRIBE t", b"TOPIC CREATE u"):
            client.send(*line.split())
            await settle_down()
            assert client.transport.take().startswith(b"-LIMIT "), line
        for line in (b"ACK t %b" % receipt, b"LEN t", b"STATS t", b"INFO", b"PURGE t", b"TOPIC DELETE t"):
            client.send(*line.split())
            await settle_down()
            assert not client.transport.take().startswith(b"-"), line


async def test_a_connection_that_ends_leaves_nothing_behind():
    async with started_server(limits=LIMITS) as (world, _server, client):
        client.transport.high_water_bytes = 100
        client.send(b"ECHO", b"x" * 5000)
        assert world.broker.memory.amounts()
        client.connection.connection_lost(None)
        assert not {Purpose.CONNECTIONS, Purpose.OUTPUT} & world.broker.memory.amounts().keys()
