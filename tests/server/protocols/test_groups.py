"""Groups on both protocols."""

import orjson

from miniqueue.server.monitor.topic_metrics import TopicMetrics
from tests.serving import Lines, serving


async def test_resp_makes_lists_moves_and_deletes_groups(world, client):
    assert await client.say(b"GROUP CREATE t a") == b"+OK\r\n"
    assert (await client.say(b"GROUP CREATE t a")).startswith(b"-GROUPEXISTS ")
    assert await client.say(b"GROUP CREATE t b FROM latest") == b"+OK\r\n"
    await world.publish(b"t", b"x", b"y")
    listed = await client.say(b"GROUP LIST t")
    assert listed.startswith(b"*2\r\n")
    assert b"$4\r\nname\r\n$1\r\na\r\n$3\r\nlag\r\n:2\r\n" in listed
    assert b"$8\r\nposition\r\n*1\r\n$3\r\n0-0\r\n" in listed
    assert await client.say(b"GROUP SEEK t a 0-1 DRYRUN") == b"*4\r\n$6\r\nbefore\r\n:2\r\n$5\r\nafter\r\n:1\r\n"
    assert await client.say(b"GROUP SEEK t a latest") == b"*4\r\n$6\r\nbefore\r\n:2\r\n$5\r\nafter\r\n:0\r\n"
    assert await client.say(b"GROUP DELETE t a") == b"+OK\r\n"
    assert (await client.say(b"GROUP DELETE t b")).startswith(b"-GROUPINUSE ")
    assert (await client.say(b"GROUP SEEK t a latest")).startswith(b"-NOGROUP ")
    assert (await client.say(b"GROUP SEEK t b 0-3")).startswith(b"-BADOPTION no message 0-3 was published")
    assert (await client.say(b"GROUP CREATE t c FROM 0-3")).startswith(b"-BADOPTION ")
    assert (await client.say(b"GROUP SEEK t b whenever")).startswith(b"-BADOPTION ")
    assert (await client.say(b"GROUP SEEK t b latest NOW")).startswith(b"-ERR ")
    assert (await client.say(b"GROUP CREATE t a/b")).startswith(b"-BADGROUP ")
    assert (await client.say(b"GROUP LIST u")).startswith(b"-NOTOPIC ")
    assert (await client.say(b"GROUP LOSE t")).startswith(b"-ERR ")


async def test_resp_counts_tells_of_and_purges_one_group(world, client):
    await client.say(b"GROUP CREATE t a")
    await client.say(b"GROUP CREATE t b")
    await world.publish(b"t", b"x", b"y")
    assert await client.say(b"LEN t GROUP a") == b":2\r\n"
    assert await client.say(b"PURGE t GROUP a") == b":2\r\n"
    assert await client.say(b"LEN t GROUP a") == b":0\r\n"
    assert await client.say(b"LEN t GROUP b") == b":2\r\n"
    assert await client.say(b"LEN u GROUP b") == b":0\r\n"
    reported = await client.say(b"STATS t GROUP a")
    assert b"lag\r\n:0\r\n" in reported
    assert b"dropped\r\n:2\r\n" in reported
    for command in (b"LEN t GROUP c", b"STATS t GROUP c", b"PURGE t GROUP c"):
        assert (await client.say(command)).startswith(b"-NOGROUP ")
    for command in (b"LEN t GROUP", b"LEN t GROUPS a", b"STATS t GROUP", b"STATS t GROUP a b"):
        assert (await client.say(command)).startswith(b"-ERR ")


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


async def test_http_makes_shows_moves_and_deletes_groups(certificates):
    async with serving(certificates) as served:

        async def status(method, path):
            return (await served.request(method, path))[0]

        async def shown(method, path):
            return orjson.loads((await served.request(method, path))[1])

        assert await status("PUT", "/topics/t/groups/a") == 201
        assert await status("PUT", "/topics/t/groups/a") == 409
        assert await status("PUT", "/topics/t/groups/b?from=latest") == 201
        assert (await served.request("POST", "/publish/t", b"x"))[0] == 201
        group = await shown("GET", "/topics/t/groups/a")
        assert (group["name"], group["lag"], group["position"]) == ("a", 1, ["0-0"])
        assert [group["name"] for group in (await shown("GET", "/topics/t/groups"))["groups"]] == ["a", "b"]
        seek = "/topics/t/groups/a/seek?to=latest&dry_run=true"
        assert await shown("POST", seek) == {"before": 1, "after": 0}
        assert (await shown("POST", "/topics/t/receive?group=a&wait=1"))["msg"]
        assert await shown("POST", "/topics/t/purge?group=b") == {"removed": 1}
        assert (await shown("GET", "/topics/t/groups/a"))["lag"] == 1
        assert await status("DELETE", "/topics/t/groups/a") == 200
        assert await status("GET", "/topics/t/groups/a") == 404
        assert await status("POST", "/topics/t/groups/b/seek") == 400
        assert await status("POST", "/topics/t/groups/b/seek?to=0-2") == 400
        assert await status("PUT", "/topics/t/groups/c?from=0-2") == 400


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
