"""Partitions and members on both protocols."""

import orjson

from miniqueue.server.monitor import topic_metrics
from miniqueue.server.monitor.topic_metrics import TopicMetrics
from tests.server.resp.clients import Client
from tests.serving import Lines, serving


async def test_resp_makes_partitions_and_keys_choose_among_them(client):
    assert await client.say(b"TOPIC CREATE t partitions 8") == b"+OK\r\n"
    assert await client.say(b"PUB t x KEY order-17") == b"$3\r\n4-0\r\n"
    assert await client.say(b"PUB t x KEY 123456789 PRIORITY high") == b"$8\r\n6.high-0\r\n"
    assert await client.say(b"MPUBLISH t a b") == b"*2\r\n$3\r\n2-0\r\n$3\r\n2-1\r\n"
    assert await client.say(b"MPUBLISH t a b") == b"*2\r\n$3\r\n3-0\r\n$3\r\n3-1\r\n"
    batch = await client.say(b"PUBEACH t once x 2 KEY order-17 y 0 z 2 KEY order-17")
    assert batch == b"*2\r\n*3\r\n$3\r\n4-1\r\n$3\r\n4-2\r\n$3\r\n4-3\r\n:0\r\n"
    assert await client.say(b"PUBEACH t once q 0") == batch.replace(b":0", b":1")
    assert (await client.say(b"TOPIC SET t partitions 4")).startswith(b"-BADSETTING partitions must be at least")
    assert (await client.say(b"TOPIC SET t partitions 1025")).startswith(b"-BADSETTING ")
    assert await client.say(b"TOPIC SET t partitions 16") == b"+OK\r\n"
    assert await client.say(b"LEN t") == b":9\r\n"


async def test_resp_streams_of_members_have_partitions_of_their_own(server, client):
    await client.say(b"TOPIC CREATE t partitions 2")
    first, second, other = Client(server), Client(server), Client(server)
    assert await first.say(b"SUBSCRIBE t GROUP g MEMBER a") == b""
    assert await second.say(b"SUBSCRIBE t MEMBER b GROUP g PREFETCH 10") == b""
    assert await client.say(b"GROUP MEMBERS t g") == b"*4\r\n$1\r\na\r\n*1\r\n:0\r\n$1\r\nb\r\n*1\r\n:1\r\n"
    listed = await client.say(b"GROUP LIST t")
    assert b"$4\r\nlags\r\n*4\r\n$1\r\n0\r\n:0\r\n$1\r\n1\r\n:0\r\n" in listed
    assert (await other.say(b"SUBSCRIBE t GROUP g")).startswith(b"-MEMBERS ")
    assert (await other.say(b"RECEIVE t GROUP g")).startswith(b"-MEMBERS ")
    assert (await other.say(b"SUBSCRIBE t GROUP g MEMBER a/b")).startswith(b"-BADMEMBER ")
    assert (await other.say(b"RECEIVE t GROUP g MEMBER a/b")).startswith(b"-BADMEMBER ")
    assert (await other.say(b"GROUP MEMBERS t unknown")).startswith(b"-NOGROUP ")
    await client.say(b"MPUBLISH t x")
    await client.say(b"MPUBLISH t y")
    assert first.transport.take() == b"$1\r\nx\r\n"
    assert b"$1\r\ny\r\n" in second.transport.take()
    assert b"$1\r\nb\r\n" in await client.say(b"GROUP MEMBERS t g")


async def test_resp_members_receive(client):
    await client.say(b"TOPIC CREATE t partitions 2")
    await client.say(b"MPUBLISH t x")
    assert b"$1\r\nx\r\n" in await client.say(b"RECEIVE t MEMBER a WAIT 1")
    assert await client.say(b"GROUP MEMBERS t default") == b"*2\r\n$1\r\na\r\n*2\r\n:0\r\n:1\r\n"
    assert (await client.say(b"SUBSCRIBE t")).startswith(b"-MEMBERS ")


async def test_http_has_partitions_and_members(certificates):
    async with serving(certificates) as served:

        async def shown(path):
            return orjson.loads((await served.request("GET", path))[1])

        assert (await served.request("PUT", "/topics/t", b'{"partitions": 4}'))[0] == 201
        status, body = await served.request("PATCH", "/topics/t", b'{"partitions": 2}')
        assert (status, b"at least the 4" in body) == (400, True)
        lines = b'{"msg":"eA==","key":"order-17"}\n{"msg":"eQ=="}\n'
        _, answers = await served.request(
            "POST", "/publish/t?dedup=once", lines, (b"content-type", b"application/x-ndjson")
        )
        assert [orjson.loads(line)["id"] for line in answers.splitlines()] == ["0-0", "0-1"]
        stream = Lines(await served.begin("/subscribe/t?member=a"))
        stream.say("INIT")
        assert (await stream.hear())["msg"]
        group = await shown("/topics/t/groups/default")
        assert group["members"] == {"a": [0, 1, 2, 3]}
        assert group["lags"] == {"0": 2, "1": 0, "2": 0, "3": 0}
        assert (await served.request("POST", "/topics/t/receive"))[0] == 409
        assert (await served.request("POST", "/topics/t/receive?member=a/b"))[0] == 400
        assert (await served.request("POST", "/subscribe/t"))[0] == 409


async def test_metrics_tell_the_lag_of_each_partition_where_these_are_few(monkeypatch, world, client):
    await client.say(b"TOPIC CREATE t partitions 2")
    await client.say(b"TOPIC CREATE many partitions 65")
    await client.say(b"TOPIC CREATE u partitions 2")
    await client.say(b"MPUBLISH t x y")
    await client.say(b"MPUBLISH many x y z")
    await client.say(b"PUB t x PRIORITY high")
    lines = (await TopicMetrics(world.broker).render()).decode().splitlines()
    assert 'miniqueue_group_lag{group="default",topic="t"} 3.0' in lines
    assert 'miniqueue_group_lag_max{group="default",topic="t"} 2.0' in lines
    assert 'miniqueue_group_lag_max{group="default",topic="many"} 3.0' in lines
    shown = [line for line in lines if line.startswith("miniqueue_group_partition_lag{") and 'topic="t"' in line]
    assert [line.split('"')[3] for line in shown] == ["1.high", "0", "1"]
    assert not [line for line in lines if "group_partition_lag{" in line and "many" in line]
    monkeypatch.setattr(topic_metrics, "MAX_PARTITION_LAGS", 4)
    text = (await TopicMetrics(world.broker).render()).decode()
    assert text.count("miniqueue_group_partition_lag{") == 3


async def test_groups_say_what_is_held_back_since_partitions_were_added(client):
    await client.say(b"TOPIC CREATE t ordered true")
    await client.say(b"PUB t x KEY order-17")
    await client.say(b"TOPIC SET t partitions 2")
    assert b"$9\r\nheld_back\r\n*0\r\n" in await client.say(b"GROUP LIST t")
    await client.say(b"MPUBLISH t a")
    await client.say(b"MPUBLISH t b")
    assert b"$9\r\nheld_back\r\n*1\r\n$1\r\n1\r\n" in await client.say(b"GROUP LIST t")
