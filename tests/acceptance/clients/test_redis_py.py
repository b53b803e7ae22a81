"""redis-py, sync and asyncio, in both versions of the protocol."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from tests.acceptance import patient
from tests.acceptance.counts import counts
from tests.acceptance.process import BrokerProcess
from tests.acceptance.tools import MAX_SECONDS

pytestmark = [pytest.mark.acceptance, pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])]


@pytest.fixture
def client(broker: BrokerProcess, protocol: int) -> Iterator[redis.Redis]:
    """A client whose commands all go over one connection, as a subscription needs it."""
    with redis.Redis(  # which connects again, as it does by itself
        port=broker.resp_port,
        protocol=protocol,
        client_name="tester",
        socket_timeout=MAX_SECONDS,
        single_connection_client=True,
    ) as client:
        yield client


def exchange(client: redis.Redis, *words: object, replies: int = 1) -> list[object]:
    """Send one command and return that many replies."""
    connection = client.connection
    assert connection is not None
    connection.send_command(*words)
    return [connection.read_response() for _ in range(replies)]


def test_connecting_tells_name_and_library(client, protocol):
    assert client.ping() is True
    (me,) = [line for line in client.client_list() if line["id"] == str(client.client_id())]
    assert (me["name"], me["lib-name"], me["resp"]) == ("tester", "redis-py", str(protocol))
    assert client.client_getname() in ("tester", b"tester")


def test_publish_and_topics(client, topic):
    assert client.publish(topic, b"\x00\xff") == b"OK"
    assert topic.encode() in client.execute_command("TOPICS")


def test_what_clients_ask_for(client):
    assert client.echo("hello") == b"hello"
    assert client.info()["redis_version"].startswith("miniqueue")
    assert client.config_get("appendfsync") == {"appendfsync": "always"}
    assert client.command_count() == len(client.command())
    assert client.select(0)


def test_a_pipeline_of_1000_is_published_in_order(client, broker, topic):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.publish(topic, number)
        assert pipeline.execute() == [b"OK"] * 1000
    assert counts(broker, topic)["ready"] == 1000
    received = exchange(client, "SUBSCRIBE", topic)
    for _ in range(999):
        ok, message = exchange(client, "ACK", replies=2)
        assert ok == b"OK"
        received.append(message)
    assert received == [b"%d" % number for number in range(1000)]


def test_messages_are_received_and_settled_by_receipt(client, broker, topic, protocol):
    client.execute_command("MPUBLISH", topic, b"a", b"\x00\xff", b"")
    received = client.execute_command("RECEIVE", topic, "COUNT", 10, "WAIT", 50, "LEASE", 60)
    receipts, payloads, attributes = zip(*received, strict=True)
    assert payloads == (b"a", b"\x00\xff", b"")
    known = attributes[1]
    if protocol == 2:
        known = dict(zip(known[::2], known[1::2], strict=True))
    assert (known[b"id"], known[b"deliveries"]) == (b"0-1", 1)
    with patient.Redis(port=broker.resp_port, protocol=protocol) as another:
        assert another.execute_command("ACK", topic, *receipts) == [b"OK"] * 3
        with pytest.raises(redis.ResponseError, match="NOLEASE"):
            another.execute_command("EXTEND", topic, receipts[0], 60)
    assert client.execute_command("RECEIVE", topic) == []


def test_a_lease_that_is_over_brings_its_message_back(client, topic):
    client.publish(topic, "again")
    assert client.execute_command("RECEIVE", topic, "LEASE", "0.1")
    ((_, payload, _),) = client.execute_command("RECEIVE", topic, "WAIT", 50, "AUTOACK")
    assert payload == b"again"


def test_who_leaves_while_it_waits_swallows_nothing(client, broker, topic, protocol):
    """Many clients wait and leave, one after the other; the first message is delivered to the client after them."""
    for _ in range(20):
        with patient.Redis(port=broker.resp_port, protocol=protocol, single_connection_client=True) as leaver:
            leaver.connection.send_command("RECEIVE", topic, "WAIT", 30)
    waiting = patient.Redis(port=broker.resp_port, protocol=protocol, single_connection_client=True)
    waiting.connection.send_command("RECEIVE", topic, "WAIT", 30)
    client.publish(topic, "for the one that stays")
    ((_, payload, _),) = waiting.connection.read_response()
    waiting.close()
    assert payload == b"for the one that stays"


def test_nack_returns_to_the_front_and_back_to_the_back(client, topic):
    for message in ("1", "2", "3"):
        client.publish(topic, message)
    assert exchange(client, "SUBSCRIBE", topic) == [b"1"]
    assert exchange(client, "NACK", replies=2) == [b"OK", b"1"]
    assert exchange(client, "BACK", replies=2) == [b"OK", b"2"]
    assert exchange(client, "ACK", replies=2) == [b"OK", b"3"]
    assert exchange(client, "ACK", replies=2) == [b"OK", b"1"]


def test_dack_brings_the_message_back_after_its_time(client, topic):
    client.publish(topic, "later")
    assert exchange(client, "SUBSCRIBE", topic) == [b"later"]
    assert exchange(client, "DACK", "0.05", replies=2) == [b"OK", b"later"]


def test_an_error_leaves_connection_and_message(client, topic):
    client.publish(topic, "mine")
    assert exchange(client, "SUBSCRIBE", topic) == [b"mine"]
    for words in (("DACK", "oops"), ("DACK", "-1"), ("ACK", "5"), ("PUBLISH", topic, "x")):
        with pytest.raises(redis.ResponseError):
            exchange(client, *words)
    assert exchange(client, "NACK", replies=2) == [b"OK", b"mine"]


def test_a_refused_command_is_a_response_error_and_the_next_one_works(client, topic):
    for words in (("NOSUCHCOMMAND",), ("PUBLISH", topic), ("ACK",), ("SUBSCRIBE",), ("PUBLISH", "a b", "x")):
        with pytest.raises(redis.ResponseError):
            client.execute_command(*words)
    assert client.publish(topic, "fine") == b"OK"


def test_a_message_that_is_too_large_is_an_error_and_the_client_connects_again(client, topic):
    with pytest.raises((redis.ResponseError, redis.ConnectionError)):  # the reply may be lost with the connection
        client.publish(topic, bytes((1 << 20) + 1))
    assert client.publish(topic, "fine") == b"OK"


def test_reset_leaves_the_subscription(client, topic):
    client.publish(topic, "hello")
    assert exchange(client, "SUBSCRIBE", topic) == [b"hello"]
    assert exchange(client, "RESET") == [b"RESET"]
    assert client.publish(topic, "again") == b"OK"


async def test_asyncio_publishes_and_consumes(broker, protocol, topic):
    async def consume(client: redis.asyncio.Redis, wanted: int) -> list[bytes]:
        connection = await client.connection_pool.get_connection()
        await connection.send_command("SUBSCRIBE", topic)
        received = [await connection.read_response(timeout=MAX_SECONDS)]
        while len(received) < wanted:
            await connection.send_command("ACK")
            assert await connection.read_response(timeout=MAX_SECONDS) == b"OK"
            received.append(await connection.read_response(timeout=MAX_SECONDS))
        await connection.disconnect()
        await client.connection_pool.release(connection)
        return received

    async with patient.AsyncRedis(port=broker.resp_port, protocol=protocol) as client:
        async with client.pipeline(transaction=False) as pipeline:
            for number in range(100):
                pipeline.publish(topic, number)
            assert await pipeline.execute() == [b"OK"] * 100
        assert await consume(client, 100) == [b"%d" % number for number in range(100)]


async def test_waiting_consumers_get_one_message_each(broker, protocol, topic):
    async with patient.AsyncRedis(port=broker.resp_port, protocol=protocol) as client:
        connections = [await client.connection_pool.get_connection() for _ in range(5)]
        for connection in connections:
            await connection.send_command("SUBSCRIBE", topic)
        for number in range(5):
            await client.publish(topic, number)
        received = [await connection.read_response(timeout=MAX_SECONDS) for connection in connections]
        for connection in connections:
            await connection.disconnect()
            await client.connection_pool.release(connection)
        assert sorted(received) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_pipeline_is_a_transaction_and_a_watch_leaves_the_connection_usable(client, broker, topic):
    with client.pipeline() as pipeline:  # which is in a transaction by default
        for number in range(100):
            pipeline.publish(topic, number)
        assert pipeline.execute() == [b"OK"] * 100
        with pytest.raises(redis.ResponseError, match="WATCH is not supported"):
            pipeline.watch(topic)
    assert client.publish(topic, "fine") == b"OK"
    assert counts(broker, topic)["published"] == 101


def test_a_pipeline_of_asyncio_is_a_transaction(broker, protocol, topic):
    async def publish() -> object:
        async with patient.AsyncRedis(
            port=broker.resp_port, protocol=protocol, single_connection_client=True
        ) as client:
            async with client.pipeline() as pipeline:
                pipeline.publish(topic, "a").publish(topic, "b")
                assert await pipeline.execute() == [b"OK"] * 2
            return await client.publish(topic, "fine")

    assert asyncio.run(publish()) == b"OK"
    assert counts(broker, topic)["published"] == 3
