"""How a RESP connection ends: by mistake, by QUIT, half closed, lost, and when the broker stops."""

import asyncio
from contextlib import suppress

import pytest

from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.connection import MAX_KEPT_BYTES, MAX_LAST_COMMANDS
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command


async def test_a_protocol_error_is_told_in_one_line_behind_the_replies_before_it_and_closes(server, client):
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") + b"*1\r\n:5\r\n" + command(b"PING"))
    assert not client.transport.is_closed
    await settle_down()
    assert client.transport.take() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    assert client.transport.is_lost
    assert server.connections == {}
    client.connection.data_received(command(b"PING"))


async def test_quit_answers_what_was_asked_before_and_nothing_after(client):
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") + command(b"QUIT") + command(b"PING"))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n+OK\r\n"
    assert client.transport.is_lost


async def test_quit_in_a_stream_returns_the_message(world, client):
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    assert await client.say(b"QUIT") == b"+OK\r\n"
    assert await world.drain(b"t") == [b"a"]


async def test_a_half_closed_connection_gets_its_replies_and_then_ends(world, client):
    world.store.may_write.clear()
    client.send(b"PUBLISH", b"t", b"a")
    assert client.connection.eof_received() is True
    await settle_down()
    assert not client.transport.is_closed
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == b"+OK\r\n"
    assert client.transport.is_lost


async def test_a_half_closed_stream_returns_its_message_and_ends(world, client):
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    client.connection.eof_received()
    assert client.transport.is_closed
    assert await world.drain(b"t") == [b"a"]


async def test_a_lost_connection_with_a_pending_commit_disturbs_nobody(world, server, client):
    world.store.may_write.clear()
    client.send(b"PUBLISH", b"t", b"a")
    client.send(b"TOPIC", b"DELETE", b"u")
    client.transport.lose()
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == b""
    assert await Client(server).say(b"PUBLISH t b") == b"+OK\r\n"
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_who_was_told_its_mistake_and_is_gone_before_its_commit_disturbs_nobody(world, server, client):
    world.store.may_write.clear()
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") + b"*x\r\n")
    client.transport.lose()
    world.store.may_write.set()
    await settle_down()
    assert not world.broker.failed.done()
    assert await Client(server).say(b"PUBLISH t b") == b"+OK\r\n"


async def test_draining_returns_every_message_and_closes_when_replies_are_sent(world, server, client):
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    publisher = Client(server)
    world.store.may_write.clear()
    publisher.send(b"PUBLISH", b"u", b"x")
    server.drain()
    assert (client.transport.is_closed, publisher.transport.is_closed) == (True, False)
    assert world.broker.stats()[b"t"].leased == 0
    world.store.may_write.set()
    await settle_down()
    assert publisher.transport.take() == b"+OK\r\n"
    assert server.connections == {}


SENT = command(b"PUBLISH", b"q", b"a") + command(b"LEN", b"q") + command(b"PUBLISH", b"q", b"b")


def leave_tls(client: Client) -> None:
    assert not client.connection.eof_received()
    client.transport.lose()  # TLS closes by itself


def leave_half_closed(client: Client) -> None:
    assert client.connection.eof_received()
    client.transport.lose()  # a reset answers the first reply


LEAVING = {"TLS": leave_tls, "closed": leave_half_closed, "reset": lambda client: client.transport.lose()}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize(
    "held", [b"LEN q", b"STATS", b"GET q", b"RECEIVE q AUTOACK", b"GROUP LIST q", b"PUB q u UNIQUE k"]
)
async def test_commands_after_one_that_waits_are_carried_out_when_the_client_leaves(held, leave, world, server):
    client = Client(server, is_tls=leave is leave_tls)
    world.store.may_write.clear()
    sent = command(b"PUBLISH", b"q", b"a") + command(*held.split()) + command(b"PUBLISH", b"q", b"b")
    client.connection.data_received(sent)
    leave(client)
    world.store.may_write.set()
    await settle_down()
    assert await world.drain(b"q") == [b"a", *([b"u"] if b"UNIQUE" in held else []), b"b"]
    assert server.connections == {}
    assert client.transport.is_lost


async def test_quit_over_tls_closes_once_and_the_end_of_the_client_asks_nothing_of_the_transport(server):
    """A second `close` takes asyncio's TLS transport apart, and nothing can be asked of it any more."""
    client = Client(server, is_tls=True)
    transport, closes = client.transport, []
    close = transport.close
    transport.close = lambda: (closes.append(1), close())
    client.connection.data_received(command(b"PING") + command(b"QUIT") + command(b"PING"))
    del transport.extra
    assert not client.connection.eof_received()
    await settle_down()
    assert transport.take() == b"+PONG\r\n+OK\r\n"
    assert closes == [1]
    assert transport.is_lost


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
async def test_a_purge_of_a_client_that_leaves_still_comes_after_its_publishes(leave, world, server):
    client = Client(server, is_tls=leave is leave_tls)
    world.store.may_write.clear()
    sent = [(b"PUBLISH", b"q", b"a"), (b"PURGE", b"q"), (b"PUBLISH", b"q", b"b")]
    client.connection.data_received(b"".join(command(*words) for words in sent))
    leave(client)
    world.store.may_write.set()
    await settle_down()
    assert await world.drain(b"q") == [b"b"]
    assert server.connections == {}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
async def test_an_ack_after_a_command_that_waits_counts_when_the_client_leaves(leave, world, server):
    client = Client(server, is_tls=leave is leave_tls)
    await world.publish(b"q", b"a")
    receipt = (await client.say(b"RECEIVE q LEASE 60")).split(b"\r\n")[3]
    world.store.may_write.clear()
    sent = [(b"PUBLISH", b"u", b"x"), (b"LEN", b"u"), (b"ACK", b"q", receipt), (b"GET", b"u"), (b"ACK", b"u")]
    sent += [(b"SUBSCRIBE", b"u"), (b"ACK",)]
    client.connection.data_received(b"".join(command(*words) for words in sent))
    leave(client)
    world.store.may_write.set()
    await settle_down()
    assert await world.drain(b"q") == []
    assert await world.drain(b"u") == [b"x"]  # a client that has left gets none, so it acknowledges none
    assert server.commands_processed == 8


async def test_much_that_a_client_sent_before_its_tls_ended_is_carried_out(world, server):
    client = Client(server, is_tls=True)
    count = MAX_LAST_COMMANDS + 100
    client.connection.data_received((command(b"PUBLISH", b"a", b"x") + command(b"PUBLISH", b"b", b"x")) * count)
    leave_tls(client)
    while server.connections:
        await settle_down()
    assert {name: stats.published for name, stats in world.broker.stats().items()} == {b"a": count, b"b": count}


async def test_commands_of_a_client_that_has_left_are_not_begun_when_the_broker_drains(world, server):
    client = Client(server, is_tls=True)
    world.store.may_write.clear()
    client.connection.data_received(SENT)
    leave_tls(client)
    server.drain()
    world.store.may_write.set()
    await settle_down()
    assert server.connections == {}
    assert await world.drain(b"q") == [b"a"]


async def test_a_held_connection_is_read_from_up_to_a_bound(world, client):
    world.store.may_write.clear()
    client.connection.data_received(command(b"PUBLISH", b"q", b"a") + command(b"LEN", b"q"))
    assert client.transport.is_reading()
    ping = command(b"PING")
    count = MAX_KEPT_BYTES // len(ping)
    client.connection.data_received(ping * count)
    assert client.transport.is_reading()
    client.connection.data_received(ping)
    assert not client.transport.is_reading()
    world.store.may_write.set()
    while not client.transport.is_reading():
        await settle_down()
    assert client.transport.take() == b"+OK\r\n:1\r\n" + b"+PONG\r\n" * (count + 1)


async def stop(world, server) -> "asyncio.Task[None]":
    """Begin to stop, as on SIGTERM, while a commit is under way."""
    server.drain()
    stopping = asyncio.create_task(world.broker.stop())
    await settle_down()
    assert not stopping.done()
    return stopping


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PUBLISH q b", b"+OK\r\n"),
        (b"MPUBLISH q b", b"*1\r\n$3\r\n0-1\r\n"),
        (b"PUB q b UNIQUE k", b"*2\r\n$3\r\n0-1\r\n:0\r\n"),
        (b"LEN q", b"-DRAINING "),
        (b"TOPIC CREATE u", b"+OK\r\n"),
        (b"PURGE q", b"-DRAINING "),
    ],
)
async def test_a_command_that_waits_for_a_commit_is_answered_when_the_broker_stops(line, reply, world, server, client):
    world.store.may_write.clear()
    client.send(b"PUBLISH", b"q", b"a")
    await settle_down()
    client.send(*line.split())
    client.send(b"PUBLISH", b"q", b"c")
    await settle_down()
    stopping = await stop(world, server)
    world.store.may_write.set()
    await stopping
    await settle_down()
    taken = client.transport.take()
    assert taken.startswith(b"+OK\r\n" + reply)
    assert client.transport.is_lost
    assert server.connections == {}


@pytest.mark.parametrize("line", [b"PUBLISH q b", b"MPUBLISH q b", b"PUB q b UNIQUE k", b"TOPIC CREATE u"])
async def test_a_publisher_hears_when_the_last_commit_of_a_stop_fails(line, world, server, client):
    world.store.may_write.clear()
    client.send(*line.split())
    await settle_down()
    world.store.fail_writes = {world.store.write_count}
    stopping = await stop(world, server)
    world.store.may_write.set()
    with suppress(MiniqueueError):
        await stopping
    await settle_down()
    assert client.transport.take().startswith(b"-UNKNOWN ")
    assert client.transport.is_lost
