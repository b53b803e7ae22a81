"""redis-py, node-redis, ioredis, and redis-cli in their cluster modes: each finds the owner, publishes and receives."""

import json
import subprocess
from pathlib import Path

import pytest
import redis

from tests.acceptance.tools import MAX_SECONDS, needs

HERE = Path(__file__).parent
MODULES = HERE.parent.parent / "node_modules"

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
def test_redis_py_as_a_cluster_client(broker, topic, protocol):
    with redis.RedisCluster(port=broker.resp_port, host="127.0.0.1", protocol=protocol) as cluster:
        for number in range(3):
            cluster.execute_command("PUB", topic, f"m{number}", "KEY", "k")
        assert cluster.publish(topic, "by the method")
        received = cluster.execute_command("RECEIVE", topic, "COUNT", 10)
        assert [payload for _, payload, *_ in received] == [b"m0", b"m1", b"m2", b"by the method"]
        assert cluster.execute_command("ACK", topic, *[receipt for receipt, *_ in received]) == [b"OK"] * 4
        assert topic.encode() in cluster.execute_command("TOPICS", target_nodes=cluster.get_default_node())
        assert cluster.execute_command("TOPIC", "GET", topic)
        assert cluster.keyslot(topic) == cluster.cluster_keyslot(topic)


@needs("node")
@pytest.mark.parametrize(("script", "package"), [("node_redis.mjs", "redis"), ("ioredis.mjs", "ioredis")])
def test_node_clients_as_cluster_clients(broker, topic, script, package):
    if not (MODULES / package).is_dir():
        pytest.skip("npm ci has not been run in tests/acceptance")
    command = ["node", script, str(broker.resp_port), topic]
    done = subprocess.run(
        command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    [printed] = json.loads(done.stdout)
    assert printed == {"published": ["0-0", "0-1", "0-2"], "settled": ["OK"] * 3, "payloads": ["m1", "m2", "m3"]}


@needs("redis-cli")
def test_redis_cli_shows_one_owner_of_all_slots(broker):
    def ask(*words: str) -> str:
        command = ["redis-cli", "-c", "-p", str(broker.resp_port), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=True).stdout

    address = f"127.0.0.1:{broker.resp_port}"
    assert f"{address}@0 myself,master - 0 0 0 connected 0-16383" in ask("CLUSTER", "NODES")
    assert ask("CLUSTER", "KEYSLOT", "{eu}.orders") == ask("CLUSTER", "KEYSLOT", "eu")
    assert ask("CLUSTER", "MYID").strip() in ask("CLUSTER", "SLOTS")
    assert "cluster_state:ok" in ask("CLUSTER", "INFO")
