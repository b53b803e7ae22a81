"""A cluster writes and copies a million rows, while executors and the broker are killed and stopped: for `make soak`.

`SPARK_KILLS_SEED` says what happens when; without it that is something else each time, and a failure names it.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from miniqueue_client import Client
from tests.client.broker import RespBroker
from tests.spark.cluster.cluster import Cluster, ClusterJob
from tests.spark.needs import needs_spark

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    needs_spark,
]

ROWS = 1_000_000
STOP_SECONDS = 12.0
WINDOW_SECONDS = 7200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as started:
        yield Cluster(tmp_path, started)


@pytest.fixture
def job(tmp_path: Path, cluster: Cluster, broker: RespBroker) -> Iterator[ClusterJob]:
    # Each executor that is killed fails a task, which is no fault of the task.
    configured = {"spark.miniqueue.url": broker.url, "spark.task.maxFailures": "100"}
    job = ClusterJob(tmp_path, cluster.url, configured)
    yield job
    job.end()


def test_a_million_rows_are_written_and_copied_once(cluster, broker, job, tmp_path):
    seed = int(os.environ.get("SPARK_KILLS_SEED") or time.time())
    print(f"SPARK_KILLS_SEED={seed}")
    random = Random(seed)
    with Client(broker.url, retries=20) as client:
        client.create_topic("written", retention="forever", dedup_window_seconds=WINDOW_SECONDS)
        client.create_topic("copied", dedup_window_seconds=WINDOW_SECONDS)
        job.begin("write", topic="written", rows=ROWS, tasks=40, skew=0.3)
        acts = disturb(random, cluster, broker, job, client, "written")
        job.result()
        job.begin("copy", source="written", target="copied", rows_at_once=50_000, checkpoint=str(tmp_path / "place"))
        acts += disturb(random, cluster, broker, job, client, "copied")
        assert sum(job.result()) == ROWS
        print(acts)
        wanted = Counter(b"%d" % number for number in range(ROWS))
        for topic in ("written", "copied"):
            messages = client.consume(topic, count=9999, autoack=True, idle_seconds=1)
            assert Counter(message.payload for message in messages) == wanted


def disturb(random, cluster, broker, job, client, topic) -> Counter[str]:
    """Do something to the broker or an executor, some five times on the way, for as long as the job goes on."""
    acts: Counter[str] = Counter()
    aim = random.randrange(ROWS // 5)
    while job.is_busy:
        time.sleep(0.1)
        if client.length(topic) < aim:
            continue
        aim += ROWS // 10 + random.randrange(ROWS // 10)
        act = random.choice(("executor", "kill", "stop"))
        acts[act] += 1
        if act == "executor":
            cluster.kill_an_executor()
        elif act == "kill":
            broker.kill()
            broker.start()
        else:
            pid = broker.process.process.pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOP_SECONDS)
            os.kill(pid, signal.SIGCONT)
    return acts
