"""A job whose driver and workers are killed in the middle, and whose broker is, too: what it has copied in the end."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet

from miniqueue.client import Client
from tests.client.broker import RespBroker
from tests.meta.modules import ROOT


class Job:
    """One run of `copies`, in a session of processes of its own, so that all of them can be killed at once."""

    def __init__(self, url: str, directory: Path) -> None:
        self.errors = directory.with_name("errors.log")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copies", url, str(directory)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        while self.process.stdout.readline() not in ("ready\n", ""):
            pass

    def kill(self) -> None:
        """Kill the driver, its JVM and the Python workers, which are the executors here."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def check_copies(broker: RespBroker, directory: Path, count: int, kills: Sequence[str]) -> None:
    """Copy `count` messages, with these kills on the way, each `job` or `broker and job`; all must be there once."""
    payloads = [b"%d" % number for number in range(count)]
    with Client(broker.url) as client:
        client.create_topic("from", retention="forever")
        client.create_topic("to", dedup_window_seconds=3600)
        for start in range(0, count, 5000):
            client.publish_many("from", payloads[start : start + 5000])
        for kill in kills:
            _run_until_killed(broker, client, directory, count, kill)
        last = Job(broker.url, directory)
        try:
            assert last.process.wait(300) == 0, last.errors.read_text()
        finally:
            if last.process.poll() is None:
                last.kill()
            last.process.communicate()
        copied = Counter(message.payload for message in client.consume("to", count=9999, autoack=True, idle_seconds=1))
    assert copied == Counter(payloads)
    # Only what the log of the sink names counts: files of attempts that were killed lie beside.
    assert Counter(archived_values(directory / "archive")) == Counter(payloads)


def _run_until_killed(broker: RespBroker, client: Client, directory: Path, count: int, kill: str) -> None:
    job = Job(broker.url, directory)
    try:
        job.wait_until_ready()
        wait_for_more(client, 1300, count)  # not where a micro-batch ends
        if kill != "job":
            broker.kill()
            broker.start()
            wait_for_more(client, 1300, count)
    finally:
        job.kill()


def wait_for_more(client: Client, count: int, total: int) -> None:
    """Return when the copy has so many messages more, or all."""
    aim = min(client.length("to") + count, total)
    ends_at = time.monotonic() + 120
    while client.length("to") < aim:
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def archived_values(archive: Path) -> list[bytes]:
    """Return what is in the files that Spark's own log of the sink names."""
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
