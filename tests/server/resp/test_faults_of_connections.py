"""A bug of ours that shows in one connection: that connection ends, the others and the broker do not notice."""

from itertools import count

import structlog

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.server.resp.connection import STEP_COMMANDS
from miniqueue.server.resp.turns import LoopShare
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command, started_server


def fail(*_):
    raise ZeroDivisionError


async def test_a_reply_that_cannot_be_written_ends_its_connection_and_no_other():
    async with started_server() as (world, server, first):
        broken, last = Client(server), Client(server)
        broken.transport.write = fail
        with structlog.testing.capture_logs() as logged:
            for client, payload in ((first, b"a"), (broken, b"b"), (last, b"c")):
                client.send(b"PUBLISH", b"t", payload)
            await settle_down()
        assert (first.transport.take(), broken.transport.take(), last.transport.take()) == (b"+OK\r\n", b"", b"+OK\r\n")
        assert list(server.connections.values()) == [first.connection, last.connection]
        assert broken.transport.is_lost
        (entry,) = logged
        assert (entry["event"], entry["log_level"], entry["exc_info"]) == ("a RESP connection failed", "error", True)
        assert await last.say(b"PUBLISH t d") == b"+OK\r\n"
        assert await world.drain(b"t") == [b"a", b"b", b"c", b"d"]


async def test_nothing_is_answered_behind_a_reply_that_could_not_be_written(client):
    client.send(b"PUBLISH", b"t", b"a")
    client.send(b"PUBLISH", b"u", b"b")
    write, client.transport.write = client.transport.write, fail
    client.transport.abort = lambda: None
    await settle_down()
    client.transport.write = write
    client.connection._replies.flush()
    client.connection.data_received(command(b"PING"))
    assert client.transport.take() == b""


async def test_who_waits_for_room_and_breaks_keeps_nobody_else_waiting():
    async with started_server(limits=BrokerLimits(max_uncommitted_bytes=10)) as (world, server, first):
        broken, last = Client(server), Client(server)
        world.store.may_write.clear()
        broken.connection._publish = fail
        for client, payload in ((first, b"x" * 11), (broken, b"b"), (last, b"c")):
            client.send(b"PUBLISH", b"t", payload)
        with structlog.testing.capture_logs() as logged:
            world.store.may_write.set()
            await settle_down()
        assert (first.transport.take(), last.transport.take()) == (b"+OK\r\n", b"+OK\r\n")
        assert broken.transport.is_lost
        assert [entry["event"] for entry in logged] == ["a RESP connection failed"]


async def test_a_command_that_fails_in_a_later_turn_ends_its_connection_and_no_other(monkeypatch):
    """Else the commands behind it would have the replies of those that were dropped."""
    monkeypatch.setitem(COMMANDS, b"ECHO", COMMANDS[b"ECHO"]._replace(run=fail))

    async with started_server() as (_world, server, broken):
        server.shared.turns = LoopShare(clock=count().__next__)  # each turn is over after a step
        last = Client(server)
        pings = command(b"PING") * (STEP_COMMANDS + 1)
        broken.connection.data_received(pings + command(b"ECHO", b"a") + command(b"PING"))
        last.connection.data_received(pings)
        with structlog.testing.capture_logs() as logged:
            await settle_down()
        assert last.transport.take() == b"+PONG\r\n" * (STEP_COMMANDS + 1)
        assert broken.transport.is_lost
        assert list(server.connections.values()) == [last.connection]
        assert [entry["event"] for entry in logged] == ["a RESP connection failed"]
