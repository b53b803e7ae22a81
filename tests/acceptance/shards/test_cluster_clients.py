"""Clients of Redis Cluster, unmodified, where each shard has a port: they go straight to the shard with a topic."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import redis

from tests.acceptance.clients.cluster.test_cluster_clients import HERE, MODULES
from tests.acceptance.shards.conftest import PLACING, SHARDS, ShardedBroker, nodes_in, readers, topic_in
from tests.acceptance.shards.workers import PARTS, work_through, work_through_with_tasks
from tests.acceptance.tools import MAX_SECONDS, needs

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    """A broker whose shards have ports: `first_port` and those that follow."""
    with nodes_in(tmp_path_factory.mktemp("nodes")) as broker:
        yield broker


def topics_of_all(prefix: str) -> list[str]:
    """Return the names of two topics of each shard."""
    return [topic_in(shard, f"{prefix}{number}-") for shard in range(SHARDS) for number in range(2)]


def until_done(act) -> object:
    """Return what a call returns, as soon as it raises no error of a shard that is away."""
    until = time.monotonic() + MAX_SECONDS
    while True:
        try:
            return act()
        except redis.RedisError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)  # there is nothing to wait on in another process


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
def test_redis_py_goes_straight_to_each_shard(nodes, protocol):
    with redis.RedisCluster(host="127.0.0.1", port=nodes.resp_port, protocol=protocol) as cluster:
        assert sorted(node.port for node in cluster.get_nodes()) == [
            nodes.first_port + shard for shard in range(SHARDS)
        ]
        for shard in range(SHARDS):
            topic = topic_in(shard, f"py{protocol}-")
            assert cluster.get_node_from_key(topic).port == nodes.first_port + shard
            for number in range(3):
                cluster.execute_command("PUB", topic, f"m{number}", "KEY", "k")
            received = cluster.execute_command("RECEIVE", topic, "COUNT", 10)
            assert [payload for _, payload, *_ in received] == [b"m0", b"m1", b"m2"]
            assert readers(nodes, [topic]) == [shard]
            assert cluster.execute_command("ACK", topic, *[receipt for receipt, *_ in received]) == [b"OK"] * 3
            assert topic.encode() in cluster.execute_command("TOPICS", target_nodes=cluster.get_random_node())


def test_redis_py_uses_dead_letters_that_its_slots_place_elsewhere(nodes):
    with redis.RedisCluster(host="127.0.0.1", port=nodes.resp_port) as cluster:
        for number in range(12):
            topic = f"dead-{number}"
            cluster.execute_command("PUB", topic, "x")
            [[receipt, *_]] = cluster.execute_command("RECEIVE", topic)
            cluster.execute_command("REJECT", topic, receipt, "bad")
            [[receipt, payload, *_]] = cluster.execute_command("RECEIVE", f"{topic}.dlq", "WAIT", MAX_SECONDS)
            assert payload == b"x"
            assert cluster.execute_command("ACK", f"{topic}.dlq", receipt) in (b"OK", [b"OK"])


def test_a_client_that_is_no_cluster_client_uses_all_topics_at_any_port(nodes):
    for port in (nodes.resp_port, *range(nodes.first_port, nodes.first_port + SHARDS)):
        with redis.Redis(port=port) as client:
            for topic in topics_of_all(f"plain{port}-"):
                client.execute_command("PUB", topic, "x")
                assert client.execute_command("LEN", topic) == 1


def test_a_stream_of_a_node_delivers_what_others_publish(nodes):
    topic = topic_in(1, "stream-")
    with redis.RedisCluster(host="127.0.0.1", port=nodes.resp_port) as cluster, contextlib.ExitStack() as stack:
        connection = redis.Connection(host="127.0.0.1", port=cluster.get_node_from_key(topic).port)
        stack.callback(connection.disconnect)
        connection.connect()
        connection.send_command("SUBSCRIBE", topic)
        for number in range(3):
            cluster.execute_command("PUB", topic, f"m{number}")
            assert connection.read_response() == b"m%d" % number
            connection.send_command("ACK")
            assert connection.read_response() == b"OK"


def test_a_client_is_sent_to_the_next_node_only_after_it_asked_for_them(nodes):
    topic = topic_in(2, "asked-")
    with redis.Redis(port=nodes.first_port, single_connection_client=True) as client:
        client.execute_command("PUB", topic, "x")
        assert client.execute_command("LEN", topic) == 1
    with redis.Redis(port=nodes.first_port, single_connection_client=True) as client:
        client.execute_command("CLUSTER", "SLOTS")
        with pytest.raises(redis.exceptions.MovedError) as moved:
            client.execute_command("PUB", topic, "x")
        assert moved.value.port == nodes.first_port + 2


@needs("redis-cli")
@pytest.mark.parametrize("flags", [[], ["-c"]], ids=["plain", "cluster"])
def test_redis_cli_uses_all_topics(nodes, flags):
    def run(port: int, text: str) -> str:
        command = ["redis-cli", *flags, "-p", str(port)]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=MAX_SECONDS, check=True
        ).stdout

    for topic in topics_of_all(f"cli{len(flags)}-"):
        assert run(nodes.resp_port, f"PUB {topic} x\nLEN {topic}\n").splitlines()[-1] == "1"
    topic = topic_in(2, f"cli-asks{len(flags)}-")
    answered = run(nodes.first_port, f"CLUSTER NODES\nPUB {topic} x\nLEN {topic}\n")
    assert answered.count("myself,master") == 1
    if flags:
        assert "Redirected to slot" in answered or answered.splitlines()[-1] == "1"
        assert run(nodes.resp_port, f"LEN {topic}\n").splitlines()[-1] == "1"
    else:
        assert answered.count("MOVED") == 2
        assert answered.count(f":{nodes.first_port + 2}\n") == 2


@needs("node")
@pytest.mark.parametrize(("script", "package"), [("node_redis.mjs", "redis"), ("ioredis.mjs", "ioredis")])
def test_node_clients_go_straight_and_find_a_shard_again_that_was_killed(nodes, script, package):
    if not (MODULES / package).is_dir():
        pytest.skip("npm ci has not been run in tests/acceptance")
    topics = [topic_in(shard, f"{package}-") for shard in range(SHARDS)]
    later = [*topics_of_all(f"{package}-later-"), *[f"{package}{number}.dlq" for number in range(6)]]
    command = ["node", script, str(nodes.resp_port), *topics]
    with subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    ) as node:
        try:
            for each in json.loads(node.stdout.readline()):
                assert each["settled"] == ["OK"] * 3
                assert sorted(each["payloads"]) == ["m1", "m2", "m3"]
            if package == "redis":  # ioredis does not know the key of a command that Redis lacks, and asks any node
                assert readers(nodes, topics) == [0, 1, 2]
            os.kill(nodes.shard(1), signal.SIGKILL)
            node.stdin.write(" ".join(later) + "\n")
            node.stdin.flush()
            again = json.loads(node.stdout.readline())
            assert {text for each in again for text in each["settled"]} == {"OK"}
            node.stdin.close()
            assert node.wait(MAX_SECONDS) == 0
        finally:
            node.kill()


def test_redis_py_finds_a_shard_again_that_was_killed(nodes):
    topics = [topic_in(shard, "killed-") for shard in range(SHARDS)]
    with redis.RedisCluster(host="127.0.0.1", port=nodes.resp_port) as cluster:
        for topic in topics:
            cluster.execute_command("PUB", topic, "before", "DEDUP", "1")
        os.kill(nodes.shard(1), signal.SIGKILL)
        for topic in topics:
            until_done(lambda name=topic: cluster.execute_command("PUB", name, "after", "DEDUP", "2"))
            received = until_done(lambda name=topic: cluster.execute_command("RECEIVE", name, "COUNT", 10))
            assert [payload for _, payload, *_ in received] == [b"before", b"after"]
        assert PLACING.shard_of(topics[1].encode()) == 1


# --- spread topics --------------------------------------------------------------------------------------------


def test_workers_handle_each_message_of_a_spread_topic(nodes):
    work_through(nodes.resp_port, "spread-worker")


async def test_asyncio_workers_handle_each_message_of_a_spread_topic(nodes):
    await work_through_with_tasks(nodes.first_port + 1, "spread-asyncio-worker")


def test_redis_py_publishes_to_a_spread_topic_at_any_node(nodes):
    topic = "spread-redis-py"
    with redis.RedisCluster(host="127.0.0.1", port=nodes.resp_port) as cluster:
        cluster.execute_command("TOPIC", "CREATE", topic, "spread", PARTS)
        for number in range(4):
            for node in cluster.get_nodes():
                cluster.execute_command("PUB", topic, f"{node.port}:{number}", "KEY", node.port, target_nodes=node)
        received = cluster.execute_command("RECEIVE", topic, "COUNT", 100)
        for node in cluster.get_nodes():
            payloads = [payload for _, payload, *_ in received if payload.startswith(b"%d:" % node.port)]
            assert payloads == [b"%d:%d" % (node.port, number) for number in range(4)]
        assert cluster.execute_command("ACK", topic, *[receipt for receipt, *_ in received]) == [b"OK"] * len(received)
        assert cluster.execute_command("LEN", topic) == 0


@needs("redis-cli")
def test_redis_cli_is_not_sent_to_another_node_for_a_spread_topic(nodes):
    publishes = "TOPIC CREATE spread-cli spread 6\nCLUSTER SLOTS\nPUB spread-cli x KEY a\nPUB spread-cli y\n"
    for port in (nodes.resp_port, nodes.first_port + 1):
        answered = subprocess.run(
            ["redis-cli", "-c", "-p", str(port)],
            input=publishes + "RECEIVE spread-cli COUNT 9 AUTOACK\nLEN spread-cli\n",
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=True,
        ).stdout
        assert answered.splitlines()[-1] == "0"
        assert "Redirected" not in answered


@needs("node")
def test_node_redis_uses_a_spread_topic(nodes):
    if not (MODULES / "redis").is_dir():
        pytest.skip("npm ci has not been run in tests/acceptance")
    with redis.Redis(port=nodes.resp_port) as client:
        client.execute_command("TOPIC", "CREATE", "spread-node", "spread", PARTS)
    command = ["node", "node_redis.mjs", str(nodes.first_port + 2), "spread-node"]
    answered = subprocess.run(
        command, cwd=HERE, input="", capture_output=True, text=True, timeout=MAX_SECONDS, check=True
    ).stdout
    [used] = json.loads(answered)
    assert (used["settled"], used["payloads"]) == (["OK"] * 3, ["m1", "m2", "m3"])
