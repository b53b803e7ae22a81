"""A client with much to do does not keep the others waiting: its commands are carried out a turn at a time."""

import asyncio

from miniqueue.server import resp
from miniqueue.server.resp_turns import MAX_COMMANDS_IN_TURN
from tests.fakes import settle_down
from tests.server.test_resp import Client, command, serve

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
