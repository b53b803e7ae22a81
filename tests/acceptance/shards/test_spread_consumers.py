"""Consumers of a spread topic of real processes, with redis-py: streams, GET, and requests."""

import threading

import pytest
import redis

from tests.acceptance.shards.conftest import SHARDS
from tests.acceptance.shards.test_processes import client_of
from tests.acceptance.tools import until

pytestmark = pytest.mark.acceptance

PARTS = 2 * SHARDS


def created(broker, topic: str) -> redis.Redis:
    """Return a client for which a spread topic has been created."""
    client = client_of(broker)
    assert client.execute_command("TOPIC", "CREATE", topic, "spread", PARTS) in ("OK", True)
    return client


def test_a_stream_of_a_spread_topic_delivers_all_parts_in_the_order_of_keys(sharded):
    client = created(sharded, "spread-stream")
    published = [f"{number % 7}:{number}" for number in range(70)]
    for payload in published:
        client.execute_command("PUB", "spread-stream", payload, "KEY", payload.partition(":")[0])
    received: list[str] = []
    stream = client_of(sharded).connection_pool.get_connection()
    stream.send_command("SUBSCRIBE", "spread-stream", "PREFETCH", 20)
    while len(received) < len(published):
        reply = stream.read_response()
        if reply != "OK":
            receipt, payload, _ = reply
            received.append(payload)
            stream.send_command("ACK", receipt)
    for key in range(7):
        of_key = f"{key}:"
        assert [payload for payload in received if payload.startswith(of_key)] == published[key::7]
    stream.disconnect()


def test_a_stream_that_is_left_returns_what_all_parts_gave(sharded):
    client = created(sharded, "spread-left")
    for number in range(3 * PARTS):
        client.execute_command("PUB", "spread-left", str(number))
    stream = client_of(sharded).connection_pool.get_connection()
    stream.send_command("SUBSCRIBE", "spread-left", "PREFETCH", 100)
    leased = {stream.read_response()[1] for _ in range(3 * PARTS)}
    stream.disconnect()
    received: set[str] = set()
    while received < leased:
        messages = client.execute_command("RECEIVE", "spread-left", "COUNT", 100, "WAIT", 30, "AUTOACK")
        received |= {payload for _, payload, *_ in messages}
    assert received == leased


def test_messages_of_a_spread_topic_are_taken_by_get_and_answered(sharded):
    client = created(sharded, "spread-asked")
    client.execute_command("PUB", "spread-asked", "by hand")
    with client_of(sharded).client() as person:
        assert person.execute_command("GET", "spread-asked") == "by hand"
        assert person.execute_command("ACK", "spread-asked") == "OK"
        assert person.execute_command("GET", "spread-asked") is None

    def work() -> None:
        worker = client_of(sharded)
        for _ in range(PARTS):
            [[receipt, payload, _]] = worker.execute_command("RECEIVE", "spread-asked", "WAIT", 30)
            worker.execute_command("REPLY", "spread-asked", receipt, f"re: {payload}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(PARTS):
            assert client.execute_command("REQUEST", "spread-asked", str(number)) == f"re: {number}"
    finally:
        thread.join()


def test_a_receive_waits_in_all_shards_and_a_client_that_leaves_holds_nothing(sharded):
    client = created(sharded, "spread-waits")
    leaving, *staying = consumers = [client_of(sharded).connection_pool.get_connection() for _ in range(4)]

    def waiting() -> int:
        return client.execute_command("STATS", "spread-waits")["waiting"]

    for number, consumer in enumerate(consumers):
        consumer.send_command("RECEIVE", "spread-waits", "WAIT", 60)
        until(lambda number=number: waiting() == number + 1)
    leaving.disconnect()
    until(lambda: waiting() == len(staying))
    published = [str(number) for number in range(len(staying))]
    for payload in published:
        client.execute_command("PUB", "spread-waits", payload)
    received = [payload for consumer in staying for _, payload, *_ in consumer.read_response()]
    assert sorted(received) == published
    for consumer in staying:
        consumer.disconnect()


def test_members_share_the_partitions_of_all_parts_and_take_over_those_of_one_that_leaves(sharded):
    client = created(sharded, "spread-members")
    names = [f"m{number}" for number in range(SHARDS)]
    streams = [client_of(sharded).connection_pool.get_connection() for _ in names]
    for name, stream in zip(names, streams, strict=True):
        stream.send_command("SUBSCRIBE", "spread-members", "PREFETCH", 100, "MEMBER", name)
        stream.send_command("PING")
        assert stream.read_response() == "PONG"

    def shares() -> dict[str, int]:
        partitions = client.execute_command("GROUP", "MEMBERS", "spread-members", "default")
        return {name: len(numbers) for name, numbers in partitions.items()}

    assert shares() == dict.fromkeys(names, PARTS // SHARDS)
    streams.pop().disconnect()
    until(lambda: len(shares()) < SHARDS)
    assert shares() == dict.fromkeys(names[:-1], PARTS // (SHARDS - 1))
    published = {str(number) for number in range(4 * PARTS)}
    for payload in published:
        client.execute_command("PUB", "spread-members", payload, "KEY", payload)
    received = {name: set[str]() for name in names[:-1]}
    for name, stream in zip(names, streams, strict=False):
        leases = client.execute_command("LEASES", "spread-members", "MEMBER", name)
        received[name] = {stream.read_response()[1] for _ in leases}
        stream.disconnect()
    assert set().union(*received.values()) == published
