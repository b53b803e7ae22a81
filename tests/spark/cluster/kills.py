"""A job whose processes are killed at random, and whose broker is, too: what it has copied in the end.

The output of a job that fails is in the failure, except for two things, after which it is started again. Spark gives
a Python process ten seconds to start, whatever it is configured to, which on a busy machine can be too few. And once in
many runs none of its executors can read a task that its driver has written: a map of Java's in it has fewer entries
than it says. What is copied is compared all the same.

Kills, by what dies:

    job      all of it at once: the driver, its JVM, the Python workers
    driver   the program; its JVM finds out, and ends in its own way
    jvm      the JVM, under the program
    workers  the Python workers, which are the executors here: their tasks run again, and the job goes on; unless one
             of them was planning for the driver, which lives with the executors here, and then it breaks off
    broker   the broker, which starts again at once: the job waits for it, and goes on
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow
import pyarrow.parquet

from miniqueue_client import Client
from tests.client.broker import RespBroker
from tests.meta.modules import ROOT

KILLS = ("job", "driver", "jvm", "workers", "broker")
#: How processes are known, by their command lines.
_JVM, _WORKERS = b"SparkSubmit", b"pyspark.daemon"
_FAULTS_OF_SPARK = "Python worker failed to connect back", "java.io.OptionalDataException"
_STALLED_SECONDS = 180
_ENDING_SECONDS = 60


class Plan(NamedTuple):
    """What is copied, and what happens meanwhile.

    Attributes:
      rows: number of rows of each of the three copies.
      rows_at_once: number of rows of a micro-batch.
      kills: at random moments, one after the other.
      seed: the seed of these moments.
    """

    rows: int
    rows_at_once: int
    kills: Sequence[str]
    seed: int = 1


class Job:
    """One run of `copies`, in a session of processes of its own, so that all of them can be killed at once."""

    def __init__(self, url: str, directory: Path, rows_at_once: int) -> None:
        self._log = directory / "job.log"
        self._may_break_off = False
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.cluster.copies", url, str(directory), str(rows_at_once)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) != "ready\n":
            assert line, self.said()

    @property
    def is_over(self) -> bool:
        """Whether it has ended; raises AssertionError with what it said when it broke off without a cause."""
        code = self.process.poll()
        assert code in (None, 0) or self._may_break_off or self._met_fault_of_spark(), self.said()
        return code is not None

    def _met_fault_of_spark(self) -> bool:
        said = self.said()
        return any(fault in said for fault in _FAULTS_OF_SPARK)

    @property
    def is_done(self) -> bool:
        """Whether there was nothing more to copy."""
        return self.process.poll() == 0

    def said(self) -> str:
        """Return how it ended, and the end of what it has said."""
        return f"the job ended with {self.process.wait(60)}:\n{self._log.read_text()[-8000:]}"

    def kill(self, what: str = "job") -> bool:
        """Kill some of its processes; return whether it may go on. Where it does not, nothing of it is left."""
        chosen = [pid for pid in self._processes() if self._is_of(pid, what)]
        for pid in chosen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if what == "workers":
            self._may_break_off = True
            return True
        ends_at = time.monotonic() + _ENDING_SECONDS
        while self._processes():
            assert time.monotonic() < ends_at, f"processes outlive the kill of the {what}: {self._processes()}"
            self.process.poll()  # otherwise it would stay in the process table
            time.sleep(0.05)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return False

    def _processes(self) -> list[int]:
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(ProcessLookupError):
                if os.getsid(int(entry.name)) == self.process.pid:
                    pids.append(int(entry.name))
        return pids

    def _is_of(self, pid: int, what: str) -> bool:
        if what == "workers":  # those that the daemon has forked, not the daemon
            return _WORKERS in _words(pid) and _WORKERS in _words(_parent(pid))
        if what == "jvm":
            return _JVM in _words(pid)
        return what == "job" or pid == self.process.pid


def _words(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _parent(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def check_copies(broker: RespBroker, directory: Path, plan: Plan) -> None:
    """Copy as planned; everything must be there once in each copy."""
    payloads = [b"%d" % number for number in range(plan.rows)]
    directory.mkdir()
    _write_rows(directory / "rows", payloads, plan.rows_at_once // 2)
    with Client(broker.url, retries=20) as client:
        client.create_topic("from", retention="forever")
        for topic in ("to", "loaded"):
            client.create_topic(topic, dedup_window_seconds=3600)
        for start in range(0, plan.rows, 5000):
            client.publish_many("from", payloads[start : start + 5000])
        _run(broker, client, directory, plan)
        copies = {topic: _consumed(client, topic) for topic in ("to", "loaded")}
    copies["archive"] = Counter(archived_values(directory / "archive"))
    wanted = Counter(payloads)
    assert {name: found == wanted for name, found in copies.items()} == dict.fromkeys(copies, True), {
        name: f"{(wanted - found).total()} lost, {(found - wanted).total()} too many" for name, found in copies.items()
    }


def _write_rows(directory: Path, payloads: Sequence[bytes], count: int) -> None:
    directory.mkdir()
    for start in range(0, len(payloads), count):
        part = list(payloads[start : start + count])
        table = pyarrow.table({"key": [payload[-2:].decode() for payload in part], "value": part})
        pyarrow.parquet.write_table(table, directory / f"{start:09}.parquet")


def _run(broker: RespBroker, client: Client, directory: Path, plan: Plan) -> None:
    """Start the job, and again after each kill that it does not survive, until it has ended well."""
    random = Random(plan.seed)
    # Somewhere in each part of the way; not behind it, where there would be nothing left to kill.
    aims = [int(1.8 * plan.rows * (number + random.random()) / len(plan.kills)) for number in range(len(plan.kills))]
    left = list(zip(plan.kills, aims, strict=True))
    is_done = False
    while not is_done:
        job = Job(broker.url, directory, plan.rows_at_once)
        try:
            job.wait_until_ready()
            _run_until_killed(broker, client, job, left)
            is_done = job.is_done
        finally:
            job.kill()


def _run_until_killed(broker: RespBroker, client: Client, job: Job, left: list[tuple[str, int]]) -> None:
    """Kill what is next, one after the other, until the job dies of it, or is over."""
    while left:
        kill, aim = left[0]
        if _is_over_before(client, job, aim):
            return
        del left[0]
        if kill == "broker":
            broker.kill()
            broker.start()
        elif not job.kill(kill):
            return
    _is_over_before(client, job, None)


def _is_over_before(client: Client, job: Job, aim: int | None) -> bool:
    """Return whether the job is over before it has copied so many rows; fail when it stands still."""
    copied, since = -1, time.monotonic()
    while not job.is_over:
        count = client.length("to") + client.length("loaded")
        if aim is not None and count >= aim:
            return False
        if count > copied:
            copied, since = count, time.monotonic()
        if time.monotonic() > since + _STALLED_SECONDS:
            job.kill()
            raise AssertionError(f"nothing more than {copied} rows were copied; {job.said()}")
        time.sleep(0.02)
    return True


def _consumed(client: Client, topic: str) -> Counter[bytes]:
    return Counter(message.payload for message in client.consume(topic, count=9999, autoack=True, idle_seconds=1))


def archived_values(archive: Path) -> list[bytes]:
    """Return what is in the files that Spark's own log of the sink names: those of attempts that died lie beside."""
    logs = (archive / "_spark_metadata").iterdir()
    named = {
        line.split('"path":"')[1].split('"')[0].rpartition("/")[2]
        for log in logs
        if not log.name.startswith(".")
        for line in log.read_text().splitlines()
        if '"path"' in line
    }
    tables = [pyarrow.parquet.read_table(archive / name, columns=["value"]) for name in sorted(named)]
    return [value for table in tables for value in table.column("value").to_pylist()]
