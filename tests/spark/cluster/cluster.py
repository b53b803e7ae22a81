"""A cluster of Spark: a master, two workers, each with an executor, and a driver, all of them processes on loopback.

Each takes a port that is free when it asks for one, and the master's is read in its log.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from pyspark.find_spark_home import _find_spark_home

from tests.meta.modules import ROOT
from tests.spark.needs import SHORT_LIVED_JAVA

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_URL = re.compile(r"spark://127\.0\.0\.1:[1-9]\d*")
_START_SECONDS = 120


class SparkProcess:
    """A process of the cluster, ready when its log says so."""

    def __init__(self, log: Path, ready: str, *arguments: str) -> None:
        self._log = log
        home = _find_spark_home()
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [f"{home}/bin/spark-class", *arguments],
                env={**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        ends_at = time.monotonic() + _START_SECONDS
        while ready not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < ends_at, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        """Return what it has said."""
        return self._log.read_text()

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
    """A master and two workers."""

    def __init__(self, directory: Path, started: ExitStack) -> None:
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = SparkProcess(directory / "master.log", "elected leader", _MASTER, *where)
        started.callback(master.end)
        self.url = _URL.findall(master.said())[0]
        self.workers = []
        for number in range(2):
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}")]
            log = directory / f"worker-{number}.log"
            ready = "Successfully registered with master"
            worker = SparkProcess(log, ready, _WORKER, *where, *limits, self.url)
            started.callback(worker.end)
            self.workers.append(worker)

    def kill_an_executor(self) -> bool:
        """Kill the executor of the first worker that has one; return whether there was any."""
        return any(worker.kill_executors() for worker in self.workers)


class ClusterJob:
    """`cluster_job`, with one session on a cluster; what it is to do is begun here, and waited for later.

    Args:
      directory: the directory of Spark's configuration, with the address of the cluster and all of `configured`.
      master: the address of the cluster.
      configured: more of the configuration, by name.
    """

    def __init__(self, directory: Path, master: str, configured: Mapping[str, str]) -> None:
        usual = {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": SHORT_LIVED_JAVA,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.shuffle.partitions": "2",
        }
        (directory / "conf").mkdir()
        lines = [f"{name} {value}" for name, value in {**usual, **configured}.items()]
        (directory / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
        self._log = directory / "driver.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.cluster.cluster_job"],
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(directory / "conf")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        self._answers: Queue[str] = Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)

    def begin(self, act: str, **arguments: object) -> None:
        """Send it an order; return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": act, **arguments}) + "\n")
        self._process.stdin.flush()

    @property
    def is_busy(self) -> bool:
        """Whether what was begun goes on."""
        return self._answers.empty() and self._process.poll() is None

    def result(self, seconds: float = 240) -> Any:
        """Wait for what was begun, and return its result; raises AssertionError when it failed."""
        try:
            answer = json.loads(self._answers.get(timeout=seconds))
        except Empty:
            raise AssertionError(f"no answer in {seconds} s: {self.said()}") from None
        assert "error" not in answer, f"{answer['error']}\n{self.said()}"
        return answer["result"]

    def said(self) -> str:
        """Return the end of what it has said."""
        return self._log.read_text()[-4000:]

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
