"""Transactions of both clients against a real broker, and of unmodified clients of Redis."""

import asyncio
import subprocess

import pytest
import redis

from miniqueue_client import AsyncClient, Client, RefusedError
from tests.acceptance import patient

pytestmark = pytest.mark.acceptance


def test_what_a_block_publishes_and_settles_is_done_at_its_end(client, topic):
    client.publish(topic, "in")
    [message] = client.receive(topic)
    with client.transaction() as transaction:
        transaction.publish(f"{topic}-a", "one", key="k")
        transaction.publish_many(f"{topic}-b", ["two", "three"])
        transaction.ack(topic, message)
        assert client.length(f"{topic}-a") == 0
    assert transaction.results == ["0-0", ["0-0", "0-1"], [True]]
    assert [client.length(name) for name in (topic, f"{topic}-a", f"{topic}-b")] == [0, 1, 2]


def test_each_settle(client, topic):
    client.publish_many(topic, ["x"] * 5)
    one, two, three, four, five = client.receive(topic, count=5)
    with client.transaction() as transaction:
        transaction.nack(topic, one)
        transaction.back(topic, two)
        transaction.dack(topic, three, seconds=60)
        transaction.reject(topic, four, reason="bad")
        transaction.extend(topic, five, seconds=60)
    assert transaction.results == [[True]] * 5
    stats = client.stats(topic)
    assert (stats["ready"], stats["delayed"], stats["leased"]) == (2, 1, 1)


def test_a_block_that_raises_does_nothing(client, topic):
    transaction = client.transaction()

    def act():
        with transaction:
            transaction.publish(topic, "x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        act()
    assert client.length(topic) == 0
    assert transaction.results == []


def test_a_part_that_is_impossible_is_named(client, topic):
    transaction = client.transaction()
    transaction.publish(topic, "x")
    transaction.ack(topic, "what-1")
    with pytest.raises(RefusedError, match="command 2 of 2") as refused, transaction:
        pass
    assert refused.value.code == "NOLEASE"
    assert client.length(topic) == 0


def test_a_part_that_is_refused_when_it_is_queued_is_raised_instead_of_the_abortion(client, topic):
    transaction = client.transaction()
    transaction.publish(topic, "x")
    transaction.publish("no such/topic", "x")
    with pytest.raises(RefusedError) as refused, transaction:
        pass
    assert refused.value.code == "BADTOPIC"
    assert client.length(topic) == 0


def test_each_block_is_a_transaction_of_its_own(client, topic):
    transaction = client.transaction()
    with transaction:
        transaction.publish(topic, "one")

    def fail():
        with transaction:
            transaction.publish(topic, "two")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert transaction.results == []
    with transaction:
        transaction.publish(topic, "three")
    assert transaction.results == ["0-1"]
    assert [message.text for message in client.receive(topic, count=9)] == ["one", "three"]


def test_an_empty_block_sends_nothing(client):
    with client.transaction() as transaction:
        pass
    assert transaction.results == []


def test_with_asyncio(resp_broker, client, topic):
    client.publish(topic, "in")

    async def scenario():
        async with AsyncClient(resp_broker.url) as aio:
            [message] = await aio.receive(topic)
            async with aio.transaction() as transaction:
                transaction.publish(f"{topic}-out", "one")
                transaction.ack(topic, message)
            return transaction.results

    assert asyncio.run(scenario()) == ["0-0", [True]]
    assert (client.length(topic), client.length(f"{topic}-out")) == (0, 1)


def test_an_exception_in_an_awaited_block_does_nothing(resp_broker, client, topic):
    async def scenario():
        async with AsyncClient(resp_broker.url) as aio, aio.transaction() as transaction:
            transaction.publish(topic, "x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())
    assert client.length(topic) == 0


def test_what_is_durable_is_there_after_a_kill(start_resp_broker):
    broker = start_resp_broker()
    with Client(broker.url) as client:
        client.publish("in", "x")
        [message] = client.receive("in")
        with client.transaction() as transaction:
            transaction.publish("out", "y")
            transaction.ack("in", message)
        broker.process.kill()
        broker = start_resp_broker()
        with Client(broker.url) as after:
            assert (after.length("in"), after.length("out")) == (0, 1)


# --- clients of Redis -------------------------------------------------------------------------------------------


@pytest.fixture(params=[2, 3])
def redis_py(request, resp_broker):
    with patient.Redis(port=resp_broker.process.resp_port, protocol=request.param) as client:
        yield client


def test_the_default_pipeline_of_redis_py_is_a_transaction(redis_py, topic):
    pipeline = redis_py.pipeline()
    for n in range(3):
        pipeline.publish(topic, n)
    pipeline.execute_command("PUB", topic, "four", "KEY", "k")
    pipeline.execute_command("LEN", topic)
    assert pipeline.execute() == [b"OK", b"OK", b"OK", b"0-3", 4]


def test_a_consumer_of_redis_py_publishes_and_acknowledges_at_once(redis_py, topic):
    redis_py.publish(topic, "in")
    [[receipt, payload, _]] = redis_py.execute_command("RECEIVE", topic)
    with redis_py.pipeline() as pipeline:
        pipeline.publish(f"{topic}-out", payload)
        pipeline.execute_command("ACK", topic, receipt)
        assert pipeline.execute() == [b"OK", b"OK"]
    assert redis_py.execute_command("LEN", topic) == 0
    assert redis_py.execute_command("LEN", f"{topic}-out") == 1


def test_redis_py_raises_what_refused_a_transaction(redis_py, topic):
    with redis_py.pipeline() as pipeline:
        pipeline.publish(topic, "x")
        pipeline.execute_command("ACK", topic, "what-1")
        with pytest.raises(redis.ResponseError, match="command 2 of 2"):
            pipeline.execute()
    with redis_py.pipeline() as pipeline:
        pipeline.publish(topic, "x")
        pipeline.execute_command("SUBSCRIBE", topic)
        with pytest.raises(redis.ResponseError, match="cannot be in a transaction"):
            pipeline.execute()
    with redis_py.pipeline() as pipeline, pytest.raises(redis.ResponseError, match="WATCH is not supported"):
        pipeline.watch(topic)
    assert redis_py.execute_command("LEN", topic) == 0
    assert redis_py.ping()


def test_redis_cli(resp_broker, topic):
    lines = f"MULTI\nPUBLISH {topic} one\nPUBLISH {topic} two\nLEN {topic}\nEXEC\nMULTI\nDISCARD\nEXEC\n"
    command = ["redis-cli", "-p", str(resp_broker.process.resp_port)]
    told = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.split("\n") == [
        *("OK", "QUEUED", "QUEUED", "QUEUED", "OK", "OK", "2"),
        *("OK", "OK", "ERR EXEC without MULTI", "", ""),
    ]
