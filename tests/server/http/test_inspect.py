"""A look into topics over HTTP."""

import asyncio

import orjson
import pytest

from miniqueue.broker.inspect import recent
from miniqueue.core.message.attributes import Attributes
from miniqueue.server.http.app import HttpApp
from tests.fakes import START_MS, FakeConsumer, settle_down
from tests.serving import serving

NO_TOPIC = b'{"error":"There is no such topic","code":"NOTOPIC"}'
BAD_COUNT = b'{"error":"a count is a whole number from 1 to 1000","code":"BADOPTION"}'
NO_MESSAGE = b'{"error":"There is no such message: it never was, or was acknowledged","code":"NOMESSAGE"}'


async def fill(served):
    """Leave one message ready, one leased, one delayed; one was acknowledged."""
    attributes = [b"", b"", b"", Attributes(headers=((b"h", b"\xff"),), key=b"k", expires_at_ms=5).encode()]
    await served.broker.publish(b"t", [b"a", b"b", b"c", b"\xff"], attributes).commit.wait()
    holders = [FakeConsumer(served.broker, b"t") for _ in range(3)]
    for holder in holders:
        holder.consumer.request()
    holders[0].consumer.ack()
    holders[1].consumer.dack(60)


async def ask(certificates, *paths):
    async with serving(certificates) as served:
        await fill(served)
        return [await served.request("GET", path) for path in paths]


READY = {
    "id": "0-3",
    "msg": "/w==",
    "state": "ready",
    "publishedAtMs": START_MS,
    "deliveries": 0,
    "key": "k",
    "expiresAtMs": 5,
    "headers": [["h", "\ufffd"]],
}
LEASED = {"id": "0-2", "msg": "Yw==", "state": "leased", "publishedAtMs": START_MS, "deliveries": 1}
DELAYED = {
    "id": "0-1",
    "msg": "Yg==",
    "state": "delayed",
    "publishedAtMs": START_MS,
    "dueAtMs": START_MS + 60_000,
    "deliveries": 1,
    "dacks": 1,
}


async def test_messages_by_state_and_by_id(certificates):
    base = "/topics/t/messages"
    replies = await ask(
        certificates,
        *(base, f"{base}?state=leased&count=5", f"{base}?state=delayed", f"{base}?after=0-3"),
        *(f"{base}/0-3", f"{base}/0-2", f"{base}/0-1"),
    )
    assert [status for status, _ in replies] == [200] * 7
    bodies = [orjson.loads(body) for _, body in replies]
    assert bodies[:4] == [{"messages": messages} for messages in ([READY], [LEASED], [DELAYED], [])]
    assert bodies[4:] == [READY, LEASED, DELAYED]


async def test_statistics_of_topics(certificates):
    listed, inspected = await ask(certificates, "/topics", "/topics/t")
    assert orjson.loads(listed[1]) == {"topics": [{"topic": "t", "depth": 3, "ready": 1, "leased": 1, "delayed": 1}]}
    statistics = orjson.loads(inspected[1])
    assert statistics["topic"] == "t"
    assert (statistics["depth"], statistics["oldest_seconds"], statistics["latency_p50_seconds"]) == (3, 0.0, 0.001)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/topics/other/messages/0-1", 404, NO_TOPIC),
        ("/topics/t/messages/0-0", 404, NO_MESSAGE),
        (
            "/topics/t/messages/x",
            400,
            b'{"error":"the id of a message is its partition and its number, as in 0-17 or 0.high-17",'
            b'"code":"BADOPTION"}',
        ),
        (
            "/topics/t/messages?count=%ff",
            400,
            BAD_COUNT,
        ),
        ("/topics/t/messages?state=", 400, None),
        ("/topics/t/messages?limit=1", 400, None),
        ("/topics/t/messages?count=1&count=2", 400, None),
        ("/topics/%ff", 400, None),
        ("/topics/", 404, None),
        ("/topics/t/what", 404, None),
        ("/topics/t/messages/0-1/what", 404, None),
    ],
)
async def test_invalid_requests_are_refused(certificates, path, status, body):
    ((actual_status, text),) = await ask(certificates, path)
    assert actual_status == status
    assert body is None or text == body


async def test_a_topic_may_be_called_topics(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/publish/topics", b"x"))[0] == 201
        assert orjson.loads((await served.request("GET", "/topics"))[1])["topics"][0]["topic"] == "topics"
        assert (await served.request("DELETE", "/topics"))[0] == 200
        assert orjson.loads((await served.request("GET", "/topics"))[1]) == {"topics": []}


@pytest.mark.parametrize(
    ("query", "status", "body"),
    [
        ("", 200, b'{"removed":2}'),
        ("?state=ready", 200, b'{"removed":1}'),
        ("?state=delayed&older=0", 200, b'{"removed":1}'),
        ("?older=60", 200, b'{"removed":0}'),
    ],
)
async def test_messages_are_cleared_away(certificates, query, status, body):
    async with serving(certificates) as served:
        await fill(served)
        assert await served.request("POST", f"/topics/t/purge{query}") == (status, body)


async def test_topics_are_listed_once_a_second_if_they_are_many(certificates, monkeypatch):
    monkeypatch.setattr(recent, "MANY_TOPICS", 1)
    async with serving(certificates) as served:
        for topic in (b"a", b"b"):
            await served.broker.publish(topic, [b"x"]).commit.wait()
        listed = [await served.request("GET", "/topics")]
        await served.broker.publish(b"c", [b"x"]).commit.wait()
        listed.append(await served.request("GET", "/topics"))
        served.clock.advance(recent.RECENT_SECONDS)
        listed.append(await served.request("GET", "/topics"))
    names = [[topic["topic"] for topic in orjson.loads(body)["topics"]] for _, body in listed]
    assert names == [["a", "b"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("path", ["/topics/t/messages", "/topics/t/search", "/topics/t"])
async def test_what_only_shows_something_ends_when_its_client_leaves(path, world):
    await world.publish(b"t", b"x")
    await world.restart()
    has_left = asyncio.Event()

    async def hear():
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(_message):
        raise AssertionError

    before = asyncio.all_tasks()
    world.store.may_scan.clear()
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    request = asyncio.create_task(HttpApp(world.broker)({**scope, "headers": []}, hear, send))
    await settle_down()
    assert not request.done()
    has_left.set()
    await settle_down()
    assert request.done()
    assert asyncio.all_tasks() <= before | {request}
    world.store.may_scan.set()
