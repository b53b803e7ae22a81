"""A spread topic of real processes, of which one is killed in the middle."""

import os
import signal
import time

import pytest
import redis

from tests.acceptance.shards.conftest import SHARDS
from tests.acceptance.shards.test_processes import client_of, publish_until_stored

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
            time.sleep(0.05)
    raise AssertionError(f"{topic} was never empty:\n{broker.output}")


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
            time.sleep(0.05)
        else:
            break
    for number in range(2 * SHARDS):
        publish_until_stored(sharded, topic, str(number))
    assert sorted(received_from(sharded, topic)) == sorted(map(str, range(2 * SHARDS)))
