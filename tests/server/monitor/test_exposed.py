"""Monitoring that other machines reach: open are liveness and readiness, without details."""

import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest

from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.errors import CorruptionError
from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.connection_limits import ConnectionLimits
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on
from tests.server.access import sign_in_for, token_of

ELSEWHERE = (b"host", b"queue.example:8081")


async def ask(app, path, *headers):
    """Return the status and the beginning of the body."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [ELSEWHERE, *headers]}
    await app(scope | {"client": ("10.0.0.1", 50_000)}, asyncio.Event().wait, send)
    return sent[0]["status"], sent[1]["body"]


@asynccontextmanager
async def exposed(sign_in=None):
    """Yield app and broker with a broker that has a topic that cannot be read."""

    broker = broker_on(FaultyStore(), ManualClock())
    await broker.start()
    try:
        consumer = FakeConsumer(broker, b"t")
        broker._engine.topics.by_name[b"t"].fault = CorruptionError("bytes are missing")
        yield MonitorApp(broker, sign_in, is_exposed=True), broker
        consumer.consumer.close()
    finally:
        await broker.stop()


def bearer(name):
    return b"authorization", b"Bearer " + token_of(name)


@pytest.mark.parametrize("headers", [[], [bearer("publisher")], [bearer("monitor")], [bearer("stranger")]])
async def test_readiness_tells_no_details_to_who_may_not_monitor_the_broker(headers):
    async with exposed(sign_in_for()) as (app, broker):
        status, body = await ask(app, "/readyz", *headers)
        assert (status, orjson.loads(body)) == (200, {"status": "degraded"})
        await broker.stop()
        status, body = await ask(app, "/readyz", *headers)
        assert (status, orjson.loads(body)) == (503, {"status": "not ready", "refused": ["publish"]})
        assert await ask(app, "/livez", *headers) == (200, b'{"status":"ok"}')


@pytest.mark.parametrize("name", ["monitor-of-all", "admin-of-all"])
async def test_readiness_tells_reasons_to_a_monitor(name):
    async with exposed(sign_in_for()) as (app, _broker):
        _, body = await ask(app, "/readyz", bearer(name))
        assert orjson.loads(body)["reasons"] == ["topic t: bytes are missing"]


async def test_without_users_everybody_is_told_reasons():
    async with exposed() as (app, _broker):
        _, body = await ask(app, "/readyz")
        assert orjson.loads(body)["reasons"] == ["topic t: bytes are missing"]


@pytest.mark.parametrize(("path", "status"), [("/metrics", 200), ("/stats", 200), ("/backup", 200), ("/changes", 400)])
async def test_all_else_takes_a_user(path, status):
    async with exposed(sign_in_for()) as (app, _broker):
        assert (await ask(app, path))[0] == 401
        assert (await ask(app, path, bearer("stranger")))[0] == 403
        assert (await ask(app, path, bearer("admin-of-all")))[0] == status


@pytest.mark.parametrize("path", ["/metrics", "/stats", "/backup"])
async def test_any_host_will_do(path):
    async with exposed() as (app, _broker):
        assert (await ask(app, path))[0] == 200


def test_its_connections_have_a_limit_of_their_own():
    loop = AcceptingLoop()
    try:
        with listen("127.0.0.1", 0) as queue, listen("127.0.0.1", 0) as monitor:
            loop.limits = ConnectionLimits(1, 0, LimitCounts())
            own = ConnectionLimits(2, 1, LimitCounts())
            loop.admit_to_reserve(monitor, own)
            loop.limits.opened("10.0.0.9")
            assert loop.limit_for("10.0.0.1", queue) is Limit.CONNECTIONS
            assert loop.limit_for("10.0.0.1", monitor) is None, "a crowd elsewhere keeps no operator out"
            own.opened("10.0.0.1")
            assert loop.limit_for("10.0.0.1", monitor) is Limit.CONNECTIONS_PER_ADDRESS
            own.opened("10.0.0.2")
            assert loop.limit_for("10.0.0.3", monitor) is Limit.CONNECTIONS
    finally:
        loop.close()
