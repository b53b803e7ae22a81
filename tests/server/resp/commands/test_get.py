"""GET over RESP, and the words that people type: one message of a topic, held by the connection that took it."""

import pytest

from miniqueue.server.resp.connection import MAX_KEPT_BYTES
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command

OK = b"+OK\r\n"
NOTHING = b"$-1\r\n"


async def type_line(client, line: bytes) -> bytes:
    client.connection.data_received(line + b"\r\n")
    await settle_down()
    return client.transport.take()


async def test_a_message_is_typed_taken_and_settled(world, client):
    assert await type_line(client, b'PUB t "Dear Ada"') == b"$3\r\n0-0\r\n"
    assert await type_line(client, b"get t") == b"$8\r\nDear Ada\r\n"
    assert world.broker.stats()[b"t"].leased == 1
    assert await type_line(client, b"ACK t") == OK
    assert await type_line(client, b"ACK t") == b"-NOLEASE No message is outstanding\r\n"
    assert await type_line(client, b"GET t") == NOTHING
    assert world.broker.stats()[b"t"].acknowledged == 1


async def test_a_stream_is_typed(world, client):
    await world.publish(b"t", b"a", b"b")
    assert await type_line(client, b"SUB t") == b"$1\r\na\r\n"
    assert await type_line(client, b"NACK") == OK + b"$1\r\na\r\n"
    assert await type_line(client, b"ACK") == OK + b"$1\r\nb\r\n"
    assert await type_line(client, b"DACK 60") == OK
    assert await type_line(client, b"QUIT") == OK


@pytest.mark.parametrize("line", [b"ACK t SYNC", b"nack t sync", b"DACK t SYNC 60"])
async def test_what_was_taken_is_settled_durably(line, world, client):
    await world.publish(b"t", b"a")
    await client.say(b"GET t")
    synced = world.store.sync_count
    assert await type_line(client, line) == OK
    assert (world.store.sync_count, world.broker.stats()[b"t"].leased) == (synced + 1, 0)
    assert await type_line(client, line) == b"-NOLEASE No message is outstanding\r\n"


async def test_nothing_is_null_in_version_3(client):
    await type_line(client, b"HELLO 3")
    assert await type_line(client, b"GET t") == b"_\r\n"


@pytest.mark.parametrize(
    ("line", "ready", "delayed"), [(b"NACK t", 1, 0), (b"BACK t", 1, 0), (b"DACK t 60", 0, 1), (b"RESET", 1, 0)]
)
async def test_what_was_taken_goes_back(line, ready, delayed, world, client):
    await world.publish(b"t", b"a")
    await client.say(b"GET t")
    assert await client.say(line) in (OK, b"+RESET\r\n")
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.delayed, stats.leased) == (ready, delayed, 0)


@pytest.mark.parametrize("end", ["lose", "drain", "quit"])
async def test_what_was_taken_goes_back_with_the_connection(end, world, server, client):
    await world.publish(b"t", b"a")
    await world.publish(b"u", b"b")
    assert await client.say(b"GET t") == b"$1\r\na\r\n"
    assert await client.say(b"GET u") == b"$1\r\nb\r\n"
    if end == "drain":
        server.drain()
    elif end == "quit":
        await client.say(b"QUIT")
    else:
        client.transport.lose()
    await settle_down()
    assert [world.broker.stats()[name].ready for name in (b"t", b"u")] == [1, 1]
    assert await Client(server).say(b"GET t") == b"$1\r\na\r\n"


async def test_a_second_get_waits_for_the_settle_of_the_first_and_other_topics_do_not(world, client):
    await world.publish(b"t", b"a", b"b")
    await world.publish(b"u", b"c")
    await client.say(b"GET t")
    assert (await client.say(b"GET t")).startswith(b"-OUTSTANDING ")
    assert await client.say(b"GET u") == b"$1\r\nc\r\n"
    assert (await client.say(b"DACK t soon")).startswith(b"-BADDELAY ")  # and it is still held
    assert await client.say(b"ACK t") == OK
    assert await client.say(b"GET t") == b"$1\r\nb\r\n"


async def test_a_message_whose_topic_was_deleted_settles_nothing_and_is_forgotten(world, client):
    await world.publish(b"t", b"a")
    await client.say(b"GET t")
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"b")
    assert (await client.say(b"ACK t")).startswith(b"-NOLEASE ")
    assert await client.say(b"GET t") == b"$1\r\nb\r\n"


async def test_a_message_that_must_be_read_is_waited_for_and_the_commands_behind_it(world, server, client):
    await world.publish(b"t", b"a")
    await world.restart()
    other = Client(type(server)(world.broker, {}))
    other.connection.data_received(command(b"GET", b"t") + command(b"PING"))
    assert other.transport.take() == b""
    await settle_down()
    assert other.transport.take() == b"$1\r\na\r\n+PONG\r\n"


async def test_a_connection_that_leaves_while_its_message_is_read_holds_none(world, server, client):
    await world.publish(b"t", b"a")
    await world.restart()
    other = Client(type(server)(world.broker, {}))
    other.connection.data_received(command(b"GET", b"t"))
    other.connection.data_received(b"PING\r\n" * (MAX_KEPT_BYTES // 6 + 1))  # it gives up
    other.transport.lose()
    await settle_down()
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.leased, stats.consumers) == (1, 0, 0)
