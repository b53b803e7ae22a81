"""How a RESP connection ends: by mistake, by QUIT, half closed, lost, and when the broker stops."""

from tests.fakes import settle_down
from tests.server.resp_clients import Client, command, serve


def test_a_protocol_error_is_told_in_one_line_behind_the_replies_before_it_and_closes():
    async def body(world, server, client):
        client.connection.data_received(command(b"PUBLISH", b"t", b"a") + b"*1\r\n:5\r\n" + command(b"PING"))
        assert not client.transport.is_closed
        await settle_down()
        assert client.transport.take() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
        assert client.transport.is_lost
        assert server.connections == {}
        client.connection.data_received(command(b"PING"))

    serve(body)


def test_quit_answers_what_was_asked_before_and_nothing_after():
    async def body(world, server, client):
        client.connection.data_received(command(b"PUBLISH", b"t", b"a") + command(b"QUIT") + command(b"PING"))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n+OK\r\n"
        assert client.transport.is_lost

    serve(body)


def test_quit_in_a_stream_returns_the_message():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        assert await client.say(b"QUIT") == b"+OK\r\n"
        assert await world.drain(b"t") == [b"a"]

    serve(body)


def test_a_half_closed_connection_gets_its_replies_and_then_ends():
    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"a")
        assert client.connection.eof_received() is True
        await settle_down()
        assert not client.transport.is_closed
        world.store.may_write.set()
        await settle_down()
        assert client.transport.take() == b"+OK\r\n"
        assert client.transport.is_lost

    serve(body)


def test_a_half_closed_stream_returns_its_message_and_ends():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        client.connection.eof_received()
        assert client.transport.is_closed
        assert await world.drain(b"t") == [b"a"]

    serve(body)


def test_a_lost_connection_with_a_pending_commit_disturbs_nobody():
    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"a")
        client.send(b"TOPIC", b"DELETE", b"u")
        client.transport.lose()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.take() == b""
        assert await Client(server).say(b"PUBLISH t b") == b"+OK\r\n"
        assert await world.drain(b"t") == [b"a", b"b"]

    serve(body)


def test_who_was_told_its_mistake_and_is_gone_before_its_commit_disturbs_nobody():
    async def body(world, server, client):
        world.store.may_write.clear()
        client.connection.data_received(command(b"PUBLISH", b"t", b"a") + b"*x\r\n")
        client.transport.lose()
        world.store.may_write.set()
        await settle_down()
        assert not world.broker.failed.done()
        assert await Client(server).say(b"PUBLISH t b") == b"+OK\r\n"

    serve(body)


def test_draining_returns_every_message_and_closes_when_replies_are_sent():
    async def body(world, server, client):
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

    serve(body)
