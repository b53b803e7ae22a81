"""A topic that turns out to be damaged while the broker runs: which clients get an error, and which do not notice."""

import json
from pathlib import Path

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import BrokerProcess, run_to_end
from tests.acceptance.tools import needs
from tests.durability.disk.broker import Connection, payload_of

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MESSAGES = 6
PAYLOAD_BYTES = 5000  # more than one in a block of a table


@pytest.fixture
def damaged(start_broker, tmp_path: Path) -> BrokerProcess:
    """A broker with two topics, one of which has a message with a flipped bit."""
    first = start_broker()
    connection = Connection(first.resp_port)
    for number in range(MESSAGES):
        for topic in (b"orders", b"letters"):
            payload = payload_of(number, PAYLOAD_BYTES)
            assert connection.ask(b"PUBLISH", topic, topic + payload) == b"OK"
    connection.close()
    first.stop()
    start_broker().stop()  # which makes a table of the log
    _flip_a_bit(tmp_path / "data", b"orders" + payload_of(MESSAGES // 2, PAYLOAD_BYTES))
    return start_broker()


def _flip_a_bit(store: Path, payload: bytes) -> None:
    (table,) = (store / "db").glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[content.index(payload[-100:])] ^= 1
    table.write_bytes(content)


def degraded(broker: BrokerProcess) -> list[str]:
    told = json.loads(broker.monitor("/readyz"))
    assert told["status"] == "degraded"
    reasons: list[str] = told["reasons"]
    return reasons


@needs("curl")
def test_consumers_and_readyz_tell_of_a_damaged_topic_and_others_go_on(damaged, trust, tmp_path):
    assert damaged.monitor("/readyz") == b'{"status":"ok"}'  # messages are not read at a start
    consumer, publisher = Connection(damaged.resp_port), Connection(damaged.resp_port)
    error = consumer.ask(b"SUBSCRIBE", b"orders", b"PREFETCH", b"100")
    table, _, offset = str(error).removeprefix("ERR ").partition(": damaged at offset ")
    assert 0 < int(offset) < (tmp_path / table).stat().st_size
    assert degraded(damaged) == [f"topic orders: {table}: damaged at offset {offset}"]
    with Curl(damaged, trust).subscribe("orders") as stream:
        stream.send("INIT")
        assert f"{table}: damaged at offset {offset}" in stream.receive()["error"]
    with Curl(damaged, trust).subscribe("letters") as stream:
        stream.send("INIT")
        for number in range(MESSAGES):
            assert stream.receive_message() == b"letters" + payload_of(number, PAYLOAD_BYTES)
            stream.send("ACK")
    assert publisher.ask(b"PUBLISH", b"letters", b"more") == b"OK"
    assert b"\nminiqueue_damaged_topics 1.0\n" in damaged.monitor("/metrics")
    for connection in (consumer, publisher):
        connection.close()
    damaged.stop()
    checked = run_to_end("check", "-db", "data", cwd=tmp_path)
    assert checked.returncode == 1
    assert f"{table}: damaged at offset {offset}" in checked.stdout
