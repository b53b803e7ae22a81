"""A job whose driver and workers are killed in the middle, and whose broker is, too, copies every message once."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from miniqueue.client import Client
from tests.client.broker import RespBroker
from tests.meta.modules import ROOT

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed"),
]

MESSAGES = 20_000


class Job:
    """One run of `copies`, in a session of processes of its own, so that all of them can be killed at once."""

    def __init__(self, url: str, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.copies", url, str(directory)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


def wait_for_more(client: Client, count: int) -> None:
    """Return when the copy has so many messages more, or all."""
    aim = min(client.length("to") + count, MESSAGES)
    ends_at = time.monotonic() + 120
    while client.length("to") < aim:
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_kills_in_the_middle_neither_lose_nor_double(broker, tmp_path):
    directory = tmp_path / "job"
    payloads = [b"%d" % number for number in range(MESSAGES)]
    with Client(broker.url) as client:
        client.create_topic("from", retention="forever")
        client.create_topic("to", dedup_window_seconds=3600)
        for start in range(0, MESSAGES, 5000):
            client.publish_many("from", payloads[start : start + 5000])
        for kill in ("job", "broker and job"):
            job = Job(broker.url, directory)
            try:
                job.wait_until_ready()
                wait_for_more(client, 1300)  # not where a micro-batch ends
                if kill != "job":
                    broker.kill()
                    broker.start()
                    wait_for_more(client, 1300)
            finally:
                job.kill()
        last = Job(broker.url, directory)
        try:
            assert last.process.wait(300) == 0
        finally:
            if last.process.poll() is None:
                last.kill()
            last.process.communicate()
        copied = Counter(message.payload for message in client.consume("to", count=9999, autoack=True, idle_seconds=1))
    assert copied == Counter(payloads)
    # Only what the log of the sink names counts: files of attempts that were killed lie beside.
    archived = archived_values(directory / "archive")
    assert Counter(archived) == Counter(payloads)


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
