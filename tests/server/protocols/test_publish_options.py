"""Publishing with options over RESP and HTTP: what is handed out, and what is refused."""

import asyncio

import orjson
import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.server.http.app import HttpApp
from tests.broker.support import world_with
from tests.fakes import START_MS, settle_down
from tests.server.resp.clients import Client, command
from tests.serving import NDJSON, Lines, serving


async def publish(world, query: bytes, *headers: tuple[bytes, bytes], body: bytes = b"x") -> tuple[int, dict]:
    """Publish over HTTP, without a server; return status, and headers, or what the body says."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    path = "/publish/t"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    asking = asyncio.create_task(
        HttpApp(world.broker)(scope | {"query_string": query, "headers": [*headers]}, receive, send)
    )
    await settle_down()
    await asking
    start, end = sent
    return start["status"], orjson.loads(end["body"]) if end["body"] else dict(start["headers"])


async def test_pub_answers_the_id_and_receive_has_headers_and_key(client):
    assert await client.say(b"PUB t first") == b"$3\r\n0-0\r\n"
    assert await client.say(b"pub t second key ada HEADER trace 7f header Trace 80") == b"$3\r\n0-1\r\n"
    await client.say(b"RECEIVE t")
    received = await client.say(b"RECEIVE t")
    assert b"$3\r\nkey\r\n$3\r\nada\r\n" in received
    assert b"$7\r\nheaders\r\n*2\r\n*2\r\n$5\r\ntrace\r\n$2\r\n7f\r\n*2\r\n$5\r\nTrace\r\n$2\r\n80\r\n" in received
    peeked = await client.say(b"PEEK t STATE leased COUNT 2")
    assert peeked.count(b"$3\r\nada\r\n") == 1
    assert b"$3\r\nada\r\n" in await client.say(b"PEEK t ID 0-1")


async def test_a_plain_stream_has_the_payload_and_nothing_else(server, client):
    await client.say(b"PUB t hello KEY k HEADER a b TTL 60")
    assert await Client(server).say(b"SUBSCRIBE t") == b"$5\r\nhello\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PUB t", b"-ERR invalid number of args, want: at least 3; syntax: "),
        (b"PUB t x KEY", b"-BADOPTION the option key needs a value\r\n"),
        (b"PUB t x DELAY soon", b"-BADDELAY "),
        (b"PUB t x COLOUR red", b"-BADOPTION there is no option colour; there are "),
        (b"PUB t x HEADERS red", b"-BADOPTION there is no option headers; there are delay, at, priority, key, ttl, "),
        (b"PUB t x TTL 0", b"-BADOPTION ttl is a number of seconds"),
        (b"PUB t x HEADER \xff v", b"-BADATTRIBUTE "),
        (b"PUB a/b x", b"-BADTOPIC "),
        (b"PUB t 0123456789x KEY k", b"-TOOBIG "),
    ],
)
@world_with(max_message_bytes=10)
async def test_a_pub_that_is_wrong_is_refused_and_stores_nothing(line, reply, world, client):
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"TOPICS") == b"*0\r\n"
    assert await client.say(b"PING") == b"+PONG\r\n"
    assert world.broker.limit_counts.counts[Limit.MESSAGE_SIZE] == (reply == b"-TOOBIG ")


async def test_replies_keep_their_order_and_share_a_commit(world, client):
    lines = [b"PUB t a", b"PUBLISH t b", b"PUB t c BAD x", b"MPUBLISH t d e", b"PUB t f"]
    client.connection.data_received(b"".join(command(*line.split()) for line in lines))
    await settle_down()
    replies = client.transport.take().split(b"\r\n")
    assert replies[2:4] == [b"+OK", b"-BADOPTION there is no option bad; there are " + replies[3][45:]]
    assert [reply for reply in replies if reply.startswith(b"0-")] == [b"0-0", b"0-2", b"0-3", b"0-4"]
    assert world.store.write_count == 1


@world_with(limits=BrokerLimits(max_uncommitted_bytes=10))
async def test_a_pub_waits_for_room(world, server, client):
    other = Client(server)
    world.store.may_write.clear()
    assert await client.say(b"PUB t 0123456789x") == b""
    assert await other.say(b"PUB t late KEY k") == b""
    world.store.may_write.set()
    await settle_down()
    assert (client.transport.take(), other.transport.take()) == (b"$3\r\n0-0\r\n", b"$3\r\n0-1\r\n")


async def test_a_failed_commit_is_an_error(world, client):
    world.store.fail_writes = {1}
    assert (await client.say(b"PUB t x KEY k")).startswith(b"-UNKNOWN ")
    world.store.fail_writes = {world.store.write_count + 1}
    assert (await publish(world, b"key=k"))[0] == 503


async def test_the_query_and_headers_of_a_request_are_options(world):
    wanted = 201, {b"content-length": b"0", b"message-id": b"0-0"}
    assert await publish(world, b"key=%ff%00&ttl=60", (b"miniqueue-header-trace", b"7f")) == wanted
    assert await publish(world, b"", (b"miniqueue-header-a", b"")) == (201, wanted[1] | {b"message-id": b"0-1"})
    held = await world.holding(b"t")
    expiry = (START_MS + 60_000).to_bytes(8, "little")
    assert held.leases[0].attributes[0].endswith(b"\xff\x00\x03\x08\x00\x00\x00" + expiry)


async def test_a_publish_without_options_has_no_id_in_its_reply(world):
    assert await publish(world, b"", (b"x-header", b"1")) == (201, {b"content-length": b"0"})


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        (b"dely=5", [], 400),
        (b"delay=-1", [], 400),
        (b"key=", [], 400),
        (b"key=a&key=b", [], 400),
        (b"header=a", [], 400),
        (b"=", [], 400),
        (b"\xff", [], 400),
        (b"", [(b"miniqueue-header-", b"x")], 400),
        (b"", [(b"miniqueue-header-a", b"x" * 70_000)], 400),
        (b"key=k", [NDJSON], 400),
    ],
)
async def test_a_request_that_is_wrong_is_refused_and_stores_nothing(query, headers, status, world):
    assert (await publish(world, query, *headers))[0] == status
    assert world.broker.topics() == []


async def test_lines_take_options_as_members(certificates):
    async with serving(certificates) as served:
        lines = [
            b'"plain"',
            b'{"msg":"eA==","key":"ada","headers":{"trace":"7f"}}',
            b'{"msg":"eQ==","headers":[["a","1"]],"ttl":60}',
            b'{"msg":"eg==","colour":"red"}',
            b'{"msg":"eg==","delay":"soon"}',
            b'{"key":"ada"}',
            b'"last"',
        ]
        _, body = await served.request("POST", "/publish/t", b"\n".join(lines), NDJSON)
        answers = [orjson.loads(line) for line in body.splitlines()]
        assert [answer.get("id") for answer in answers] == ["0-0", "0-1", "0-2", None, None, None, "0-3"]
        assert answers[3]["error"].startswith("there is no option colour")
        assert answers[5]["error"].startswith("a line is a JSON string")
        _status, body = await served.request("POST", "/topics/t/receive?count=10")
        received = [orjson.loads(line) for line in body.splitlines()]
        assert [(m.get("key"), m.get("headers"), m.get("expiresAtMs")) for m in received] == [
            (None, None, None),
            ("ada", [["trace", "7f"]], None),
            (None, [["a", "1"]], START_MS + 60_000),
            (None, None, None),
        ]


async def test_what_is_received_can_be_published_again(certificates):
    async with serving(certificates) as served:
        headers = (b"miniqueue-header-trace", b"7f"), (b"Miniqueue-Header-Other".lower(), b"a b")
        assert (await served.request("POST", "/publish/t?key=ada", b"x", *headers))[0] == 201
        _, body = await served.request("POST", "/topics/t/receive")
        received = orjson.loads(body)
        line = orjson.dumps({name: received[name] for name in ("msg", "key", "headers")})
        assert (await served.request("POST", "/publish/u", line, NDJSON))[1] == b'{"id":"0-0"}\n'
        _, body = await served.request("GET", "/topics/u/messages/0-0")
        assert orjson.loads(body)["key"] == "ada"
        assert orjson.loads(body)["headers"] == [["trace", "7f"], ["other", "a b"]]


async def test_lines_get_errors_of_their_own(certificates):
    async with serving(certificates, limits=BrokerLimits(max_topic_messages=2)) as served:
        lines = b'{"msg":"eA==","key":"k"}\n' * 3 + b'"more"\n'
        _status, body = await served.request("POST", "/publish/t", lines, NDJSON)
        answers = [orjson.loads(line) for line in body.splitlines()]
        assert [sorted(answer) for answer in answers] == [["id"], ["id"], ["code", "error"], ["code", "error"]]


async def test_a_stream_with_prefetch_has_attributes_behind_the_counts(server, client):
    await client.say(b"PUB t a KEY k HEADER h v")
    await client.say(b"MPUBLISH t b c")
    attributes = b"$3\r\nkey\r\n$1\r\nk\r\n$7\r\nheaders\r\n*1\r\n*2\r\n$1\r\nh\r\n$1\r\nv\r\n"
    other = Client(server)
    reported = b"*3\r\n$1\r\n1\r\n$1\r\na\r\n*4\r\n" + attributes
    assert await other.say(b"SUBSCRIBE t PREFETCH 2") == reported + b"*3\r\n$1\r\n2\r\n$1\r\nb\r\n*0\r\n"
    returned = b"*3\r\n$1\r\n3\r\n$1\r\na\r\n*6\r\n$5\r\nnacks\r\n:1\r\n" + attributes
    assert await other.say(b"NACK 1") == b"+OK\r\n" + returned


@pytest.mark.parametrize(("query", "receipt"), [("", {}), ("?prefetch=2", {"receipt": "1"})])
async def test_a_stream_of_http_has_attributes(certificates, query, receipt):
    async with serving(certificates) as served:
        for path in ("/publish/t?key=k", "/publish/t"):
            await served.request("POST", path, b"x", *[(b"miniqueue-header-h", b"v")][: "?" in path])
        lines = Lines(await served.begin(f"/subscribe/t{query}"))
        lines.say("INIT")
        assert await lines.hear() == {**receipt, "msg": "eA==", "key": "k", "headers": [["h", "v"]]}
        lines.say(f"DACK 0 {receipt.get('receipt', '')}")
        assert await lines.hear() == ({"receipt": "2"} if receipt else {}) | {"msg": "eA=="}
