"""Dedup ids, unique keys and batches over RESP and HTTP: replies to duplicates, and rejected requests."""

import asyncio
import re
from struct import pack

import orjson
import pytest

from miniqueue.server.http import publish
from miniqueue.server.http.app import HttpApp
from miniqueue.storage.format import keys
from tests.broker.support import started_world, world_with
from tests.fakes import settle_down
from tests.server.resp.clients import Client, started_server

NDJSON = (b"content-type", b"application/x-ndjson")


async def post(world, query: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[int, dict, list]:
    """Publish to t over HTTP, without a server; return status, headers, and the lines of the body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/publish/t", "raw_path": b"/publish/t"}
    asking = asyncio.create_task(
        HttpApp(world.broker)(scope | {"query_string": query, "headers": [*headers]}, receive, send)
    )
    await settle_down()
    await asking
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), [orjson.loads(line) for line in content.splitlines()]


async def test_pub_tells_whether_it_was_a_duplicate_when_it_might_be_one(server, client):
    assert await client.say(b"PUB t x DEDUP 7f") == b"*2\r\n$3\r\n0-0\r\n:0\r\n"
    assert await client.say(b"PUB t x DEDUP 7f") == b"*2\r\n$3\r\n0-0\r\n:1\r\n"
    assert await client.say(b"PUB t x UNIQUE eu") == b"*2\r\n$3\r\n0-1\r\n:0\r\n"
    assert await Client(server).say(b"PUB t x UNIQUE eu DEDUP 80") == b"*2\r\n$3\r\n0-1\r\n:1\r\n"
    assert await client.say(b"PUB t x") == b"$3\r\n0-2\r\n"


async def test_replies_keep_their_order_also_of_publishes_with_keys(client):
    client.send(b"PUB", b"t", b"a", b"UNIQUE", b"eu")
    client.send(b"PING")
    client.send(b"PUB", b"t", b"b", b"DEDUP", b"1")
    client.send(b"PUB", b"t", b"b", b"DEDUP", b"1")
    await settle_down()
    assert client.transport.take() == b"*2\r\n$3\r\n0-0\r\n:0\r\n+PONG\r\n" + b"".join(
        b"*2\r\n$3\r\n0-1\r\n:%d\r\n" % is_duplicate for is_duplicate in (0, 1)
    )


async def test_pubbatch_answers_the_ids_of_all_and_the_same_once_more(world, client):
    ids = b"*2\r\n$3\r\n0-0\r\n$3\r\n0-1\r\n"
    assert await client.say(b"PUBBATCH t 7f a b") == b"*2\r\n" + ids + b":0\r\n"
    assert await client.say(b"PUBBATCH t 7f a b") == b"*2\r\n" + ids + b":1\r\n"
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_pubeach_has_options_for_each_message(world, client):
    line = b"PUBEACH t 7f a 2 KEY k b 0 c 5 HEADER h v TTL 60"
    ids = b"*3\r\n$3\r\n0-0\r\n$3\r\n0-1\r\n$3\r\n0-2\r\n"
    assert await client.say(line) == b"*2\r\n" + ids + b":0\r\n"
    assert await client.say(line) == b"*2\r\n" + ids + b":1\r\n"
    holders = [await world.holding(b"t") for _ in range(3)]
    assert [holder.payloads for holder in holders] == [[b"a"], [b"b"], [b"c"]]
    assert b"$3\r\nkey\r\n$1\r\nk\r\n" in await client.say(b"PEEK t STATE leased")


async def test_pubpacked_has_all_messages_in_a_word_and_answers_runs_of_ids(world, client):
    words = b"PUBPACKED", b"t", b"7f", pack("<3I", 3, 0, 5), b"onethree", pack("<3I", 0, 1, 1), b"kl"
    for is_duplicate in (0, 1):
        client.send(*words)
        await settle_down()
        assert client.transport.take() == b"*2\r\n*2\r\n$3\r\n0-0\r\n:3\r\n:%d\r\n" % is_duplicate
    shown = await client.say(b"PEEK t COUNT 3")
    assert [shown.count(word) for word in (b"one", b"three", b"key", b"$1\r\nk", b"$1\r\nl")] == [1, 1, 2, 1, 1]
    assert await world.drain(b"t") == [b"one", b"", b"three"]


async def test_pubpacked_is_split_by_key_as_any_batch(client):
    await client.say(b"TOPIC CREATE t partitions 2")
    keys = [b"%d" % number for number in range(8)]
    each = [word for key in keys for word in (b"x", b"2", b"KEY", key)]
    client.send(b"PUBEACH", b"t", b"7f", *each)
    await settle_down()
    ids = re.findall(rb"[01]-[0-9]+", client.transport.take())
    client.send(b"PUBPACKED", b"t", b"7f", pack("<I", 1), b"y")
    await settle_down()
    reported = client.transport.take()
    assert reported.endswith(b":1\r\n")
    runs = re.findall(rb"([01]-)([0-9]+)\r\n:([0-9]+)", reported)
    assert [b"%b%d" % (part, int(seq) + n) for part, seq, count in runs for n in range(int(count))] == ids


@world_with(max_message_bytes=10)
async def test_words_of_pubpacked_may_be_longer_than_a_message(world, client):
    count = 1000
    client.send(b"PUBPACKED", b"t", b"7f", pack(f"<{count}I", *[4] * count), b"abcd" * count)
    await settle_down()
    assert client.transport.take() == b"*2\r\n*2\r\n$3\r\n0-0\r\n:1000\r\n:0\r\n"
    assert await world.drain(b"t") == [b"abcd"] * count


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PUBPACKED t 7f xxxx", b"-ERR invalid number of args, want: at least 5; syntax: "),
        (b"PUBPACKED t 7f xxxx a", b"-BADOPTION a size is 4 bytes, little-endian"),
        (b"PUBPACKED t 7f \1\0\0\0 a b", b"-BADOPTION behind the messages is nothing"),
        (b"PUBPACKED t 7f \x0e\0\0\0 0123456789abcd", b"-TOOBIG "),
        (b"PUBPACKED a/b 7f \1\0\0\0 a", b"-BADTOPIC "),
        (b"PUBPACKED off 7f \1\0\0\0 a", b"-BADOPTION the topic takes no dedup ids"),
        (b"PUBEACH t 7f a", b"-ERR invalid number of args, want: at least 5; syntax: "),
        (b"PUBEACH t 7f a 0 b", b"-BADOPTION behind each message is the number"),
        (b"PUBEACH t 7f a 2 KEY", b"-BADOPTION behind each message is the number"),
        (b"PUBEACH t 7f a -1", b"-BADOPTION behind each message is the number"),
        (b"PUBEACH t 7f a 999999", b"-BADOPTION behind each message is the number"),
        (b"PUBEACH t 7f a 2 COLOUR red", b"-BADOPTION there is no option colour"),
        (b"PUBEACH t 7f a 2 PRIORITY high", b"-BADOPTION "),
        (b"PUBEACH t 7f a 0 0123456789x 0", b"-TOOBIG "),
        (b"PUBBATCH t 7f", b"-ERR invalid number of args, want: at least 4; syntax: "),
        (b"PUBBATCH a/b 7f a", b"-BADTOPIC "),
        (b"PUBBATCH t 7f 0123456789x", b"-TOOBIG "),
        (b"PUB t 0123456789x UNIQUE k", b"-TOOBIG "),
        (b"PUB a/b x UNIQUE k", b"-BADTOPIC "),
        (b"PUB off x DEDUP 1", b"-BADOPTION the topic takes no dedup ids"),
        (b"PUBBATCH off 1 x", b"-BADOPTION the topic takes no dedup ids"),
    ],
)
@world_with(max_message_bytes=10)
async def test_what_is_wrong_is_refused_and_adds_nothing(line, reply, client):
    await client.say(b"TOPIC CREATE off dedup_window_seconds 0")
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"TOPICS") == b"*1\r\n$3\r\noff\r\n"
    assert await client.say(b"LEN off") == b":0\r\n"


async def test_over_http_a_duplicate_is_200_with_the_first_id(world):
    for query in (b"dedup=7f", b"unique=eu"):
        first, second = [await post(world, query, b"x") for _ in range(2)]
        assert (first[0], second[0]) == (201, 200)
        assert first[1][b"message-id"] == second[1][b"message-id"]
        assert b"duplicate" not in first[1]
        assert second[1][b"duplicate"] == b"true"
    assert await world.drain(b"t") == [b"x", b"x"]


async def test_lines_have_ids_and_keys_of_their_own(world):
    lines = b'{"msg":"YQ==","dedup":"1"}\n{"msg":"YQ==","dedup":"1"}\n{"msg":"Yg==","unique":"u"}\n'
    status, _, answers = await post(world, b"", lines + b'{"msg":"Yg==","unique":"u"}\n"plain"\n', NDJSON)
    assert status == 200
    assert answers == [
        {"id": "0-0"},
        {"id": "0-0", "duplicate": True},
        {"id": "0-1"},
        {"id": "0-1", "duplicate": True},
        {"id": "0-2"},
    ]


async def test_lines_under_one_id_are_added_once_all_together(world):
    lines = b'"a"\n{"msg":"Yg==","key":"k","headers":{"h":"v"}}\n"c"'
    first = await post(world, b"dedup=7f", lines, NDJSON)
    second = await post(world, b"dedup=7f", lines, NDJSON)
    assert (first[0], first[2]) == (201, [{"id": "0-0"}, {"id": "0-1"}, {"id": "0-2"}])
    assert (second[0], second[1][b"duplicate"]) == (200, b"true")
    assert second[2] == [{"id": f"0-{seq}", "duplicate": True} for seq in range(3)]
    holders = [await world.holding(b"t") for _ in range(3)]
    assert [holder.payloads for holder in holders] == [[b"a"], [b"b"], [b"c"]]


@pytest.mark.parametrize(
    ("query", "lines", "text"),
    [
        (b"dedup=7f", b'"a"\nb\n"c"', "line 2 of the batch: the line is not JSON; nothing was published"),
        (b"dedup=7f", b"", "invalid number of lines: 0; must be 1 to 3 for a batch"),
        (b"dedup=7f", b'"a"\n' * 4, "invalid number of lines: 4; must be 1 to 3 for a batch"),
        (b"dedup=7f", b'{"msg":"","priority":"high"}', "headers, key and ttl, and no other options"),
        (b"dedup=7f&key=k", b'"a"', "only dedup applies to all JSON lines"),
        (b"key=k", b'"a"', "only dedup applies to all JSON lines"),
    ],
)
async def test_a_batch_with_something_wrong_is_refused_as_a_whole(monkeypatch, query, lines, text):
    monkeypatch.setattr(publish, "MAX_BATCH_MESSAGES", 3)

    async with started_world() as world:
        status, _, (answer,) = await post(world, query, lines, NDJSON)
        assert status == 400
        assert text in answer["error"]
        assert world.broker.topics() == []


PACKED = (pack("<II", 1, 1), b"ab", pack("<II", 1, 0), b"k")
#: Each way to publish under a dedup id, as words in front of the id and behind it.
WAYS = {
    "PUB": ((b"PUB", b"t", b"a", b"DEDUP"), ()),
    "PUBBATCH": ((b"PUBBATCH", b"t"), (b"a", b"b")),
    "PUBEACH": ((b"PUBEACH", b"t"), (b"a", b"2", b"KEY", b"k", b"b", b"0")),
    "PUBPACKED": ((b"PUBPACKED", b"t"), PACKED),
}


@pytest.mark.parametrize("way", WAYS)
async def test_other_content_under_an_id_is_refused_if_a_digest_shows_it(way):
    front, behind = WAYS[way]

    async with started_server() as (world, _server, client):

        async def reply(dedup_id: bytes) -> bytes:
            client.send(*front, dedup_id, *behind)
            await settle_down()
            return client.transport.take()

        first = await reply(b"7f?digest=aa")
        assert first.endswith(b":0\r\n")
        assert (await reply(b"7f?digest=bb")).startswith(b"-MISMATCH ")
        assert await reply(b"7f?digest=aa") == first[:-3] + b"1\r\n"
        assert await reply(b"7f") == first[:-3] + b"1\r\n"
        assert await world.drain(b"t") == [b"a", b"b"][: 1 if way == "PUB" else 2]


@pytest.mark.parametrize("way", WAYS)
async def test_a_digest_without_an_id_is_refused(way):
    front, behind = WAYS[way]

    async with started_server() as (world, _server, client):
        client.send(*front, b"?digest=aa", *behind)
        await settle_down()
        reported = b"dedup has no id before ?digest=: a digest belongs to an id"
        assert client.transport.take() == b"-BADOPTION " + reported + b"\r\n"
        line = b'{"msg":"YQ=="}\n'
        for query, *headers in [(b"dedup=?digest=aa",), (b"dedup=%3Fdigest%3Daa", NDJSON)]:
            status, _, [answer] = await post(world, query, line, *headers)
            assert (status, answer["error"]) == (400, reported.decode())
        member = b'{"msg":"YQ==","dedup":"?digest=aa"}\n'
        _, _, [answer] = await post(world, b"", member, NDJSON)
        assert answer["error"].endswith(reported.decode())
        assert await world.drain(b"t") == []


@pytest.mark.parametrize("way", [way for way in WAYS if way != "PUB"])
async def test_a_batch_with_an_empty_id_is_published_each_time_and_leaves_no_id(way):
    front, behind = WAYS[way]

    async with started_server() as (world, _server, client):
        await client.say(b"TOPIC CREATE t dedup_window_seconds 0")
        for _ in range(2):
            client.send(*front, b"", *behind)
            await settle_down()
            assert client.transport.take().endswith(b":0\r\n")
        assert await world.drain(b"t") == [b"a", b"b"] * 2
        assert not any(key[0] == keys.Space.DEDUP for key in world.store.pairs())


async def test_a_message_replaces_the_one_with_its_unique_key_unless_a_consumer_has_that(speaker):
    newer = {"unique": "u", "replace": True}
    assert await speaker.publish("t", b"first", **newer) == "0-0"
    assert await speaker.publish("t", b"last", **newer) == "0-1"
    (held,) = await speaker.receive("t", count=2)
    assert held["msg"] == b"last"
    assert await speaker.publish("t", b"late", **newer) == "0-1"
    await speaker.settle("ACK", "t", held["receipt"])
    assert await speaker.publish("t", b"next", **newer) == "0-2"


async def test_json_lines_replace_too(world):
    lines = b'{"msg":"YQ==","unique":"u"}\n{"msg":"Yg==","unique":"u","replace":true}\n'
    status, _, answers = await post(world, b"", lines, NDJSON)
    assert (status, [answer["id"] for answer in answers]) == (200, ["0-0", "0-1"])
    assert await world.drain(b"t") == [b"b"]


async def test_other_json_lines_under_an_id_are_refused_where_a_digest_shows_it(world):
    lines = b'{"msg":"YQ==","headers":{"n":"v"}}\n'

    assert (await post(world, b"dedup=7f%3Fdigest%3Daa", lines, NDJSON))[0] == 201
    status, _, [answer] = await post(world, b"dedup=7f?digest=bb", lines, NDJSON)
    assert (status, answer["error"]) == (
        422,
        "The dedup id was used for another content: the digests differ; publish other content under another id",
    )
    assert (await post(world, b"dedup=7f?digest=aa", lines, NDJSON))[0] == 200
