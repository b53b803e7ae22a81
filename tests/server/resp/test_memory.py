"""RESP clients that make the broker keep much: it is charged to them, they are refused, and it is given back."""

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.resp import connection as connections
from tests.fakes import settle_down
from tests.server.resp.clients import command, started_server
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
