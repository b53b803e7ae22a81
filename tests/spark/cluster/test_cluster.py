"""The data source on a cluster, over TLS, with a user whose secret stands in Spark's configuration.

The cluster, the broker and the session are the same for all tests; each has topics of its own.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from miniqueue_client import Client, Outgoing
from tests.acceptance.users import UsersFile
from tests.client.broker import RespBroker
from tests.spark.cluster.cluster import Cluster, ClusterJob
from tests.spark.needs import needs_spark

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.spark_jobs,
    needs_spark,
]

ROWS = 50_000
TIMEOUT_SECONDS = 2


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def access(directory) -> dict[str, str]:
    """Return who the job and the tests are, by the names of options."""
    secret = UsersFile(directory).add("spark", "-admin", "*")
    return {"user": "spark", "secret": secret, "caFile": str(directory / "certs" / "ca.pem")}


@pytest.fixture(scope="module")
def broker(directory, access) -> Iterator[RespBroker]:
    broker = RespBroker(directory, "-resp-tls", "-users", "users.toml")
    yield broker
    broker.end()


@pytest.fixture(scope="module")
def url(broker) -> str:
    return broker.url.replace("redis://127.0.0.1", "rediss://localhost")


@pytest.fixture(scope="module")
def cluster(directory) -> Iterator[Cluster]:
    with ExitStack() as started:
        yield Cluster(directory, started)


@pytest.fixture(scope="module")
def job(directory, cluster, url, access) -> Iterator[ClusterJob]:
    options = {"url": url, "timeoutSeconds": str(TIMEOUT_SECONDS), **access}
    job = ClusterJob(directory, cluster.url, {f"spark.miniqueue.{name}": text for name, text in options.items()})
    yield job
    job.end()


@pytest.fixture
def client(url, access) -> Iterator[Client]:
    options = {"username": access["user"], "password": access["secret"], "ssl_ca_certs": access["caFile"]}
    with Client(url, retries=20, **options) as client:
        yield client


def wait_until(job: ClusterJob, is_so: Callable[[], bool]) -> None:
    """Wait for something that is so before the job has done what it does."""
    while not is_so():
        assert job.is_busy, job.result()
        time.sleep(0.01)


def begin_to_write(job, client, topic, tasks=20, **more):
    """Begin to write, and return when the first rows are there."""
    client.create_topic(topic, dedup_window_seconds=3600)
    job.begin("write", topic=topic, rows=ROWS, tasks=tasks, **more)
    wait_until(job, lambda: client.length(topic) >= ROWS // 50)


def test_an_executor_that_is_killed_neither_loses_nor_doubles_rows(job, cluster, client):
    begin_to_write(job, client, "killed")
    assert cluster.kill_an_executor()
    job.result()
    assert client.length("killed") == ROWS
    job.begin("read", topic="killed", tasks=8)
    assert job.result() == [ROWS, ROWS]


def test_a_broker_that_is_killed_and_starts_again_is_waited_for(job, broker, client):
    begin_to_write(job, client, "restarted")
    broker.kill()
    time.sleep(1.5)  # what this is about: tasks run into it
    assert job.is_busy  # and cannot end before there is a broker again
    broker.start()
    job.result()
    assert client.length("restarted") == ROWS


def test_a_broker_that_answers_late_is_waited_for(job, broker, client):
    begin_to_write(job, client, "stopped")
    broker.process.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5 * TIMEOUT_SECONDS)  # so that replies are late, for each task more than once
    assert job.is_busy  # and cannot end before the broker goes on
    os.kill(broker.process.process.pid, signal.SIGCONT)
    job.result()
    assert client.length("stopped") == ROWS


def test_a_topic_that_is_full_holds_the_job_up_until_there_is_room(job, client):
    limit = ROWS // 4
    client.create_topic("full", dedup_window_seconds=3600, max_messages=limit, limit_policy="refuse")
    job.begin("write", topic="full", rows=ROWS, tasks=20)
    wait_until(job, lambda: client.length("full") > limit - 1000)
    taken = []
    while job.is_busy:
        assert client.length("full") <= limit
        taken += client.receive("full", count=5000, autoack=True, wait_seconds=0.2)
    job.result()
    taken += client.consume("full", count=5000, autoack=True, idle_seconds=0)
    assert sorted(int(message.payload) for message in taken) == list(range(ROWS))


def test_a_task_with_nine_tenths_of_the_rows_does_not_hold_up_the_others(job, client, tmp_path):
    gate, edge, taken = tmp_path / "gate", int(0.9 * ROWS), []

    def others_are_done() -> bool:
        taken.extend(int(message.payload) for message in client.receive("skewed", count=5000, autoack=True))
        return sum(number >= edge for number in taken) == ROWS - edge

    begin_to_write(job, client, "skewed", tasks=4, skew=0.9, gate=str(gate))
    wait_until(job, others_are_done)
    gate.touch()
    job.result()
    taken += (int(message.payload) for message in client.consume("skewed", count=5000, autoack=True, idle_seconds=0))
    assert sorted(taken) == list(range(ROWS))


def test_each_micro_batch_takes_from_all_partitions_also_where_one_has_nine_tenths(job, client, tmp_path):
    client.create_topic("uneven", partitions=4, retention="forever")
    client.create_topic("even", dedup_window_seconds=3600)
    counts = [9000, 500, 300, 200]
    keys = {client.publish("uneven", "0", key=f"{key}").partition("-")[0]: f"{key}" for key in range(100)}
    assert sorted(keys) == ["0", "1", "2", "3"]
    for partition, count in enumerate(counts):
        for _ in range(count // 100):
            client.publish_each("uneven", [Outgoing(b"x", key=keys[str(partition)])] * 100)
    job.begin("copy", source="uneven", target="even", rows_at_once=2500, checkpoint=str(tmp_path))
    sizes = job.result()
    assert sum(sizes) == 10_100
    copied = [message.key for message in client.consume("even", count=5000, autoack=True, idle_seconds=1)]
    for size in sizes[:-1]:
        assert set(copied[:size]) == {b"0", b"1", b"2", b"3"}
        del copied[:size]
