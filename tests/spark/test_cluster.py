"""The data source on a cluster: a master, two workers, each with an executor, and a driver, all of them processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from miniqueue.client import Client
from tests.client.broker import RespBroker, free_port
from tests.meta.modules import ROOT

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed"),
]

ROWS = 50_000
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


class SparkProcess:
    """A process of the cluster, ready when its log says so."""

    def __init__(self, log: Path, ready: str, *arguments: str) -> None:
        home = _find_spark_home()
        environment = {**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable}
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [f"{home}/bin/spark-class", *arguments],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        ends_at = time.monotonic() + 60
        while ready not in log.read_text():
            assert time.monotonic() < ends_at, log.read_text()
            time.sleep(0.1)

    def kill_executors(self) -> int:
        """Kill what a worker has started; return how many there were."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        executors = [int(child) for thread in threads for child in thread.read_text().split()]
        for executor in executors:
            os.kill(executor, signal.SIGKILL)
        return len(executors)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A master and two workers on loopback."""

    def __init__(self, directory: Path, started: ExitStack) -> None:
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        where = ["--host", "127.0.0.1", "--webui-port"]
        master = SparkProcess(
            directory / "master.log", "elected leader", MASTER, *where, str(free_port()), "--port", str(port)
        )
        started.callback(master.end)
        self.workers = []
        for number in range(2):
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}")]
            log = directory / f"worker-{number}.log"
            ready = "Successfully registered with master"
            worker = SparkProcess(log, ready, WORKER, *where, str(free_port()), *limits, self.url)
            started.callback(worker.end)
            self.workers.append(worker)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as started:
        yield Cluster(tmp_path, started)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


def test_an_executor_that_is_killed_neither_loses_nor_doubles_rows(cluster, broker):
    with Client(broker.url) as client:
        client.create_topic("t", dedup_window_seconds=3600)
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_job", cluster.url, broker.url, str(ROWS)],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            while client.length("t") < ROWS // 20:
                assert job.poll() is None
                time.sleep(0.01)
            assert any(worker.kill_executors() for worker in cluster.workers)  # of the first that has one by now
            output, _ = job.communicate(timeout=200)
        finally:
            job.kill()
            job.communicate()
        assert client.length("t") == ROWS
    assert output.split()[-3:] == ["read", str(ROWS), str(ROWS)]
