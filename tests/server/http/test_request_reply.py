"""Requests and replies over HTTP, on both servers."""

import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest

from miniqueue.server.granian.server import serve_https as serve_granian
from miniqueue.server.http.app import HttpApp
from miniqueue.server.hypercorn.listening import serve_https as serve_hypercorn
from tests.fakes import settle_down
from tests.model.protocols import HttpRequest
from tests.serving import NDJSON, eventually, serving


@pytest.fixture(params=[serve_hypercorn, serve_granian], ids=["hypercorn", "granian"])
def serve(request):
    if request.param is serve_granian:
        pytest.importorskip("granian")
    return request.param


@asynccontextmanager
async def served_by(certificates, serve):
    async with serving(certificates, serve=serve) as served:
        yield served


async def receive(served) -> dict[str, object]:
    status, body = await served.request("POST", "/topics/t/receive?wait=10")
    assert status == 200
    return orjson.loads(body)


async def reply(served, receipt, payload=b"done"):
    return await served.request("POST", f"/topics/t/reply?receipt={receipt}", payload)


async def test_the_reply_to_a_message_is_the_reply_to_its_request(certificates, serve):
    async with served_by(certificates, serve) as served:
        asking = asyncio.create_task(served.request("POST", "/request/t?timeout=30&key=k", b"ask"))
        message = await receive(served)
        assert message["key"] == "k"
        assert message["replyTo"]
        assert await reply(served, message["receipt"], b"\x00\xff") == (200, b"")
        assert await asking == (200, b"\x00\xff")
        assert (await reply(served, message["receipt"]))[0] == 409
        assert served.broker.stats()[b"t"].acknowledged == 1


async def test_a_message_that_asks_nothing_gets_no_reply(certificates, serve):
    async with served_by(certificates, serve) as served:
        await served.request("POST", "/publish/t", b"a")
        message = await receive(served)
        status, answer = await reply(served, message["receipt"])
        assert (status, orjson.loads(answer)["error"][:18]) == (409, "The message asks f")
        assert served.broker.stats()[b"t"].leased == 1


async def test_without_a_reply_in_time_there_is_504_and_a_late_one_gets_410(certificates, serve):
    async with served_by(certificates, serve) as served:
        asking = asyncio.create_task(served.request("POST", "/request/t?timeout=2", b"ask"))
        message = await receive(served)
        assert (await asking)[0] == 504
        assert (await reply(served, message["receipt"]))[0] == 410


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/request/t?timeout=1&timeout=2", 400),
        ("/request/t?delay=1", 400),
        ("/request/t?what=1", 400),
        ("/request/%20", 400),
        ("/topics/t/reply", 400),
        ("/topics/t/reply?receipt=1&receipt=2", 400),
        ("/topics/%20/reply?receipt=1", 400),
    ],
)
async def test_invalid_requests_are_refused(certificates, serve, path, status):
    async with served_by(certificates, serve) as served:
        assert (await served.request("POST", path, b"x"))[0] == status
        assert served.broker.topics() == []


async def test_a_request_has_one_message(certificates, serve):
    async with served_by(certificates, serve) as served:
        assert (await served.request("POST", "/request/t", b'"x"\n', NDJSON))[0] == 400


async def test_a_client_that_leaves_is_not_waited_for(certificates, serve):
    async with served_by(certificates, serve) as served:
        stream = await served.begin("/request/t?timeout=60")
        stream.write(b"ask", is_last=True)
        message = await receive(served)
        assert served.broker.requests.waiting_count == 1
        stream.close()
        await eventually(lambda: not served.broker.requests.waiting_count)
        assert (await reply(served, message["receipt"]))[0] == 410


async def test_waiting_requests_are_answered_when_the_server_stops(certificates, serve):
    async with served_by(certificates, serve) as served:
        asking = asyncio.create_task(served.request("POST", "/request/t?timeout=60", b"ask"))
        await eventually(lambda: served.broker.requests.waiting_count)
        served.app.drain()
        assert (await asking)[0] in (503, 504)
        assert (await served.request("POST", "/request/t", b"ask"))[0] == 503


async def test_a_request_whose_body_comes_after_the_stop_began_is_refused(world):
    app = HttpApp(world.broker)
    request = HttpRequest(app, "POST", b"/request/t", b"timeout=60")
    await settle_down()
    app.drain()
    request.send(b"ask", is_last=True)
    await settle_down()
    assert (request.status, orjson.loads(request.take())["code"]) == (503, "DRAINING")
    assert request.is_over
    assert world.broker.topics() == []
