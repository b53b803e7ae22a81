"""Members that receive and are heard of no more: their partitions go to others, on both protocols."""

import orjson

from tests.fakes import settle_down
from tests.server.resp.clients import Client
from tests.serving import eventually, serving

SETTINGS = b"partitions 2 session_seconds 5 handover_seconds 1"


async def pass_seconds(world, seconds):
    world.clock.advance(seconds)
    world.broker.tick()
    await settle_down()


async def received(client, member):
    """Return the messages that the member receives; it waits only for those that are being read."""
    client.send(b"RECEIVE", b"t", b"GROUP", b"g", b"MEMBER", member)
    await eventually(lambda: client.transport.written)
    return client.transport.take()


async def members_over_resp(client):
    return (await client.say(b"GROUP MEMBERS t g")).split(b"\r\n")


async def test_resp_member_that_does_not_ask_again_is_gone_after_its_session(world, server, client):
    await client.say(b"TOPIC CREATE t " + SETTINGS)
    first, second = Client(server), Client(server)
    await received(first, b"a")
    await received(second, b"b")
    await pass_seconds(world, 3)
    await received(second, b"b")
    assert b"a" in await members_over_resp(client)
    await pass_seconds(world, 3)
    members = await members_over_resp(client)
    assert b"a" not in members
    assert b"b" in members
    assert {b":0", b":1"} <= {*members}
    await pass_seconds(world, 3)
    assert await client.say(b"GROUP MEMBERS t g") == b"*0\r\n"


async def test_resp_member_that_waits_is_there_and_one_that_is_cut_off_meanwhile_is_not_for_long(world, server, client):
    await client.say(b"TOPIC CREATE t " + SETTINGS)
    first = Client(server)
    await first.say(b"RECEIVE t GROUP g MEMBER a WAIT 20")
    await pass_seconds(world, 15)
    assert b"a" in await members_over_resp(client)
    first.transport.abort()
    await settle_down()
    assert b"a" in await members_over_resp(client)
    await pass_seconds(world, 5)
    assert await client.say(b"GROUP MEMBERS t g") == b"*0\r\n"


async def test_resp_member_that_extends_or_settles_is_there(world, client):
    await client.say(b"TOPIC CREATE t " + SETTINGS)
    await client.say(b"MPUBLISH t x y")
    reply = await received(client, b"a")
    receipt = next(word for word in reply.split(b"\r\n") if b"-" in word and len(word) > 16)
    for _ in range(3):
        await pass_seconds(world, 4)
        assert await client.say(b"EXTEND t %b 30" % receipt) == b"+OK\r\n"
    assert b"a" in await members_over_resp(client)
    await client.say(b"ACK t %b" % receipt)
    await pass_seconds(world, 4)
    assert b"a" in await members_over_resp(client)
    await pass_seconds(world, 2)
    assert await client.say(b"GROUP MEMBERS t g") == b"*0\r\n"


async def test_http_member_that_does_not_ask_again_is_gone_and_its_messages_go_to_another(certificates):
    async with serving(certificates) as served:

        async def members():
            return orjson.loads((await served.request("GET", "/topics/t/groups/g"))[1])["members"]

        await served.request("PUT", "/topics/t", b'{"partitions":2,"session_seconds":5,"handover_seconds":0}')
        for number in range(2):
            served.broker.publish(b"t", [b"%d" % number], None, number)
        await served.broker._engine.journal.committer.flush()
        receive = "/topics/t/receive?group=g&wait=5&member="
        first = [(await served.request("POST", receive + "a"))[1] for _ in range(2)]
        assert sorted(orjson.loads(line)["msg"] for line in first) == ["MA==", "MQ=="]
        second = await served.request("POST", receive + "b")
        assert orjson.loads(second[1])["msg"] == "MQ=="
        assert await members() == {"a": [0], "b": [1]}
        served.clock.advance(3)
        await served.request("POST", "/topics/t/receive?group=g&member=b")
        served.clock.advance(3)
        served.broker.tick()
        assert await members() == {"b": [0, 1]}
        third = await served.request("POST", receive + "b")
        assert orjson.loads(third[1])["msg"] == "MA=="


async def test_http_stream_that_is_cut_off_leaves_its_partitions_at_once(certificates):
    async with serving(certificates) as served:
        await served.request("PUT", "/topics/t", b'{"partitions":2}')
        await served.broker.groups.create(b"t", b"g")
        group = served.broker._engine.topics.by_name.get(b"t").group(b"g")
        for count, name in enumerate((b"a", b"b"), start=1):
            stream = await served.begin("/subscribe/t?group=g&member=" + name.decode())
            assert await stream.response() == 200
            assert len(group.membership.members) == count
        served.clients[-1].close()
        await eventually(lambda: sorted(group.membership.members) == [b"a"])
        assert group.membership.members[b"a"].partitions == [0, 1]
