"""What a broker and its tools take in RAM while a backlog arrives, waits, and is consumed; files that are mapped count.

    publish ─ wait ─ backup ─ check ─ export ─ import ─ publish more ─ wait ─ drain ─ wait ─┐
    ┌───────────────────────────────────────────────────────────────────────────────────────┘
    └ delayed ─ delayed, due in any order ─ returned with a delay ─ leases

It is a finding if a process takes more than MAX_RSS_BYTES, beyond what the broker has charged for leases.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.acceptance import patient
from tests.acceptance.process import COMMAND, FREE_PORTS, BrokerProcess, Trust, environment
from tests.durability.load.measuring import PATIENCE_SECONDS, file_bytes, own_bytes, rss_bytes

MIB = 1 << 20
MAX_RSS_BYTES = 200 * MIB
#: How much more than at the start a broker may take a minute after the load.
MAX_LEFT_BYTES = 50 * MIB
#: Messages of a request.
PAGE = 1000
PAYLOADS = tuple(Random(7).randbytes(512).hex().encode() for _ in range(PAGE))
HOUR_SECONDS = 3_600
LEASE_SECONDS = 12 * HOUR_SECONDS
_INTERVAL_SECONDS = 0.02


class Peak(NamedTuple):
    """The most that a process has taken: in RAM, of that its own, and pages of files."""

    rss_bytes: int = 0
    own_bytes: int = 0
    file_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.rss_bytes / MIB:.0f} MiB (own {self.own_bytes / MIB:.0f}, files {self.file_bytes / MIB:.0f})"


class Watch:
    """Looks at a process again and again, in a thread.

    Attributes:
      peak: the most of what was seen; each figure can be of another moment.
      look_count: how often it was seen.
    """

    def __init__(self, pid: int) -> None:
        self.peak = Peak()
        self.look_count = 0
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.is_set():
            try:
                seen = Peak(rss_bytes(self._pid), own_bytes(self._pid), file_bytes(self._pid))
            except (OSError, IndexError):  # the process has ended
                return
            self.peak = Peak(*map(max, self.peak, seen))
            self.look_count += 1
            self._is_over.wait(_INTERVAL_SECONDS)


@dataclass
class Footprint:
    """A broker under loads, and what was found.

    Attributes:
      lines: a line for each step, with figures.
      findings: a line for each bound that was exceeded.
    """

    broker: BrokerProcess
    max_rss_bytes: int = MAX_RSS_BYTES
    lines: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pid = self.broker.process.pid
        self.idle_bytes = rss_bytes(self.pid)
        self.client = patient.Redis(port=self.broker.resp_port)

    @contextmanager
    def step(self, name: str, pid: int | None = None) -> Iterator[None]:
        """Measure a process, by default the broker, while the block runs, and judge it."""
        began_at = time.monotonic()
        with closing(Watch(pid or self.pid)) as watch:
            yield
        spare_bytes = self._leased_bytes()
        self.lines.append(f"{name}, {time.monotonic() - began_at:.0f} s: {watch.peak}")
        if not watch.look_count:
            self.findings.append(f"{name}: the process was never seen")
        if watch.peak.rss_bytes > self.max_rss_bytes + spare_bytes:
            self.findings.append(f"{self.lines[-1]}; the bound is {(self.max_rss_bytes + spare_bytes) / MIB:.0f} MiB")

    def publish(self, topic: str, pages: int) -> None:
        """Publish this many times PAGE messages of 1 KiB."""
        for _ in range(pages):
            self.client.execute_command("MPUBLISH", topic, *PAYLOADS)

    def delay(self, topic: str, pages: int) -> None:
        """Publish this many times PAGE messages that are due in an hour."""
        for _ in range(pages):
            self._pipeline([("PUB", topic, payload, "DELAY", HOUR_SECONDS) for payload in PAYLOADS])

    def delay_at_random(self, topics: Sequence[str], pages: int) -> None:
        """Publish this many times PAGE messages with keys and headers that are due in any order, to any topic."""
        random = Random(pages)
        for _ in range(pages):
            seconds = [random.randrange(HOUR_SECONDS, 100 * HOUR_SECONDS) for _ in PAYLOADS]
            self._pipeline(
                ("PUB", random.choice(topics), payload, "DELAY", delay, "KEY", delay, "HEADER", "name", "value")
                for payload, delay in zip(PAYLOADS, seconds, strict=True)
            )

    def return_later(self, topic: str, pages: int) -> None:
        """Publish this many times PAGE messages, and return each for an hour."""
        for _ in range(pages):
            self.publish(topic, 1)
            self._pipeline([("DACK", topic, receipt, HOUR_SECONDS) for receipt in self._receive(topic)])

    def drain(self, topic: str) -> int:
        """Receive and acknowledge all messages, PAGE at a time; return how many there were."""
        total = 0
        while receipts := self._receive(topic):
            self.client.execute_command("ACK", topic, *receipts)
            total += len(receipts)
        return total

    def lease(self, topic: str, pages: int) -> None:
        """Lease this many times PAGE messages for 12 hours."""
        for _ in range(pages):
            self._receive(topic, "LEASE", LEASE_SECONDS)

    def _leased_bytes(self) -> int:
        """Return how much memory of leased messages the broker has charged to clients."""
        metrics = self.broker.monitor("/metrics").decode()
        return int(float(metrics.partition('\nminiqueue_memory_bytes{purpose="leases"} ')[2].split()[0]))

    def _pipeline(self, commands: Iterable[Sequence[str | bytes | int]]) -> None:
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        pipeline.execute()

    def _receive(self, topic: str, *options: object) -> list[bytes]:
        messages = self.client.execute_command("RECEIVE", topic, "COUNT", PAGE, *options)
        return [receipt for receipt, _, _ in messages]

    def wait(self, what: str) -> None:
        """Wait until the broker has returned what it needs no more; note how long that took."""
        began_at, left_bytes = time.monotonic(), 0
        for _ in count():
            left_bytes, seconds = rss_bytes(self.pid) - self.idle_bytes, time.monotonic() - began_at
            if left_bytes < MAX_LEFT_BYTES or seconds > PATIENCE_SECONDS:
                break
            time.sleep(0.1)
        self.lines.append(f"after {what}: {left_bytes / MIB:+.0f} MiB in {seconds:.0f} s")
        if left_bytes >= MAX_LEFT_BYTES:
            self.findings.append(f"{self.lines[-1]}; the bound is {MAX_LEFT_BYTES / MIB:.0f}")

    def tool(self, *arguments: str, cwd: Path) -> None:
        """Run a tool to its end, and measure it and the broker."""
        command = [*COMMAND, *arguments]
        process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL)
        with self.step(f"broker beside {arguments[0]}"), self.step(arguments[0], process.pid):
            code = process.wait()
        if code:
            self.findings.append(f"{arguments[0]} ended with {code}")


class Measured(NamedTuple):
    """What a run has found: figures, and what was wrong."""

    lines: list[str]
    findings: list[str]


def measure(directory: Path, trust: Trust, rounds: int, max_rss_bytes: int = MAX_RSS_BYTES) -> Measured:
    """Take all steps with a broker in `directory`: 10 MB of a backlog for each round, and less for the other steps."""
    flags = [*FREE_PORTS, *trust.flags, "-sync", "never", "-max-topic-bytes", "0"]  # the disk's speed is not asked for
    broker = BrokerProcess(flags, cwd=directory)
    try:
        footprint = Footprint(broker.wait_until_ready(), max_rss_bytes)
        _take_steps(footprint, directory, 10 * rounds)
        broker.stop()
    finally:
        broker.end()
    return Measured(footprint.lines, footprint.findings)


def _take_steps(footprint: Footprint, directory: Path, pages: int) -> None:
    """Take all steps; the tools work on a fifth, as they write two more copies."""
    few = pages // 5
    with footprint.step(f"{few} MB are published"):
        footprint.publish("backlog", few)
    footprint.wait("publishing")
    _run_tools(footprint, directory)
    with footprint.step(f"{pages - few} MB are published"):
        footprint.publish("backlog", pages - few)
    footprint.wait("publishing")
    with footprint.step(f"{pages} MB are drained"):
        drained = footprint.drain("backlog")
    if drained != pages * PAGE:
        footprint.findings.append(f"{drained} messages were drained of {pages * PAGE}")
    footprint.wait("draining")
    with footprint.step(f"{pages // 10 * PAGE} delayed messages"):
        footprint.delay("later", pages // 10)
    with footprint.step(f"{pages // 10 * PAGE} delayed messages in any order"):
        footprint.delay_at_random([f"later-{number}" for number in range(8)], pages // 10)
    with footprint.step(f"{pages // 10 * PAGE} messages returned with a delay"):
        footprint.return_later("returned", pages // 10)
    footprint.publish("leased", pages // 100)
    with footprint.step(f"{pages // 100 * PAGE} leases"):
        footprint.lease("leased", pages // 100)


def _run_tools(footprint: Footprint, directory: Path) -> None:
    port = ("-monitor-port", str(footprint.broker.monitor_port))
    footprint.tool("backup", *port, "copy", cwd=directory)
    footprint.tool("check", "-db", "copy", cwd=directory)
    shutil.rmtree(directory / "copy")
    footprint.tool("export", *port, "-o", "lines", cwd=directory)
    footprint.tool("import", "-db", "imported", "lines", cwd=directory)
    shutil.rmtree(directory / "imported")
    (directory / "lines").unlink()
