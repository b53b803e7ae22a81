"""node-redis, ioredis and valkey-glide; `npm ci` in this directory installs them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.counts import counts
from tests.acceptance.telnet import publish
from tests.acceptance.tools import MAX_SECONDS, needs

HERE = Path(__file__).parent
PACKAGES = json.loads((HERE.parent / "package.json").read_text())["dependencies"]

pytestmark = [
    pytest.mark.acceptance,
    needs("node"),
    pytest.mark.skipif(
        not all((HERE.parent / "node_modules" / name).is_dir() for name in PACKAGES),
        reason="npm ci has not been run in tests/acceptance, or not since package.json has another client",
    ),
]


def run_script(name: str, *arguments: object) -> dict[str, Any]:
    """Run a script of this directory and return what it prints."""
    done = subprocess.run(
        ["node", name, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def check_publishing(printed: dict[str, Any], topic: str) -> None:
    assert printed["ping"] == "PONG"
    assert printed["publish"] == "OK"
    assert printed["published"] == ["OK"] * 100
    assert topic in printed["topics"]
    assert printed["refused"].endswith("unknown command 'NOSUCH'")
    assert printed["together"] == ["OK", "OK"]  # in a transaction
    assert f"{topic}-together" in printed["topics"]


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
def test_node_redis_publishes_and_takes_a_message(broker, topic, protocol):
    publish(broker.resp_port, f"{topic}-one", "only")
    printed = run_script("node_redis.mjs", broker.resp_port, topic, protocol)
    check_publishing(printed, topic)
    assert (printed["first"], printed["settled"], printed["reset"]) == ("only", "OK", "RESET")
    assert counts(broker, topic)["ready"] == 100
    assert counts(broker, f"{topic}-one")["acknowledged"] == 1


def test_ioredis_publishes(broker, topic):
    check_publishing(run_script("ioredis.mjs", broker.resp_port, topic), topic)
    assert counts(broker, topic)["ready"] == 100


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
def test_valkey_glide_publishes_and_consumes(broker, topic, protocol):
    printed = run_script("valkey_glide.mjs", broker.resp_port, topic, protocol)
    check_publishing(printed, topic)
    assert (printed["payloads"], printed["settled"], printed["waited"]) == (["m0", "m1", "m2"], ["OK"] * 3, [])
    assert (counts(broker, topic)["ready"], counts(broker, topic)["acknowledged"]) == (97, 3)


@pytest.mark.parametrize(("library", "protocol"), [("redis", 2), ("redis", 3), ("ioredis", 2)])
def test_both_consume_with_receive(broker, topic, library, protocol):
    printed = run_script("receive.mjs", library, broker.resp_port, topic, protocol)
    assert [payload for _, payload, _ in printed["received"]] == ["a", "b", "c"]
    refusal = "NOLEASE the receipt belongs to no message that is leased now"
    assert printed["settled"] == ["OK", refusal, ["OK", refusal], "OK"]
    ((_, payload, known),) = printed["again"]
    if protocol == 2:
        known = dict(zip(known[::2], known[1::2], strict=True))
    assert payload == "b"
    assert {name: known[name] for name in ("id", "deliveries", "nacks")} == {"id": "0-1", "deliveries": 2, "nacks": 1}
    assert [payload for _, payload, _ in printed["waited"]] == ["at last"]
    assert counts(broker, topic)["acknowledged"] == 1
