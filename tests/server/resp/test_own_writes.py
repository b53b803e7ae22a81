"""A RESP connection reads its own writes, also within one pipeline."""

import pytest

from tests.fakes import settle_down
from tests.server.resp.clients import Client, command


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"LEN t", b":1\r\n"),
        (b"STATS t", b"$5\r\nready\r\n:1\r\n"),
        (b"PEEK t", b"$5\r\nhello\r\n"),
        (b"READ t 0 0", b"$5\r\nhello\r\n"),
        (b"PARTITIONS t", b"$3\r\nend\r\n:1\r\n"),
        (b"TOPICS", b"*1\r\n$1\r\nt\r\n"),
        (b"INFO topics", b"messages:1\r\n"),
        (b"RECEIVE t", b"$5\r\nhello\r\n"),
        (b"GET t", b"$5\r\nhello\r\n"),
        (b"PURGE t", b":1\r\n"),
        (b"GROUP LIST t", b"$3\r\nlag\r\n:1\r\n"),
    ],
)
async def test_a_command_sees_what_was_published_before_it_in_the_pipeline(line, shown, client):
    sent = command(b"PUBLISH", b"t", b"hello") + command(*line.split()) + command(b"PING")
    client.connection.data_received(sent)
    await settle_down()
    reply = client.transport.take()
    assert reply.startswith(b"+OK\r\n")
    assert shown in reply
    assert reply.endswith(b"+PONG\r\n")


async def test_a_client_that_leaves_before_its_commit_is_not_answered(world, server, client):
    client.connection.data_received(command(b"PUBLISH", b"t", b"x") + command(b"RECEIVE", b"t"))
    client.transport.lose()
    await settle_down()
    assert await Client(server).say(b"LEN t") == b":1\r\n"
    assert world.broker.stats()[b"t"].leased == 0
