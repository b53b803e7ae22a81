"""HTTP with real processes of shards: through any of them, while one is killed or stands still, and until they stop."""

import binascii
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, topic_in
from tests.acceptance.tools import until

pytestmark = pytest.mark.acceptance

#: Far longer than anything here takes, on a machine that does nothing else.
LIMIT_SECONDS = 60
#: How many connections are made so that at least one is to another process than that of the topic.
CONNECTIONS = 12


class Answered(NamedTuple):
    """What curl got; the code is its exit code, 0 for a whole reply."""

    status: int
    body: bytes
    code: int = 0

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


def curl(broker: ShardedBroker, path: str, *flags: str, body: bytes | None = None) -> Answered:
    """Make a request on a connection of its own."""
    command = ["curl", "-sk", "--max-time", str(LIMIT_SECONDS), "-w", "\n%{http_code}", *flags]
    command += [] if body is None else ["--data-binary", "@-"]
    done = subprocess.run([*command, broker.url(path)], input=body or b"", capture_output=True, check=False)
    received, _, status = done.stdout.rpartition(b"\n")
    return Answered(int(status), received, done.returncode)


@pytest.fixture(scope="module", params=["hypercorn", "granian"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    process = ShardedBroker(tmp_path_factory.mktemp("http"), "-http-server", request.param)
    try:
        yield process.wait_until_ready()
        process.stop()
    finally:
        process.end()


def test_large_messages_pass_through_any_process(broker):
    payload = os.urandom(1 << 20)
    topics = [topic_in(number, "large-") for number in range(SHARDS)]
    for topic in topics:
        for _ in range(3):
            assert curl(broker, f"/publish/{topic}", body=payload).status == 201
        received = curl(broker, f"/topics/{topic}/receive?count=3", "-X", "POST")
        messages = [binascii.a2b_base64(orjson.loads(line)["msg"]) for line in received.body.splitlines()]
        assert messages == [payload] * 3


def test_a_message_that_is_too_large_is_refused_by_its_owner(broker):
    for number in range(SHARDS):
        refused = curl(broker, f"/publish/{topic_in(number, 'toobig-')}", body=b"x" * (2 << 20))
        assert (refused.status, refused.json["code"]) == (413, "TOOBIG")


def test_lists_and_metrics_show_all_shards_through_any_process(broker):
    topics = [topic_in(number, "listed-") for number in range(SHARDS)]
    for topic in topics:
        curl(broker, f"/publish/{topic}", body=b"x")

    for _ in range(CONNECTIONS):
        assert set(topics) <= {topic["topic"] for topic in curl(broker, "/topics").json["topics"]}
    scrape = broker.monitor("/metrics").decode()
    for number, topic in enumerate(topics):
        assert f'miniqueue_messages_published_total{{shard="{number}",topic="{topic}"}} 1.0' in scrape
    assert orjson.loads(broker.monitor("/readyz")) == {"status": "ok"}
    assert len(broker.monitor("/shards/1/backup")) > 0


def test_a_shard_that_is_killed_is_reported_and_comes_back(broker):
    topic, empty = topic_in(1, "killed-"), topic_in(1, "empty-")
    curl(broker, f"/publish/{topic}", body=b"before")
    threads, waiting = waiting_for(broker, [empty] * CONNECTIONS)
    until(lambda: f'miniqueue_consumers{{shard="1",topic="{empty}"}} {CONNECTIONS}.0' in scrape(broker))
    os.kill(broker.shard(1), signal.SIGKILL)
    for thread in threads:
        thread.join()

    # Those that had connected to the process itself are cut off, the others hear of it.
    assert {answered.status for answered in waiting} <= {0, 503}
    assert {answered.json["code"] for answered in waiting if answered.status == 503} == {"TRYAGAIN"}
    assert curl_again(broker, f"/publish/{topic_in(0, 'others-')}", body=b"x").status == 201
    # An attempt can have reached the shard although its error says that the outcome is unknown.
    assert curl_again(broker, f"/publish/{topic}?dedup=1", body=b"after").status in (200, 201)
    received = curl_again(broker, f"/topics/{topic}/receive?count=5", "-X", "POST")
    assert [orjson.loads(line)["msg"] for line in received.body.splitlines()] == ["YmVmb3Jl", "YWZ0ZXI="]


def test_a_shard_that_stands_still_is_unavailable_in_time_and_the_others_go_on(broker):
    topic, other = topic_in(2, "still-"), topic_in(0, "goes-on-")
    with broker.stopped(2):
        for _ in range(CONNECTIONS):
            refused = curl(broker, f"/topics/{topic}", "--max-time", "30")
            assert (refused.status, refused.json["code"]) == (503, "TRYAGAIN")
            assert curl(broker, f"/publish/{other}", body=b"x").status == 201
        assert curl(broker, "/topics").json["code"] == "TRYAGAIN"
        assert orjson.loads(broker.monitor("/readyz"))["reasons"] == ["shard 2 does not answer"]
        assert 'miniqueue_shard_up{shard="2"} 0' in scrape(broker)
    assert curl_again(broker, f"/publish/{topic}", body=b"x").status == 201
    until_all_answer(broker)


def test_a_stop_answers_the_requests_that_wait_in_other_shards(tmp_path: Path):
    broker = ShardedBroker(tmp_path)
    try:
        broker.wait_until_ready()
        topics = [topic_in(number, "waits-") for number in range(SHARDS)]
        threads, answers = waiting_for(broker, topics * 4)
        until(lambda: all(f'topic="{topic}"}} 4.0' in scrape(broker) for topic in topics))
        broker.stop()
        for thread in threads:
            thread.join()
    finally:
        broker.end()
    assert [(answered.status, answered.body) for answered in answers] == [(200, b"")] * len(topics) * 4


def waiting_for(broker: ShardedBroker, topics: list[str]) -> tuple[list[threading.Thread], list[Answered]]:
    """Wait for messages of topics, on a connection each; return the threads, and what comes to contain the answers."""
    answers: list[Answered] = []

    def wait(topic: str) -> None:
        answers.append(curl(broker, f"/topics/{topic}/receive?wait=20", "-X", "POST"))

    threads = [threading.Thread(target=wait, args=(topic,)) for topic in topics]
    for thread in threads:
        thread.start()
    return threads, answers


def scrape(broker: ShardedBroker) -> str:
    return broker.monitor("/metrics").decode()


def until_all_answer(broker: ShardedBroker) -> None:
    """Return when each process has found that the others answer: several in turn say so, each for itself."""
    for _ in range(CONNECTIONS):
        until(lambda: orjson.loads(broker.monitor("/readyz")) == {"status": "ok"})


def curl_again(broker: ShardedBroker, path: str, *flags: str, body: bytes | None = None) -> Answered:
    """Make a request until the shard answers it: processes find one after the other that it is back."""
    answered: list[Answered] = []
    until(lambda: answered.append(curl(broker, path, *flags, body=body)) or answered[-1].status not in (0, 503))
    return answered[-1]
