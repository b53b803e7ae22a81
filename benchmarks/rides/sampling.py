"""What is measured each second: how far the rides are, and the memory of all processes that take part.

Tables are CSV files with a column for each figure; what there was none of is empty.
"""

import csv
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from miniqueue_client import Client, ClientError

EVERY_SECONDS: Final = 1.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
#: How the processes of a job are known, by their command lines; what is none of these is the driver's program.
_JVM, _PYTHON_WORKER = b"SparkSubmit", b"pyspark.daemon"

#: A sample: seconds since the start, and figures by name.
Sample = dict[str, float]


class Sampler:
    """Takes samples in a thread of its own, from the start of a `with` block to its end.

    Attributes:
      samples: the samples taken so far.
      broker_pid: the process of the broker.
      job_pid: the process of the running job, which leads a session of processes; 0: none.
      members: the workers, by number.
    """

    def __init__(self, url: str, topic: str, broker_pid: int) -> None:
        self.samples: list[Sample] = []
        self.broker_pid = broker_pid
        self.job_pid = 0
        self.members: Mapping[int, subprocess.Popen[bytes]] = {}
        self._url, self._topic = url, topic
        self._began_at = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._began_at

    def _run(self) -> None:
        with Client(self._url) as client:
            while not self._is_over.wait(EVERY_SECONDS):
                with suppress(ClientError):  # a broker that is gone for a while leaves a gap
                    self.samples.append({"seconds": round(self.seconds, 2), **self._counts(client), **self._memory()})

    def _counts(self, client: Client) -> Sample:
        stats = client.stats(self._topic)
        names = ("published", "acknowledged", "moved", "depth", "leased", "delayed")
        return {name: float(stats[name]) for name in names}

    def _memory(self) -> Sample:
        memory = {"broker": resident_mb(self.broker_pid), "broker_anonymous": anonymous_mb(self.broker_pid)}
        memory |= {f"worker_{number}": resident_mb(worker.pid) for number, worker in list(self.members.items())}
        return memory | (spark_memory_mb(self.job_pid) if self.job_pid else {})


def spark_memory_mb(job_pid: int) -> Sample:
    """Return the resident memory of a job's JVM, of its program and of its largest Python worker, in millions of bytes.

    The job leads a session of processes.
    """
    pids = _session(job_pid)
    jvm = [resident_mb(pid) for pid in pids if _JVM in _words(pid)]
    python = [resident_mb(pid) for pid in pids if _PYTHON_WORKER in _words(pid)]
    driver = {"driver_jvm": max(jvm), "driver_python": resident_mb(job_pid)} if jvm else {}
    return driver | ({"python_worker": max(python)} if python else {})


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in millions of bytes; 0 when it is gone."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6
    return 0.0


def anonymous_mb(pid: int) -> float:
    """Return what of it is no file that is mapped, as LevelDB maps its tables."""
    with suppress(OSError, IndexError):
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * _PAGE_BYTES / 1e6
    return 0.0


def write_table(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as CSV, with all the columns that any of them has."""
    file.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, names)
        writer.writeheader()
        writer.writerows(rows)


def read_table(file: Path) -> list[dict[str, str]]:
    """Return rows from CSV, as text."""
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _session(leader: int) -> list[int]:
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == leader:
                pids.append(int(entry.name))
    return pids


def _words(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
