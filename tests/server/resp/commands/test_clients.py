"""CLIENT LIST, and what the page shows of connections: since when they are connected, what they do, read, and hold."""

import pytest

from miniqueue.server.views.clients import Reading
from tests.server.resp.clients import Client


async def line_of(client, other):
    """Return what CLIENT LIST shows of another connection, by name."""
    lines = (await client.say(b"CLIENT LIST")).decode().splitlines()
    found = next(line for line in lines if line.startswith(f"id={other.connection.session.id} "))
    return dict(pair.split("=", 1) for pair in found.split(" "))


def shown(line):
    names = "flags", "topic", "group", "member", "leased"
    return tuple(line[name] for name in names)


async def test_a_connection_that_only_sends_commands_reads_nothing(server, client):
    line = await line_of(client, Client(server))
    assert shown(line) == ("N", "", "", "", "0")
    assert (line["addr"], line["name"], line["sub"]) == ("127.0.0.1:50000", "", "0")


async def test_the_age_of_a_connection_is_in_seconds(world, server, client):
    other = Client(server)
    world.clock.advance(61.9)
    line = await line_of(client, other)
    assert line["age"] == "61"
    _, described = server.listed()
    assert described.connected_at_ms == world.clock.now_ms() - 61_900


async def test_a_clock_that_was_set_back_makes_no_negative_age(world, server, client):
    other = Client(server)
    world.clock.advance(-3600)
    assert (await line_of(client, other))["age"] == "0"


async def test_a_stream_reads_with_a_group_and_a_member_and_holds_messages(world, server, client):
    await world.publish(b"orders", b"a", b"b", b"c")
    other = Client(server)
    await other.say(b"SUBSCRIBE orders GROUP mail MEMBER w1 PREFETCH 2")
    assert shown(await line_of(client, other)) == ("P", "orders", "mail", "w1", "2")
    _, described = server.listed()
    assert (described.mode, described.reading, described.leased) == ("stream", Reading(b"orders", b"mail", b"w1"), 2)


async def test_a_connection_that_receives_reads_what_it_received_last(world, server, client):
    other = Client(server)
    await other.say(b"RECEIVE mails")
    await other.say(b"RECEIVE orders GROUP mail MEMBER w1 WAIT 5")
    assert shown(await line_of(client, other)) == ("b", "orders", "mail", "w1", "0")
    await world.publish(b"orders", b"a")
    assert shown(await line_of(client, other)) == ("N", "orders", "mail", "w1", "0"), "leases belong to no connection"
    await other.say(b"RECEIVE a/b")
    assert (await line_of(client, other))["topic"] == "orders"
    await other.say(b"RESET")
    assert (await line_of(client, other))["topic"] == ""


async def test_a_receive_of_several_topics_reads_none_in_particular(server, client):
    other = Client(server)
    await other.say(b"RECEIVE orders")
    await other.say(b"RECEIVEANY WAIT 5 TOPICS a b")
    assert shown(await line_of(client, other)) == ("b", "", "", "", "0")


async def test_messages_of_get_are_held(world, server, client):
    other = Client(server)
    for topic in (b"a", b"b"):
        await world.publish(topic, b"x")
        await other.say(b"GET " + topic)
    assert shown(await line_of(client, other)) == ("N", "", "", "", "2")


@pytest.mark.parametrize(
    ("command", "flag", "mode"),
    [
        (b"EVENTS", "P", "listens"),
        (b"PSUBSCRIBE __keyspace*", "P", "listens"),
        (b"MULTI", "x", "transaction"),
        (b"REQUEST orders question TIMEOUT 5", "b", "waits"),
    ],
)
async def test_modes_have_the_flags_of_redis(server, client, command, flag, mode):
    other = Client(server)
    await other.say(command)
    assert (await line_of(client, other))["flags"] == flag
    assert list(server.listed())[1].mode == mode
