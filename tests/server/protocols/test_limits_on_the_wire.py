"""What clients get who reach a limit of topics: over RESP and over HTTP, and in the metrics."""

import orjson
from prometheus_client import CollectorRegistry, generate_latest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.server.monitor.metrics import BROKER_ROWS
from miniqueue.server.monitor.topic_metrics import TopicMetrics
from miniqueue.server.process.metric_rows import RowCollector
from tests.broker.support import world_with
from tests.fakes import FakeConsumer, settle_down
from tests.server.resp.clients import Client, command
from tests.serving import NDJSON, serving

FULL = b"-LIMIT the topic holds as many messages as it may (-max-topic-messages); nothing was added\r\n"
FULL_TEXT = FULL.decode().removeprefix("-LIMIT ").strip()
TWO_MESSAGES = BrokerLimits(max_topic_messages=2)


async def metrics_of(broker) -> str:
    registry = CollectorRegistry()
    registry.register(RowCollector(BROKER_ROWS, broker))
    return (generate_latest(registry) + await TopicMetrics(broker).render()).decode()


@world_with(limits=TWO_MESSAGES)
async def test_a_run_of_publishes_fills_the_topic_and_the_rest_is_refused(world, server, client):
    other = Client(server)
    client.connection.data_received(b"".join(command(b"PUBLISH", b"t", b"%d" % n) for n in range(4)))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * 2 + FULL * 2
    assert await other.say(b"PUBLISH u 1") == b"+OK\r\n"
    assert FakeConsumer(world.broker, b"t").drain() == [b"0", b"1"]
    assert await client.say(b"PUBLISH t 5") == b"+OK\r\n"


@world_with(limits=TWO_MESSAGES)
async def test_mpublish_is_refused_as_a_whole(world, client):
    await client.say(b"PUBLISH t 0")
    assert await client.say(b"MPUBLISH t 1 2") == FULL
    assert await client.say(b"PUBLISH t 3") == b"+OK\r\n"
    assert FakeConsumer(world.broker, b"t").drain() == [b"0", b"3"]


@world_with(max_message_bytes=10)
async def test_a_message_that_is_too_large_is_counted_whatever_command_brings_it(world, client):
    large = b"x" * 14
    lines = [
        b"PUBLISH t %b",
        b"PUB t %b",
        b"PUB t %b UNIQUE k",
        b"MPUBLISH t x %b",
        b"PUBBATCH t 7f %b",
        b"PUBEACH t 7f %b 0",
        b"PUBPACKED t 7f \x0e\0\0\0 %b",
        b"REQUEST t %b",
        b"SCHEDULE SET s EVERY 60 t %b",
    ]
    for line in lines:
        assert (await client.say(line % large)).startswith(b"-TOOBIG "), line
    counted = f'miniqueue_limits_reached_total{{limit="max-message-size"}} {len(lines)}.0'
    assert counted in await metrics_of(world.broker)


@world_with(limits=BrokerLimits(max_topics=1))
async def test_one_topic_too_many(client):
    await client.say(b"PUBLISH t 0")
    assert await client.say(b"PUBLISH u 1") == (b"-LIMIT there are as many topics as there may be, 1 (-max-topics)\r\n")
    assert await client.say(b"TOPICS") == b"*1\r\n$1\r\nt\r\n"


@world_with(limits=BrokerLimits(max_prefetch=10))
async def test_a_prefetch_over_the_maximum(client):
    assert await client.say(b"SUBSCRIBE t PREFETCH 11") == (
        b"-BADPREFETCH A prefetch is a whole number from 1 to 10\r\n"
    )
    assert await client.say(b"SUBSCRIBE t PREFETCH 10") == b""


@world_with(limits=BrokerLimits(max_topics=1, max_topic_messages=2, max_prefetch=10))
async def test_limits_are_counted(world, client):
    for line in (b"MPUBLISH t 1 2 3", b"PUBLISH t 1", b"PUBLISH u 1", b"SUBSCRIBE t PREFETCH 11"):
        await client.say(line)
    metrics = await metrics_of(world.broker)
    for limit, times in (("max-topic-messages", 1), ("max-topics", 1), ("max-prefetch", 1), ("max-topic-bytes", 0)):
        assert f'miniqueue_limits_reached_total{{limit="{limit}"}} {times}.0' in metrics
    assert 'miniqueue_topic_bytes{topic="t"} 1.0' in metrics


@world_with(limits=BrokerLimits(max_topic_messages=2, policy=LimitPolicy.DROP_OLDEST))
async def test_what_was_dropped_is_counted(world, client):
    for line in (b"MPUBLISH t 1 2", b"PUBLISH t 3"):
        assert not (await client.say(line)).startswith(b"-")
    assert 'miniqueue_messages_dropped_total{topic="t"} 1.0' in await metrics_of(world.broker)
    assert FakeConsumer(world.broker, b"t").drain() == [b"2", b"3"]


async def test_http_gets_507_and_the_text(certificates):
    async with serving(certificates, limits=TWO_MESSAGES) as served:
        for expected in (201, 201, 507):
            status, body = await served.request("POST", "/publish/t", b"x")
            assert status == expected
        assert orjson.loads(body) == {"error": FULL_TEXT, "code": "LIMIT"}
        assert (await served.request("POST", "/publish/u", b"x"))[0] == 201


async def test_json_lines_are_answered_each(certificates):
    async with serving(certificates, limits=TWO_MESSAGES) as served:
        status, body = await served.request("POST", "/publish/t", b'"a"\n"b"\n"c"\n"d"\n', NDJSON)
        lines = [orjson.loads(line) for line in body.splitlines()]
        refusal = {"error": FULL_TEXT, "code": "LIMIT"}
        assert (status, lines) == (200, [{"id": "0-0"}, {"id": "0-1"}, refusal, refusal])
