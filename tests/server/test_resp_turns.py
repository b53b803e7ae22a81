"""A client with much to do does not keep the others waiting: its commands are carried out a turn at a time."""

import asyncio

import pytest

from miniqueue.server import resp
from miniqueue.server.resp_commands import COMMANDS
from miniqueue.server.resp_turns import MAX_COMMANDS_IN_TURN, MIN_SHARE, Turns
from tests.fakes import settle_down
from tests.server.resp_clients import Client, command, serve
from tests.server.resp_victim import resp_victim

PONG = b"+PONG\r\n"


def test_more_commands_than_a_turn_has_leave_room_for_others():
    async def body(_world, server, client):
        other = Client(server)
        client.connection.data_received(command(b"PING") * (3 * MAX_COMMANDS_IN_TURN))
        assert client.transport.take() == PONG * MAX_COMMANDS_IN_TURN
        assert not client.transport.is_reading()
        other.send(b"PING")
        assert other.transport.take() == PONG
        await settle_down()
        assert client.transport.take() == PONG * (2 * MAX_COMMANDS_IN_TURN)
        assert client.transport.is_reading()

    serve(body)


def test_each_turn_is_one_however_it_came_about():
    """Else turns would make more turns."""

    async def body(_world, _server, client):
        client.connection.data_received(command(b"PING") * (8 * MAX_COMMANDS_IN_TURN))
        for _ in range(7):
            client.transport.take()
            await asyncio.sleep(0)
            assert client.transport.written == PONG * MAX_COMMANDS_IN_TURN

    serve(body)


def test_a_run_of_publishes_is_one_command():
    async def body(_world, _server, client):
        count = 4 * MAX_COMMANDS_IN_TURN
        client.connection.data_received(command(b"PUBLISH", b"t", b"x") * count)
        assert client.transport.is_reading()
        await settle_down()
        assert client.transport.take() == b"+OK\r\n" * count

    serve(body)


def test_a_read_that_is_full_is_the_last_of_its_turn():
    async def body(_world, _server, client):
        begun = command(b"ECHO", bytes(2 * resp.FULL_READ_BYTES))
        client.connection.data_received(begun[: resp.FULL_READ_BYTES])
        assert not client.transport.is_reading()
        await settle_down()
        assert client.transport.is_reading()

    serve(body)


def test_who_leaves_between_turns_leaves_nothing_behind():
    async def body(_world, server, client):
        client.connection.data_received(command(b"PING") * (3 * MAX_COMMANDS_IN_TURN))
        client.transport.lose()
        await settle_down()
        assert client.transport.take() == PONG * MAX_COMMANDS_IN_TURN
        assert not server.connections

    serve(body)


def test_the_order_of_replies_is_kept_when_more_arrives_between_turns():
    async def body(_world, _server, client):
        words = [b"%d" % number for number in range(2 * MAX_COMMANDS_IN_TURN)]
        for word in words:
            client.connection.data_received(command(b"ECHO", word))
        client.connection.data_received(b"".join(command(b"ECHO", word) for word in words))
        client.connection.data_received(command(b"ECHO", b"last"))
        await settle_down()
        said = client.transport.take().split(b"\r\n")[1::2]
        assert said == [*words, *words, b"last"]

    serve(body)


def test_what_is_left_of_a_turn_is_carried_out_when_the_client_ends():
    """Over TLS the last bytes and the goodbye can come in one turn."""

    async def body(world, _server, client):
        reads = (command(b"PUBLISH", b"a", b"x") + command(b"PUBLISH", b"b", b"x")) * MAX_COMMANDS_IN_TURN
        client.connection.data_received(reads)
        client.connection.eof_received()
        await settle_down()
        published = {name: stats.published for name, stats in world.broker.stats().items()}
        assert published == {b"a": MAX_COMMANDS_IN_TURN, b"b": MAX_COMMANDS_IN_TURN}
        assert client.transport.take() == b"+OK\r\n" * (2 * MAX_COMMANDS_IN_TURN)

    serve(body)


# --- among connections -------------------------------------------------------------------------------------------


def taken(clients):
    """How many PINGs each has been answered since the last look."""
    return [client.transport.take().count(PONG) for client in clients]


def test_a_turn_is_shared_by_all_who_have_much():
    async def body(_world, server, client):
        flooding = [client, *(Client(server) for _ in range(19))]
        for each in flooding:
            each.connection.data_received(command(b"PING") * 600)
        assert sum(taken(flooding)) == MAX_COMMANDS_IN_TURN
        left = 20 * 600 - MAX_COMMANDS_IN_TURN
        while left:
            innocent = Client(server)
            innocent.send(b"PING")
            assert innocent.transport.take() == PONG
            await asyncio.sleep(0)
            answered = sum(taken(flooding))
            assert 0 < answered <= MAX_COMMANDS_IN_TURN
            left -= answered

    serve(body)


@pytest.mark.parametrize("most", [1, 20, 1000])
def test_how_many_a_turn_carries_out_can_be_set(most):
    carried_out = []

    def go_on(room):
        carried_out.append(room)
        turns.queue(go_on)

    async def body():
        for _ in range(8):
            turns.queue(go_on)
        for _ in range(6):
            carried_out.clear()
            await asyncio.sleep(0)
            assert 0 < sum(carried_out) <= most

    turns = Turns(most)
    asyncio.run(body())


def test_who_has_much_is_served_round_robin():
    async def body(_world, server, client):
        flooding = [client, *(Client(server) for _ in range(7))]
        for each in flooding:
            each.connection.data_received(command(b"PING") * 1024)
        taken(flooding)
        for _ in range(3):
            await asyncio.sleep(0)
            first = taken(flooding)
            await asyncio.sleep(0)
            second = taken(flooding)
            assert sorted([*first, *second]) == [0] * 8 + [MIN_SHARE] * 8
            assert [a + b for a, b in zip(first, second, strict=True)] == [MIN_SHARE] * 8

    serve(body)


@pytest.mark.parametrize(
    "said",
    [b"PING\r\n", command(b"PING"), b"\n\nPING\r\n", command(b"PING", b"*1000") + command(b"PING") * 9],
    ids=["inline", "arrays", "with empty lines", "for the strict parser"],
)
def test_what_is_read_in_a_turn_is_bounded_however_it_is_said(said):
    async def body(_world, _server, client):
        connection = client.connection
        connection.data_received((said * (resp.FULL_READ_BYTES // len(said) + 1))[: resp.FULL_READ_BYTES])
        most = resp.MAX_READ_BYTES // len(command(b"PING"))
        while not client.transport.is_reading():
            assert len(connection._postponed) <= most
            assert client.transport.take().count(b"\r\n") <= 2 * MAX_COMMANDS_IN_TURN
            await asyncio.sleep(0)

    serve(body)


def test_long_replies_end_a_turn():
    async def body(_world, _server, client):
        client.connection.data_received(command(b"COMMAND", b"DOCS") * 500)
        for _ in range(10):
            assert len(client.transport.take()) <= resp.MAX_REPLIES_BYTES + 8192
            await asyncio.sleep(0)

    serve(body)


@pytest.mark.slow
@pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])
def test_a_million_commands_are_answered_and_others_in_between(certificates, monkeypatch, is_tls):
    """Whoever sends one command beside them has its answer when a few turns' worth of the flood has been answered."""
    carried_out = 0

    def echo(_connection, words):
        nonlocal carried_out
        carried_out += 1
        return PONG

    monkeypatch.setitem(COMMANDS, b"ECHO", COMMANDS[b"ECHO"]._replace(run=echo))

    async def scenario():
        async with resp_victim(certificates, is_tls=is_tls) as victim:
            flooding, innocent = await victim.peer(), await victim.peer()
            reading = asyncio.create_task(flooding.reader.readexactly(1_000_000 * len(PONG)))
            sending = asyncio.create_task(flooding.say(command(b"ECHO", b"") * 1_000_000))
            ahead = []
            while not reading.done():
                before = carried_out
                await innocent.say(command(b"PING"))
                assert await innocent.until(b"\r\n") == PONG
                ahead.append(carried_out - before)
            await sending
            return ahead

    ahead = asyncio.run(scenario())
    assert carried_out == 1_000_000
    assert len(ahead) > 200
    assert max(ahead) <= 16 * MAX_COMMANDS_IN_TURN


@pytest.mark.slow
def test_a_half_closed_connection_gets_every_reply(certificates):
    async def scenario():
        async with resp_victim(certificates, is_tls=False) as victim:
            peer = await victim.peer()
            sending = asyncio.create_task(peer.say(b"PING\r\n" * 50_000))
            sending.add_done_callback(lambda _: peer.writer.write_eof())
            return await peer.until_over()

    assert asyncio.run(scenario()) == PONG * 50_000
