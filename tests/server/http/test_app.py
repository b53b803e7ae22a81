import asyncio

import pytest

from tests.fakes import FakeConsumer
from tests.serving import NDJSON, eventually, serving

TOPIC_RULE = (
    b'{"error":"A topic name is 1 to 255 bytes of UTF-8 without control characters, white space or \'/\'",'
    b'"code":"BADTOPIC"}'
)
TOO_LARGE = b'{"error":"message of 11 bytes is over the limit of 10 (-max-message-size)","code":"TOOBIG"}'
NO_PAGE = b'{"error":"404 page not found","code":"NOTFOUND"}'
NO_METHOD = b'{"error":"Method not allowed for this path; see the header Allow","code":"METHODNOTALLOWED"}'

REQUESTS = [
    ("POST", "/publish/t", b"hello", 201, b""),
    ("POST", "/publish/t", b"", 201, b""),
    ("POST", "/publish/t", b"\x00\xff\r\n", 201, b""),
    ("POST", "/publish/t?delay=1", b"x", 201, b""),
    ("POST", "/publish/%C3%A4", b"x", 201, b""),
    ("POST", "/publish/t", b"x" * 10, 201, b""),
    ("POST", "/publish/t", b"x" * 11, 413, TOO_LARGE),
    ("POST", "/publish/%ff", b"x", 400, TOPIC_RULE),
    ("POST", "/publish/a%00b", b"x", 400, TOPIC_RULE),
    ("POST", "/publish/a%20b", b"x", 400, TOPIC_RULE),
    ("POST", "/publish%2Fa", b"x", 400, TOPIC_RULE),
    ("POST", "/publish/" + "a" * 256, b"x", 400, TOPIC_RULE),
    ("POST", "/subscribe/%ff", b"", 400, TOPIC_RULE),
    ("DELETE", "/%ff", b"", 400, TOPIC_RULE),
    ("DELETE", "/t", b"", 200, b""),
    ("DELETE", "/unknown", b"", 200, b""),
    ("POST", "/publish/a/b", b"", 404, NO_PAGE),
    ("POST", "/publish/a%2Fb", b"", 404, NO_PAGE),
    ("POST", "/publish/t/", b"", 404, NO_PAGE),
    ("GET", "/", b"", 404, NO_PAGE),
    ("GET", "/publish/t", b"", 405, NO_METHOD),
    ("PUT", "/subscribe/t", b"", 405, NO_METHOD),
    ("POST", "/t", b"", 405, NO_METHOD),
    ("DELETE", "/publish/t", b"", 405, NO_METHOD),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "reply"), REQUESTS)
async def test_request_and_reply(certificates, method, path, body, status, reply):
    async with serving(certificates, max_message_bytes=10) as served:
        assert await served.request(method, path, body) == (status, reply)


async def test_published_body_is_delivered_unchanged(certificates):
    async with serving(certificates) as served:
        payload = bytes(range(256)) * 1000
        await served.request("POST", "/publish/t", payload)
        assert FakeConsumer(served.broker, b"t").drain() == [payload]


async def test_topic_is_percent_decoded(certificates):
    async with serving(certificates) as served:
        await served.request("POST", "/publish/%C3%A4%2D%3f", b"x")
        assert served.broker.topics() == ["ä-?".encode()]
        await served.request("DELETE", "/%c3%a4-%3F")
        assert served.broker.topics() == []


async def test_created_comes_after_the_commit(certificates):
    async with serving(certificates) as served:
        served.store.may_write.clear()
        request = asyncio.create_task(served.request("POST", "/publish/t", b"x"))
        await eventually(served.broker.topics)
        assert not request.done()
        served.store.may_write.set()
        assert await request == (201, b"")


async def test_failed_commit_is_503_and_says_that_the_outcome_is_unknown(certificates):
    async with serving(certificates) as served:
        served.store.fail_writes = {1}
        status, body = await served.request("POST", "/publish/t", b"x")
        assert status == 503
        assert b"may or may not have been kept" in body


@pytest.mark.parametrize("path", ["/publish/t", "/t"])
async def test_stopping_broker_is_503(certificates, path):
    async with serving(certificates) as served:
        await served.broker.stop()
        method = "POST" if path.startswith("/publish") else "DELETE"
        assert await served.request(method, path) == (
            503,
            b'{"error":"The broker is shutting down","code":"DRAINING"}',
        )
        if method == "POST":
            assert (await served.request(method, path, b'"x"\n', NDJSON))[0] == 503


@pytest.mark.parametrize("is_failing", [False, True], ids=["kept", "failing"])
@pytest.mark.parametrize(("path", "payload"), [("/publish/t", b"x"), ("/publish/t?unique=k", b"x"), ("/topics/t", b"")])
async def test_a_request_that_waits_for_a_commit_is_answered_when_the_broker_stops(
    certificates, path, payload, is_failing
):
    async with serving(certificates) as served:
        served.store.may_write.clear()
        method = "POST" if payload else "PUT"
        asking = asyncio.create_task(served.request(method, path, payload))
        await eventually(lambda: served.store.write_count)
        served.store.fail_writes = {1} if is_failing else set()
        served.app.drain()
        served.shutdown.set()
        served.store.may_write.set()
        status, body = await asking
        if is_failing:
            assert (status, b"UNKNOWN" in body) == (503, True)
        else:
            assert status in (200, 201)
            assert b"t" in served.broker.topics()


async def test_body_broken_off_publishes_nothing(certificates):
    async with serving(certificates) as served:
        whole, broken = await served.begin("/publish/whole"), await served.begin("/publish/broken")
        broken.write(b"half")
        broken.close()
        whole.write(b"x", is_last=True)
        assert await whole.response() == 201
        await served.stop()
        assert served.broker.topics() == [b"whole"]


async def test_reply_to_a_body_without_end_comes_and_the_connection_lives_on(certificates):
    async with serving(certificates, max_message_bytes=10) as served:
        client = await served.client()
        endless = await client._begin(b"POST", b"/publish/t")
        endless.write(b"x" * (4 << 20))
        assert await endless.response() == 413
        assert b"over the limit of 10" in await endless.read_all()
        await client.publish("t", b"x")


@pytest.mark.parametrize(
    ("encoding", "status"), [(b"identity", 201), (b"Identity", 201), (b"gzip", 415), (b"gzip, identity", 415)]
)
async def test_compressed_message_is_refused(certificates, encoding, status):
    async with serving(certificates) as served:
        headers = [(b"content-encoding", encoding), (b"content-type", b"text/plain")]
        assert (await served.request("POST", "/publish/t", b"x", *headers))[0] == status
        assert (await served.request("POST", "/publish/t", b'"x"', NDJSON, headers[0]))[0] in (status, 200)
        assert len(served.broker.stats()) == (0 if status == 415 else 1)
