"""LEASES over RESP: what this connection, a group, or a member holds."""

import re

from tests.fakes import settle_down
from tests.server.resp.clients import Client
from tests.server.resp.commands.test_users import enter, served_to


def listed(reply: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return topic, id and receipt of each message of a reply in version 2."""
    fields = (
        rb"topic\r\n\$\d+\r\n(\S+)\r\n\$9\r\n.*?\$2\r\nid\r\n\$\d+\r\n(\S+)\r\n\$7\r\nreceipt\r\n\$\d+\r\n(\S+)\r\n"
    )
    return re.findall(fields, reply, re.DOTALL)


async def test_a_connection_lists_what_it_took(world, server, client):
    await world.publish(b"t", b"a", b"b")
    await world.publish(b"u", b"c")
    assert await client.say(b"LEASES") == b"*0\r\n"
    await client.say(b"GET u")
    await client.say(b"GET t")
    reply = await client.say(b"LEASES")
    assert [(topic, message_id) for topic, message_id, _ in listed(reply)] == [(b"t", b"0-0"), (b"u", b"0-0")]
    (held,) = listed(await client.say(b"LEASES u"))
    assert await client.say(b"LEASES nothing") == b"*0\r\n"
    other = Client(server)
    assert await other.say(b"LEASES") == b"*0\r\n"
    assert await other.say(b"ACK u " + held[2]) == b"+OK\r\n"
    assert listed(await client.say(b"LEASES u")) == []


async def test_a_stream_lists_what_it_holds_in_pages(world, client):
    await world.publish(b"t", *[b"%d" % n for n in range(5)])
    await client.say(b"SUBSCRIBE t PREFETCH 5")
    assert [receipt for _, _, receipt in listed(await client.say(b"LEASES"))] == [b"1", b"2", b"3", b"4", b"5"]
    assert await client.say(b"ACK 3") == b"+OK\r\n"
    first = listed(await client.say(b"LEASES t COUNT 2"))
    assert [receipt for _, _, receipt in first] == [b"1", b"2"]
    rest = listed(await client.say(b"LEASES t AFTER 2"))
    assert [message_id for _, message_id, _ in rest] == [b"0-3", b"0-4"]
    assert (await client.say(b"LEASES t GROUP default")) == b"*0\r\n", "no other client can settle what a stream holds"


async def test_what_is_received_belongs_to_no_connection(world, client):
    await world.publish(b"t", b"a")
    await client.say(b"HELLO 3")
    await client.say(b"RECEIVE t LEASE 60")
    assert await client.say(b"LEASES") == b"*0\r\n"
    assert (await client.say(b"LEASES t GROUP default")).startswith(b"*1\r\n%6\r\n$5\r\ntopic\r\n")


async def test_a_member_is_listed_with_its_streams(world, server, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUBSCRIBE t GROUP g MEMBER m")
    other = Client(server)
    (held,) = listed(await other.say(b"LEASES t GROUP g MEMBER m"))
    assert held == (b"t", b"0-0", b"1")
    assert await other.say(b"LEASES t MEMBER m") == b"*0\r\n", "the group is `default`"
    assert await client.say(b"LEASES t GROUP g MEMBER m") == await other.say(b"LEASES t GROUP g MEMBER m")


def remaining(reply: bytes) -> list[bytes]:
    """Return the remaining time of each message of a reply in version 2."""
    return re.findall(rb"remaining_ms\r\n(?::|\$)(-?\d+)\r\n", reply)


async def test_a_stream_with_a_lease_time_lists_what_is_left_of_it(world, server, client):
    await world.publish(b"t", b"a", b"b", b"c")
    await client.say(b"SUBSCRIBE t GROUP g MEMBER m PREFETCH 3 LEASE 30")
    world.clock.advance(10)
    await world.publish(b"t", b"d")
    assert await client.say(b"ACK 2") == b"+OK\r\n*3\r\n$1\r\n4\r\n$1\r\nd\r\n*0\r\n"
    own = await client.say(b"LEASES")
    assert [receipt for _, _, receipt in listed(own)] == [b"1", b"3", b"4"]
    assert remaining(own) == [b"20000", b"20000", b"30000"], "a part of a delivery keeps the time of the whole"
    other = Client(server)
    assert await other.say(b"LEASES t GROUP g MEMBER m") == own
    world.clock.advance(20)
    world.broker.tick()
    await settle_down()
    assert remaining(await other.say(b"LEASES t GROUP g MEMBER m")) == [b"10000", b"30000", b"30000"]


async def test_streams_of_a_member_with_and_without_a_lease_time(world, server, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUBSCRIBE t GROUP g MEMBER m LEASE 30")
    other = Client(server)
    await other.say(b"SUBSCRIBE t GROUP g MEMBER m")
    assert remaining(await client.say(b"LEASES t GROUP g MEMBER m")) == [b"30000", b"-1"]
    assert remaining(await other.say(b"LEASES")) == [b"-1"]


async def test_what_cannot_be_listed_is_refused(client):
    for line, error in (
        (b"LEASES t GROUP g", b"-NOTOPIC "),
        (b"LEASES a/b", b"-BADTOPIC "),
        (b"LEASES t COUNT 0", b"-BADOPTION a count is a whole number from 1 to 1000\r\n"),
        (b"LEASES t AFTER x", b"-BADOPTION after is the last receipt of the previous page\r\n"),
        (b"LEASES t GROUP", b"-ERR syntax error at 'GROUP'\r\n"),
        (b"LEASES t LIMIT 5", b"-ERR syntax error at 'LIMIT'\r\n"),
    ):
        assert (await client.say(line)).startswith(error), line


async def test_only_topics_are_listed_that_the_user_may_consume():
    async with served_to() as (world, _server, client):
        await world.publish(b"orders", b"x")
        await world.publish(b"other", b"y")
        await enter(client, "subscriber-of-all")
        await client.say(b"GET orders")
        await client.say(b"GET other")
        assert len(listed(await client.say(b"LEASES"))) == 2
        await enter(client, "subscriber")
        await settle_down()
        assert [topic for topic, _, _ in listed(await client.say(b"LEASES"))] == [b"orders"]
        assert (await client.say(b"LEASES other")).startswith(b"-NOPERM ")
        await enter(client, "monitor-of-all")
        assert await client.say(b"LEASES") == b"*0\r\n"
