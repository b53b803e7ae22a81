"""MULTI over RESP: nothing of a transaction is carried out, and each command has one reply."""

import pytest

from miniqueue.server.resp.server import RespServer
from tests.fakes import settle_down
from tests.server.access import sign_in_for, token_of
from tests.server.resp.clients import Client, command

REFUSED = b"-ERR transactions are not supported: "
ABORTED = b"-EXECABORT Transactions are not supported: "


async def exchange(client: Client, *commands: bytes) -> list[bytes]:
    """Send commands in one piece; return the lines of what comes back."""
    client.connection.data_received(b"".join(command(*line.split()) for line in commands))
    await settle_down()
    return client.transport.take().split(b"\r\n")[:-1]


def beginnings(lines: list[bytes]) -> list[bytes]:
    return [line[: len(ABORTED)] if line.startswith(ABORTED) else line[: len(REFUSED)] for line in lines]


@pytest.mark.parametrize(
    "commands",
    [
        [b"PUBLISH t a"],
        [b"PUBLISH t a", b"PUBLISH t b", b"publish t c"],  # a run, as the reader finds it
        [b"PUB t a UNIQUE k", b"PUB t b UNIQUE l", b"MPUBLISH t c d"],
        [b"TOPIC CREATE t", b"SCHEDULE SET s EVERY 1 t x", b"PUBBATCH t id a", b"REQUEST t x"],
        [b"SUBSCRIBE t", b"PING", b"NOSUCH", b"AUTH a b", b"HELLO 3", b"WATCH t", b"UNWATCH"],
        [],
    ],
)
async def test_nothing_between_multi_and_exec_is_carried_out(commands, world, client):
    lines = await exchange(client, b"MULTI", *commands, b"EXEC", b"PING")
    assert beginnings(lines) == [b"+OK", *[REFUSED] * len(commands), ABORTED, b"+PONG"]
    assert world.broker.topics() == []
    assert await client.say(b"SCHEDULE LIST") == b"*0\r\n"


async def test_a_transaction_may_arrive_in_any_pieces(world, client):
    sent = b"".join(command(*line.split()) for line in (b"MULTI", b"PUBLISH t a", b"PUBLISH t b", b"EXEC", b"PING"))
    for byte in sent:
        client.connection.data_received(bytes([byte]))
    await settle_down()
    lines = client.transport.take().split(b"\r\n")[:-1]
    assert beginnings(lines) == [b"+OK", REFUSED, REFUSED, ABORTED, b"+PONG"]
    assert world.broker.topics() == []


@pytest.mark.parametrize(("leave", "reply"), [(b"DISCARD", b"+OK"), (b"RESET", b"+RESET"), (b"EXEC", ABORTED)])
async def test_what_leaves_a_transaction_lets_the_next_command_pass(leave, reply, world, client):
    lines = await exchange(client, b"MULTI", b"PUBLISH t a", leave, b"PUBLISH t b")
    assert beginnings(lines) == [b"+OK", REFUSED, reply, b"+OK"]
    assert await world.drain(b"t") == [b"b"]


async def test_the_next_client_of_a_server_is_not_in_the_transaction_of_one_that_left(server, client):
    await exchange(client, b"MULTI")
    client.connection.connection_lost(None)
    assert await Client(server).say(b"PUBLISH t a") == b"+OK\r\n"


async def test_quit_in_a_transaction_closes(world, server, client):
    assert await exchange(client, b"MULTI", b"PUBLISH t a", b"QUIT") == [
        b"+OK",
        *(await exchange(Client(server), b"MULTI", b"PUBLISH t a"))[1:],
        b"+OK",
    ]
    assert client.transport.is_closed
    assert world.broker.topics() == []


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"EXEC", b"-ERR EXEC without MULTI\r\n"),
        (b"discard", b"-ERR DISCARD without MULTI\r\n"),
        (b"MULTI x", b"-ERR invalid number of args, want: 1; syntax: "),
        (b"WATCH t", b"-ERR WATCH is not supported"),
        (b"UNWATCH", b"+OK\r\n"),
    ],
)
async def test_reply_outside_of_a_transaction(line, reply, client):
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"


async def test_a_second_multi_does_not_need_a_second_exec(client):
    lines = await exchange(client, b"MULTI", b"MULTI", b"EXEC x", b"EXEC", b"PING")
    assert lines[1:3] == [
        b"-ERR MULTI calls can not be nested",
        b"-ERR invalid number of args, want: 1; syntax: EXEC",
    ]
    assert beginnings(lines[3:]) == [ABORTED, b"+PONG"]


async def test_a_transaction_in_a_stream_settles_nothing_and_the_stream_goes_on(world, server, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUBSCRIBE t")
    lines = await exchange(client, b"MULTI", b"ACK", b"EXEC", b"NACK")
    assert beginnings(lines) == [b"+OK", REFUSED, ABORTED, b"+OK", b"$1", b"a"]
    assert await exchange(client, b"MULTI", b"ACK", b"RESET", b"LEN t") == [
        b"+OK",
        *(await exchange(Client(server), b"MULTI", b"ACK"))[1:],
        b"+RESET",
        b":2",
    ]


async def test_a_client_that_closes_in_a_transaction_has_published_nothing(world, client):
    await exchange(client, b"MULTI", b"PUBLISH t a")
    client.connection.eof_received()
    await settle_down()
    assert client.transport.is_closed
    assert world.broker.topics() == []


async def test_an_inline_multi_ends_the_connection_before_what_follows(world, client):
    client.connection.data_received(b"MULTI\r\nPUB t a\r\nEXEC\r\n")
    await settle_down()
    assert client.transport.take().startswith(b"-ERR Protocol error: only ")
    assert client.transport.is_closed
    assert world.broker.topics() == []


async def test_inline_words_in_a_transaction_are_refused(world, client):
    await exchange(client, b"MULTI")
    client.connection.data_received(b"PUB t a\r\nGET t\r\n")
    await settle_down()
    assert beginnings(client.transport.take().split(b"\r\n")[:-1]) == [REFUSED, REFUSED]
    assert world.broker.topics() == []


@pytest.mark.usefixtures("client")
async def test_a_client_that_authenticates_in_a_transaction_publishes_nothing(world):
    client = Client(RespServer(world.broker, {}, sign_in_for()))
    auth = b"AUTH %b" % token_of("publisher-of-all")
    lines = await exchange(client, b"MULTI", auth, b"PUBLISH t a", b"EXEC", b"PUBLISH t b")
    assert beginnings(lines) == [b"+OK", REFUSED, REFUSED, ABORTED, b"-NOAUTH Authentication required."]
    assert world.broker.topics() == []
