"""Groups on both protocols."""

import orjson
import pytest

from miniqueue.server.monitor.topic_metrics import TopicMetrics
from tests.server.protocols.speakers import RefusedError
from tests.serving import Lines, serving


async def test_groups_are_made_listed_moved_and_deleted(speaker):
    await speaker.create_group("t", "a")
    with pytest.raises(RefusedError, match="GROUPEXISTS "):
        await speaker.create_group("t", "a")
    await speaker.create_group("t", "b", start="latest")
    await speaker.publish("t", b"x")
    await speaker.publish("t", b"y")
    groups = await speaker.groups("t")
    assert list(groups) == ["a", "b"]
    assert (groups["a"]["lag"], groups["a"]["position"]) == (2, ["0-0"])
    assert await speaker.seek("t", "a", "0-1", dry_run=True) == {"before": 2, "after": 1}
    assert (await speaker.groups("t"))["a"]["lag"] == 2
    assert await speaker.seek("t", "a", "latest") == {"before": 2, "after": 0}
    await speaker.delete_group("t", "a")
    assert list(await speaker.groups("t")) == ["b"]
    for act, code in [
        (speaker.seek("t", "a", "latest"), "NOGROUP "),
        (speaker.seek("t", "b", "0-3"), "BADOPTION no message 0-3 was published"),
        (speaker.seek("t", "b", "whenever"), "BADOPTION "),
        (speaker.create_group("t", "c", start="0-3"), "BADOPTION "),
        (speaker.groups("u"), "NOTOPIC "),
    ]:
        with pytest.raises(RefusedError, match=code):
            await act


async def test_one_group_is_purged_and_consumed_for_itself(speaker):
    await speaker.create_group("t", "a")
    await speaker.create_group("t", "b")
    await speaker.publish("t", b"x")
    await speaker.publish("t", b"y")
    assert await speaker.purge("t", group="a") == 2
    assert [group["lag"] for group in (await speaker.groups("t")).values()] == [0, 2]
    assert await speaker.receive("t", group="a") == []
    assert [one["msg"] for one in await speaker.receive("t", group="b", count=5)] == [b"x", b"y"]
    with pytest.raises(RefusedError, match="NOGROUP "):
        await speaker.purge("t", group="c")


async def test_groups_that_must_be_created_are_refused_to_those_who_receive(speaker):
    await speaker.create("t", auto_create_groups=False)
    with pytest.raises(RefusedError, match="NOGROUP group typo: there is none, "):
        await speaker.receive("t", group="typo")
    await speaker.create_group("t", "g")
    assert await speaker.receive("t", group="g") == []
    await speaker.create("u", default_group=False)
    with pytest.raises(RefusedError, match="NOGROUP group default: this topic was made without it"):
        await speaker.receive("u")


async def test_resp_refuses_groups_that_are_in_use_or_misspelt(client):
    assert await client.say(b"GROUP CREATE t a FROM latest") == b"+OK\r\n"
    assert await client.say(b"GROUP CREATE t b") == b"+OK\r\n"
    assert await client.say(b"GROUP DELETE t b") == b"+OK\r\n"
    assert (await client.say(b"GROUP DELETE t a")).startswith(b"-GROUPINUSE ")
    assert (await client.say(b"GROUP SEEK t a latest NOW")).startswith(b"-ERR ")
    assert (await client.say(b"GROUP CREATE t a/b")).startswith(b"-BADGROUP ")
    assert (await client.say(b"GROUP LOSE t")).startswith(b"-ERR ")


async def test_resp_counts_and_tells_of_one_group(world, client):
    await client.say(b"GROUP CREATE t a")
    await client.say(b"GROUP CREATE t b")
    await world.publish(b"t", b"x", b"y")
    assert await client.say(b"PURGE t GROUP a") == b":2\r\n"
    assert await client.say(b"LEN t GROUP a") == b":0\r\n"
    assert await client.say(b"LEN t GROUP b") == b":2\r\n"
    assert await client.say(b"LEN u GROUP b") == b":0\r\n"
    reported = await client.say(b"STATS t GROUP a")
    assert b"lag\r\n:0\r\n" in reported
    assert b"dropped\r\n:2\r\n" in reported
    for command in (b"LEN t GROUP c", b"STATS t GROUP c"):
        assert (await client.say(command)).startswith(b"-NOGROUP ")
    for command in (b"LEN t GROUP", b"LEN t GROUPS a", b"STATS t GROUP", b"STATS t GROUP a b"):
        assert (await client.say(command)).startswith(b"-ERR ")


async def test_http_shows_one_group_and_says_which_request_made_it(certificates):
    async with serving(certificates) as served:

        async def status(method, path):
            return (await served.request(method, path))[0]

        assert [await status("PUT", "/topics/t/groups/a") for _ in range(2)] == [201, 409]
        assert await status("PUT", "/topics/t/groups/b") == 201
        group = orjson.loads((await served.request("GET", "/topics/t/groups/a"))[1])
        assert (group["name"], group["lag"], group["position"]) == ("a", 0, ["0-0"])
        assert await status("DELETE", "/topics/t/groups/a") == 200
        assert await status("GET", "/topics/t/groups/a") == 404
        assert await status("POST", "/topics/t/groups/b/seek") == 400


async def test_resp_receives_and_subscribes_with_a_group(world, client):
    await world.publish(b"t", b"x")
    received = await client.say(b"RECEIVE t GROUP a WAIT 1")
    assert received.startswith(b"*1\r\n")
    assert b"$1\r\nx\r\n" in received
    assert (await client.say(b"SUBSCRIBE t GROUP b")) == b"$1\r\nx\r\n"
    assert {group.name: group.depth for group in world.broker._engine.topics.by_name[b"t"].existing_groups} == {
        b"default": 1,
        b"a": 1,
        b"b": 1,
    }


async def test_a_slash_that_is_encoded_makes_no_group_of_a_topic_over_http(certificates):
    async with serving(certificates) as served:
        for method, path in (("GET", "t%2Fgroups/g"), ("GET", "t/groups%2Fg"), ("PUT", "t%2Fgroups/g")):
            assert (await served.request(method, "/topics/" + path))[0] in (400, 404)
        assert served.broker.topics() == []


async def test_http_subscribes_with_a_group(certificates):
    async with serving(certificates) as served:
        await served.broker.publish(b"t", [b"x"]).commit.wait()
        lines = Lines(await served.begin("/subscribe/t?group=a"))
        lines.say("INIT")
        assert (await lines.hear())["msg"]
        topic = served.broker._engine.topics.by_name[b"t"]
        assert [group.name for group in topic.existing_groups] == [
            b"default",
            b"a",
        ]


async def test_there_are_metrics_of_groups_where_there_are_named_ones(world, client):
    await world.publish(b"plain", b"x")
    await world.publish(b"t", b"x")
    assert await client.say(b"GROUP CREATE t a FROM latest") == b"+OK\r\n"
    text = (await TopicMetrics(world.broker).render()).decode()
    assert 'miniqueue_group_lag{group="default",topic="t"} 1.0\n' in text
    assert 'miniqueue_group_lag{group="a",topic="t"} 0.0\n' in text
    assert 'group="default",topic="plain"' not in text


async def test_groups_that_must_be_created_are_refused_to_consumers_over_resp(client):
    assert await client.say(b"TOPIC CREATE t auto_create_groups false") == b"+OK\r\n"
    for line in (b"RECEIVE t GROUP typo", b"SUBSCRIBE t GROUP typo", b"SUBSCRIBE t GROUP typo MEMBER a"):
        assert (await client.say(line)).startswith(b"-NOGROUP group typo: there is none, ")
    assert await client.say(b"GROUP CREATE t g") == b"+OK\r\n"
    assert await client.say(b"RECEIVE t GROUP g") == b"*0\r\n"
    assert await client.say(b"TOPIC CREATE u default_group false") == b"+OK\r\n"
    assert (await client.say(b"RECEIVE u")).startswith(b"-NOGROUP group default: this topic was made without it")
    assert (await client.say(b"GET u")).startswith(b"-NOGROUP ")
    assert (await client.say(b"TOPIC SET t default_group false")).startswith(b"-BADSETTING default_group must be")


async def test_groups_that_must_be_created_are_refused_to_consumers_over_http(certificates):
    async with serving(certificates) as served:
        assert (await served.request("PUT", "/topics/t", b'{"auto_create_groups":false}'))[0] == 201
        for path in ("/topics/t/receive?group=typo", "/subscribe/t?group=typo"):
            status, body = await served.request("POST", path)
            assert (status, b'"code":"NOGROUP"' in body) == (404, True)
