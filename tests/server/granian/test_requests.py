"""Bodies that do not come, where Granian serves; time is leapt over."""

import asyncio
import time

import pytest
from hyperframe.frame import DataFrame

from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.granian.requests import CHARGED_BYTES, Requests
from miniqueue.server.granian.server import serve_https
from miniqueue.server.hypercorn import HttpLimits
from miniqueue.server.hypercorn.limits import BODY_STALL_SECONDS, CHECK_SECONDS
from tests.loops import on_loop
from tests.server.apps import Endpoint, echo, never_answer
from tests.server.hypercorn.hostile import PATIENCE_SECONDS, LeapingLoop, leap, publish
from tests.server.hypercorn.raw_http2 import raw_http2
from tests.serving import eventually, serving

LATE_SECONDS = BODY_STALL_SECONDS + 3


class Exchange:
    """A request as a server hands it over: what comes is put in, what goes is kept."""

    def __init__(self, app) -> None:
        self.refusals = Refusals(time.monotonic)
        self.memory = Memory()
        self.requests = Requests(app, self.refusals, self.memory)
        self.incoming = asyncio.Queue()
        self.sent = []

    async def send(self, message):
        self.sent.append(message)

    async def run(self, *headers, method="POST", http_version="1.1"):
        fields = [(b"host", b"localhost"), *headers]
        line = {"method": method, "http_version": http_version}
        scope = {"type": "http", **line, "headers": fields, "client": ("192.0.2.1", 1)}
        await self.requests(scope, self.incoming.get, self.send)

    def put(self, body: bytes, *, more_body: bool) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more_body})


def statuses(exchange) -> list[int]:
    return [message["status"] for message in exchange.sent if "status" in message]


async def watched(exchange, act) -> None:
    watching = asyncio.create_task(exchange.requests.watch(lambda: None))
    try:
        await act()
    finally:
        watching.cancel()


@on_loop(LeapingLoop)
async def test_body_that_does_not_come_is_answered_408():
    exchange = Exchange(Endpoint(echo))

    async def act():
        request = asyncio.create_task(exchange.run())
        exchange.put(b"begun", more_body=True)
        await leap(LATE_SECONDS)
        await request
        assert statuses(exchange) == [408]
        assert b'"code":"TIMEOUT"' in exchange.sent[-1]["body"]
        assert dict(exchange.refusals.counts) == {"slow_body": 1}

    await watched(exchange, act)


@on_loop(LeapingLoop)
async def test_body_that_goes_on_is_waited_for():
    exchange = Exchange(Endpoint(echo))

    async def act():
        request = asyncio.create_task(exchange.run())
        for _ in range(5):
            exchange.put(b"x", more_body=True)
            await leap(5)
        exchange.put(b"", more_body=False)
        await request
        assert statuses(exchange) == [200]

    await watched(exchange, act)


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"4")]])
@on_loop(LeapingLoop)
async def test_application_that_takes_its_time_after_the_body_has_it(headers):
    may_answer = asyncio.Event()

    async def answer_late(scope, receive, send):
        await receive()
        await may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    exchange = Exchange(answer_late)

    async def act():
        request = asyncio.create_task(exchange.run(*headers))
        exchange.put(b"body", more_body=bool(headers))
        await leap(100)
        may_answer.set()
        await request
        assert statuses(exchange) == [200]

    await watched(exchange, act)


@on_loop(LeapingLoop)
async def test_stream_whose_reply_has_begun_may_be_silent():
    async def begin(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await never_answer(scope, receive, send)

    exchange = Exchange(begin)

    async def act():
        request = asyncio.create_task(exchange.run())
        await leap(1000)
        assert not request.done()
        exchange.incoming.put_nowait({"type": "http.disconnect"})
        await request
        assert statuses(exchange) == [200]

    await watched(exchange, act)


@on_loop(LeapingLoop)
async def test_cancelled_request_is_not_answered():
    exchange = Exchange(Endpoint(echo))
    request = asyncio.create_task(exchange.run())
    await leap(1)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert exchange.sent == []


@pytest.mark.parametrize("length", [(), (("content-length", "10"),)], ids=["of unknown length", "short"])
@on_loop(LeapingLoop)
async def test_body_that_does_not_come_over_the_network_is_answered_408(certificates, length):
    refusals = Refusals(time.monotonic)

    async def serve(app, listener, cert, key, trigger):
        await serve_https(app, listener, cert, key, trigger, HttpLimits(refusals))

    async with (
        serving(certificates, serve=serve, patience_seconds=PATIENCE_SECONDS) as served,
        raw_http2(served.port, served.cafile) as client,
    ):
        client.send(client.post(1, *length, path="/publish/t"))
        if not length:
            client.send(DataFrame(1, data=b"begun"))
        assert await publish(client, 3) == 201  # so the first has begun
        await leap(LATE_SECONDS)
        assert await client.status(1) == 408
        assert await publish(client, 5) == 201
        await eventually(lambda: refusals.counts.get("slow_body") == 1)


@on_loop(LeapingLoop)
async def test_short_body_that_comes_after_a_look_is_read(certificates):
    async with (
        serving(certificates, serve=serve_https, patience_seconds=PATIENCE_SECONDS) as served,
        raw_http2(served.port, served.cafile) as client,
    ):
        client.send(client.post(1, ("content-length", "4"), path="/publish/t"))
        assert await publish(client, 3) == 201  # so Granian has the first
        await leap(CHECK_SECONDS + 1)
        client.send(DataFrame(1, data=b"body", flags=["END_STREAM"]))
        assert await client.status(1) == 201


async def read_all(scope, receive, send):
    """Answer when the body has come; nothing when the client has gone."""
    message = await receive()
    while message.get("more_body", False):
        message = await receive()
    if message["type"] == "http.request":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(("http_version", "closes"), [("1.1", True), ("2", False)])
async def test_a_body_that_is_not_valid_is_answered_400(http_version, closes):
    exchange = Exchange(read_all)
    exchange.incoming.put_nowait({"type": "http.disconnect"})
    await exchange.run(http_version=http_version)
    assert exchange.sent[0]["status"] == 400
    assert ((b"connection", b"close") in exchange.sent[0]["headers"]) == closes


@pytest.mark.parametrize(
    ("headers", "line"),
    [([], {"method": "CONNECT"}), ([(b"host", b"other")], {}), ([], {"method": "CONNECT", "http_version": "2"})],
)
async def test_a_request_with_two_meanings_does_not_reach_the_application(headers, line):
    exchange = Exchange(read_all)
    exchange.put(b"body", more_body=False)
    await exchange.run(*headers, **line)
    assert exchange.sent[0]["status"] == 400
    assert exchange.incoming.qsize() == 1


async def test_a_request_with_one_host_does():
    exchange = Exchange(read_all)
    exchange.put(b"body", more_body=False)
    await exchange.run()
    assert exchange.sent[0]["status"] == 200


async def test_large_parts_of_bodies_are_charged_until_the_request_ends():
    charged = []

    async def app(scope, receive, send):
        for _ in range(2):
            await receive()
            charged.append(exchange.memory.amounts())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    exchange = Exchange(app)
    exchange.put(bytes(CHARGED_BYTES + 1), more_body=True)
    exchange.put(bytes(CHARGED_BYTES + 2), more_body=False)
    await exchange.run()
    assert charged == [{Purpose.INPUT: CHARGED_BYTES + 1}, {Purpose.INPUT: 2 * CHARGED_BYTES + 3}]
    assert exchange.memory.amounts() == {}
