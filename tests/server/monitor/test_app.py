import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from miniqueue import __version__
from miniqueue.errors import CorruptionError
from miniqueue.server.hypercorn.listening import listen, serve_plain
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.monitor.topic_metrics import FAMILIES
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on

HOST = [(b"host", b"localhost:8081")]


async def ask(app, path, method="GET"):
    """Return (status, headers, body) as an ASGI server sees them."""
    sent = []

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": method, "path": path, "headers": HOST}, None, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


@asynccontextmanager
async def monitored(store=None):
    """Yield app and broker with a broker that works."""

    broker = broker_on(store or FaultyStore(), ManualClock())
    await broker.start()
    try:
        yield MonitorApp(broker), broker
    finally:
        await broker.stop()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_all_is_well(path):
    async with monitored() as (app, _broker):
        assert await ask(app, path) == (
            200,
            {
                b"content-type": b"application/json",
                b"x-content-type-options": b"nosniff",
                b"content-length": b"15",
            },
            b'{"status":"ok"}',
        )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/x", 404),
        ("GET", "/stats/", 404),
        ("POST", "/healthz", 405),
        ("PUT", "/metrics", 405),
    ],
)
async def test_other_requests_are_refused(method, path, status):
    async with monitored() as (app, _broker):
        actual_status, headers, _ = await ask(app, path, method)
        assert actual_status == status
        assert headers.get(b"allow") == (b"GET" if status == 405 else None)


async def test_draining_broker_is_healthy_and_not_ready():
    async with monitored() as (app, broker):
        await broker.stop()
        assert [(await ask(app, path))[0] for path in ("/healthz", "/livez")] == [200, 200]
        status, _, body = await ask(app, "/readyz")
        assert status == 503
        assert orjson.loads(body) == {
            "status": "not ready",
            "refused": ["publish"],
            "reasons": ["The broker is shutting down"],
        }


async def test_a_full_disk_leaves_the_broker_ready_and_says_that_publishes_are_refused():
    async with monitored() as (app, broker):
        broker._engine.journal.admission.set_full(True, 0)
        status, _, body = await ask(app, "/readyz")
        assert (status, orjson.loads(body)["status"], orjson.loads(body)["refused"]) == (200, "degraded", ["publish"])


async def test_topic_that_cannot_be_read_is_a_reason():
    async with monitored() as (app, broker):
        consumer = FakeConsumer(broker, b"t")
        broker._engine.topics.by_name[b"t"].fault = CorruptionError("bytes are missing")
        assert orjson.loads((await ask(app, "/readyz"))[2])["reasons"] == ["topic t: bytes are missing"]
        assert b"miniqueue_damaged_topics 1.0" in (await ask(app, "/metrics"))[2]
        consumer.consumer.close()


async def leave_one_of_each(broker):
    """Publish five: one acknowledged, one leased, one delayed, two ready."""
    await broker.publish(b"t", [b"x"] * 5).commit.wait()
    first, second = FakeConsumer(broker, b"t"), FakeConsumer(broker, b"t")
    first.consumer.request()
    first.consumer.ack()
    first.consumer.request()
    first.consumer.dack(60)
    second.consumer.request()


async def test_metrics_count_messages_by_state():
    async with monitored() as (app, broker):
        await leave_one_of_each(broker)
        status, headers, body = await ask(app, "/metrics")
        assert status == 200
        assert headers[b"content-type"].startswith(b"text/plain")
        lines = body.decode().splitlines()
        for expected in (
            'miniqueue_messages_published_total{topic="t"} 5.0',
            'miniqueue_messages_acknowledged_total{topic="t"} 1.0',
            'miniqueue_messages{state="ready",topic="t"} 2.0',
            'miniqueue_messages{state="leased",topic="t"} 1.0',
            'miniqueue_messages{state="delayed",topic="t"} 1.0',
            'miniqueue_consumers{topic="t"} 2.0',
            'miniqueue_leases{topic="t"} 1.0',
            'miniqueue_oldest_message_seconds{topic="t"} 0.0',
            'miniqueue_messages_per_second{kind="ack",topic="t"} 0.0',
            'miniqueue_delivery_latency_seconds{quantile="0.99",topic="t"} 0.001',
            'miniqueue_topic_paused{side="out",topic="t"} 0.0',
            "miniqueue_topics 1.0",
            "miniqueue_accepts_messages 1.0",
            f'miniqueue_build_info{{version="{__version__}"}} 1.0',
        ):
            assert expected in lines
        assert "process_resident_memory_bytes" in body.decode()


async def test_stats_are_the_same_counts_as_json():
    async with monitored() as (app, broker):
        await leave_one_of_each(broker)
        stats = orjson.loads((await ask(app, "/stats"))[2])
        assert stats.pop("uptime_seconds") >= 0
        counts = {"published": 5, "acknowledged": 1, "ready": 2, "leased": 1, "delayed": 1}
        assert stats["version"] == __version__
        assert stats["refusal"] is None
        assert counts.items() <= stats["topics"]["t"].items()


async def test_stats_name_the_refusal():
    async with monitored() as (app, broker):
        await broker.stop()
        assert orjson.loads((await ask(app, "/stats"))[2])["refusal"] == "DRAINING"


async def test_plain_http_1_is_enough():
    async with monitored() as (app, _broker):
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        shutdown = asyncio.Event()
        server = asyncio.create_task(serve_plain(app, listener, shutdown.wait))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = await reader.read()
        writer.close()
        shutdown.set()
        await server
        assert reply.startswith(b"HTTP/1.1 200")
        assert reply.endswith(b'{"status":"ok"}')


async def test_every_metric_can_be_parsed_and_has_its_type():
    async with monitored() as (app, broker):
        await broker.publish(b'"back\\slash', [b"x"]).commit.wait()
        body = (await ask(app, "/metrics"))[2].decode()
        families = {family.name: family for family in text_string_to_metric_families(body)}
        for family in FAMILIES:
            name = f"miniqueue_{family.name}"
            scraped = families[name.removesuffix("_total")]
            assert (scraped.type, scraped.documentation) == (family.kind, family.help)
            assert all(sample.labels["topic"] == '"back\\slash' for sample in scraped.samples)
        assert len(families["miniqueue_messages"].samples) == 3


@pytest.mark.parametrize("path", ["/metrics", "/stats"])
async def test_others_have_their_turn_while_many_topics_are_told_of(path):
    async with monitored() as (app, broker):
        for number in range(1000):
            broker.publish(b"t%d" % number, [b"x"])
        await broker._engine.journal.committer.flush()
        turns = []

        async def count_turns():
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        status, _, body = await ask(app, path)
        counting.cancel()
        assert status == 200
        assert b"t999" in body
        assert len(turns) >= 10
