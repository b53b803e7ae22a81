"""Channels that clients of Redis subscribe to by themselves: confirmed in the form of Redis, and silent."""

import pytest

from miniqueue.core.options.redis_channels import is_redis_channel, is_redis_pattern
from miniqueue.server.resp.commands.channels import MAX_CHANNELS
from miniqueue.server.resp.server import RespServer
from tests.fakes import settle_down
from tests.server.access import sign_in_for, token_of
from tests.server.resp.clients import Client, command

CHANNEL = b"__Booksleeve_MasterChanged"


def confirmation(kind: bytes, name: bytes | None, count: int, mark: bytes = b"*") -> bytes:
    absent = b"_\r\n" if mark == b">" else b"$-1\r\n"
    channel = absent if name is None else b"$%d\r\n%b\r\n" % (len(name), name)
    return b"%b3\r\n$%d\r\n%b\r\n%b:%d\r\n" % (mark, len(kind), kind, channel, count)


async def test_the_handshake_of_stack_exchange_redis_is_answered(world, client):
    assert await client.say(b"SUBSCRIBE " + CHANNEL) == confirmation(b"subscribe", CHANNEL, 1)
    assert await client.say(b"PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert await client.say(b"ping x") == b"*2\r\n$4\r\npong\r\n$1\r\nx\r\n"
    assert await client.say(b"UNSUBSCRIBE 5f0c") == confirmation(b"unsubscribe", b"5f0c", 1)
    assert world.broker.topics() == []


async def test_channels_and_patterns_are_counted_together_until_none_is_left(client):
    two = b"__keyspace@0__:a", b"__keyevent@0__:set"
    assert await client.say(b"SUBSCRIBE %b %b" % two) == confirmation(b"subscribe", two[0], 1) + confirmation(
        b"subscribe", two[1], 2
    )
    assert await client.say(b"psubscribe __key*__:*") == confirmation(b"psubscribe", b"__key*__:*", 3)
    assert await client.say(b"SUBSCRIBE " + two[0]) == confirmation(b"subscribe", two[0], 3)
    assert (await client.say(b"PUBLISH t a")).startswith(b"-ERR 'PUBLISH' cannot be carried out: ")
    assert await client.say(b"UNSUBSCRIBE") == confirmation(b"unsubscribe", two[0], 2) + confirmation(
        b"unsubscribe", two[1], 1
    )
    assert await client.say(b"UNSUBSCRIBE") == confirmation(b"unsubscribe", None, 1)
    assert await client.say(b"PUNSUBSCRIBE __key*__:*") == confirmation(b"punsubscribe", b"__key*__:*", 0)
    assert await client.say(b"PING") == b"+PONG\r\n"
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"


async def test_in_version_3_confirmations_are_pushes_and_other_commands_go_on(client):
    await client.say(b"HELLO 3")
    assert await client.say(b"SUBSCRIBE +switch-master") == confirmation(b"subscribe", b"+switch-master", 1, b">")
    assert await client.say(b"PING") == b"+PONG\r\n"
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") * 3)
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * 3
    assert await client.say(b"MULTI") == b"+OK\r\n"
    assert await client.say(b"DISCARD") == b"+OK\r\n"
    assert (await client.say(b"SUBSCRIBE t")).startswith(b"-ERR invalid channel of Redis: 't'; ")
    assert (await client.say(b"SUB t")).startswith(b"-ERR 'SUB' cannot be carried out: ")
    assert await client.say(b"UNSUBSCRIBE") == confirmation(b"unsubscribe", b"+switch-master", 0, b">")
    assert await client.say(b"PUNSUBSCRIBE") == confirmation(b"punsubscribe", None, 0, b">")
    assert await client.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"UNSUBSCRIBE", confirmation(b"unsubscribe", None, 0)),
        (b"UNSUBSCRIBE a b", confirmation(b"unsubscribe", b"a", 0) + confirmation(b"unsubscribe", b"b", 0)),
        (b"PUNSUBSCRIBE", confirmation(b"punsubscribe", None, 0)),
        (b"PSUBSCRIBE news.*", b"-ERR invalid channel of Redis: 'news.*'; "),
        (b"PSUBSCRIBE *", b"-ERR invalid channel of Redis: '*'; "),
        (b"SUBSCRIBE +sdown t", b"-ERR invalid channel of Redis: 't'; "),
        (b"SUBSCRIBE __keyspace@" + b"x" * 255, b"-ERR invalid channel of Redis: "),
        (b"PSUBSCRIBE", b"-ERR invalid number of args, want: at least 2; syntax: PSUBSCRIBE pattern..."),
    ],
)
async def test_what_leaves_the_connection_as_it_was(line, reply, client):
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"


async def test_a_topic_with_such_a_name_carries_its_messages_to_consumers_and_none_to_the_channel(
    world, server, client
):
    await client.say(b"SUBSCRIBE +switch-master")
    await world.publish(b"+switch-master", b"a")
    assert client.transport.take() == b""
    assert await Client(server).say(b"SUB +switch-master") == b"$1\r\na\r\n"


async def test_a_connection_has_so_many_channels_and_no_more(client):
    for number in range(MAX_CHANNELS):
        client.send(b"SUBSCRIBE", b"__keyspace@0__:%d" % number)
    client.transport.take()
    assert (await client.say(b"PSUBSCRIBE __keyevent@*")).startswith(
        b"-LIMIT too many channels and patterns; at most 1024 "
    )
    assert await client.say(b"RESET") == b"+RESET\r\n"
    assert await client.say(b"PSUBSCRIBE __keyevent@*") == confirmation(b"psubscribe", b"__keyevent@*", 1)


async def test_who_has_subscribed_is_not_idle(client):
    assert not client.connection.is_waiting
    await client.say(b"SUBSCRIBE " + CHANNEL)
    assert client.connection.is_waiting
    await client.say(b"UNSUBSCRIBE")
    assert not client.connection.is_waiting


@pytest.mark.usefixtures("client")
async def test_any_user_may_subscribe_to_them_and_nobody_else(world):
    client = Client(RespServer(world.broker, {}, sign_in_for()))
    assert (await client.say(b"SUBSCRIBE " + CHANNEL)).startswith(b"-NOAUTH ")
    client.send(b"AUTH", token_of("stranger"))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n"
    assert (await client.say(b"SUBSCRIBE t")).startswith(b"-NOPERM ")
    assert await client.say(b"SUBSCRIBE " + CHANNEL) == confirmation(b"subscribe", CHANNEL, 1)
    assert await client.say(b"RESET") == b"+RESET\r\n"
    assert (await client.say(b"UNSUBSCRIBE")).startswith(b"-NOAUTH ")


@pytest.mark.parametrize(
    "name", [CHANNEL, b"__keyspace@0__:a", b"__keyevent@0__:del", b"__sentinel__:hello", b"-sdown"]
)
def test_a_channel_of_redis(name):
    assert is_redis_channel(name)
    assert is_redis_pattern(name)


@pytest.mark.parametrize("name", [b"", b"t", b"__key", b"__topic", b"+switch-masters", b"switch-master", b"_"])
def test_a_topic(name):
    assert not is_redis_channel(name)


@pytest.mark.parametrize(
    ("pattern", "is_pattern"),
    [(b"__key*__:*", True), (b"__keyspace@?__:a[bc]", True), (b"__k*", False), (b"*", False), (b"orders.*", False)],
)
def test_a_pattern(pattern, is_pattern):
    assert is_redis_pattern(pattern) is is_pattern
