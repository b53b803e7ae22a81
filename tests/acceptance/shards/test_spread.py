"""A spread topic of real processes, of which one is killed in the middle."""

import os
import signal
import time
from contextlib import suppress

import pytest
import redis

from tests.acceptance.shards.conftest import SHARDS
from tests.acceptance.shards.test_processes import client_of, publish_until_stored
from tests.acceptance.shards.workers import work_through

pytestmark = pytest.mark.acceptance

LIMIT_SECONDS = 60
KEYS = 4


def received_from(broker, topic: str) -> list[str]:
    """Return what a topic has, acknowledged; a shard that starts again is asked again."""
    payloads: list[str] = []
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        client = client_of(broker)
        try:
            messages = client.execute_command("RECEIVE", topic, "COUNT", 100)
            if not messages:
                return payloads
            client.execute_command("ACK", topic, *[receipt for receipt, *_ in messages])
            payloads += [payload for _, payload, _ in messages]
        except redis.ResponseError:
            time.sleep(0.05)  # there is nothing to wait on in another process
    raise AssertionError(f"{topic} was never empty:\n{broker.output}")


def test_workers_handle_each_message_of_a_spread_topic_at_any_process(sharded):
    work_through(sharded.resp_port, "spread-worker")


def test_a_spread_topic_keeps_all_messages_and_their_order_when_a_shard_is_killed(sharded):
    topic = "spread-killed"
    assert client_of(sharded).execute_command("TOPIC", "CREATE", topic, "spread", 2 * SHARDS) in ("OK", True)
    assert client_of(sharded).execute_command("TOPICS").count(topic) == 1
    published = [f"{number % KEYS}:{number}" for number in range(60)]
    for number, payload in enumerate(published):
        if number == len(published) // 2:
            os.kill(sharded.shard(1), signal.SIGKILL)
        publish_until_stored(sharded, topic, payload, "KEY", payload.partition(":")[0])
    received = received_from(sharded, topic)
    by_key = [[payload for payload in published if payload.startswith(f"{key}:")] for key in range(KEYS)]
    assert [[payload for payload in received if payload.startswith(f"{key}:")] for key in range(KEYS)] == by_key


def test_a_spread_topic_that_a_crash_left_incomplete_is_completed(sharded):
    topic = "spread-incomplete"
    os.kill(sharded.shard(0), signal.SIGKILL)
    os.kill(sharded.shard(2), signal.SIGKILL)
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        try:  # the home shard may have the topic, whatever the reply is
            client_of(sharded).execute_command("TOPIC", "CREATE", topic, "spread", SHARDS)
        except redis.ResponseError as exc:
            if str(exc).startswith("EXISTS"):
                break
            time.sleep(0.05)  # there is nothing to wait on in another process
        else:
            break
    for number in range(2 * SHARDS):
        publish_until_stored(sharded, topic, str(number))
    assert sorted(received_from(sharded, topic)) == sorted(map(str, range(2 * SHARDS)))


def test_a_spread_topic_is_deleted_as_a_whole_although_shards_are_killed(sharded):
    topic = "spread-deleted"
    client_of(sharded).execute_command("TOPIC", "CREATE", topic, "spread", 2 * SHARDS)
    for number in range(4 * SHARDS):
        publish_until_stored(sharded, topic, str(number))
    connection = client_of(sharded).connection_pool.get_connection()
    connection.send_command("TOPIC", "DELETE", topic)  # the reply may be lost with the process
    for shard in range(2):
        os.kill(sharded.shard(shard), signal.SIGKILL)
    connection.disconnect()
    until = time.monotonic() + LIMIT_SECONDS
    while is_there(sharded, topic):
        assert time.monotonic() < until, sharded.output
        with suppress(redis.ResponseError, redis.ConnectionError):
            if len(partitions_of(sharded, topic)) == 2 * SHARDS:  # the home shard ended before it heard of it
                client_of(sharded).execute_command("TOPIC", "DELETE", topic)
        time.sleep(0.05)  # there is nothing to wait on in another process


def partitions_of(broker, topic: str) -> list:
    """Return the partitions of a topic."""
    return client_of(broker).execute_command("PARTITIONS", topic)


def is_there(broker, topic: str) -> bool:
    """Return whether any shard has the topic, or a part of it; each is asked until it answers."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        try:
            return topic in client_of(broker).execute_command("TOPICS")
        except (redis.ResponseError, redis.ConnectionError):
            time.sleep(0.05)  # there is nothing to wait on in another process
    raise AssertionError(broker.output)
