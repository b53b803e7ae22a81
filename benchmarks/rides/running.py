"""Runs it: a broker, three workers that are killed and stopped, the jobs; in the end everything is compared.

load ──▶ topic ──▶ three workers           the workers begin with the load, and end when nothing is left
            └────▶ archive, then stats     then: the topic retains what is done
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.rides import checking, processes
from benchmarks.rides.crew import STOP_SECONDS, Crew
from benchmarks.rides.drawing import Event
from benchmarks.rides.failing import MAX_DELIVERIES
from benchmarks.rides.making import make_rides
from benchmarks.rides.sampling import Sample, Sampler
from benchmarks.servers import free_port
from miniqueue_client import Client

TOPIC: Final = "rides"
WORKERS: Final = 3
_POLL_SECONDS: Final = 0.5
_ATTEMPTS: Final = 3


class Run:
    """A run in an empty directory.

    Attributes:
      samples: what was measured each second.
      events: what happened, and when.
      summary: what the jobs said of themselves, and what was compared.
    """

    def __init__(self, directory: Path, count: int, seed: int) -> None:
        self._directory, self._count, self._seed = directory, count, seed
        self._rides, self._archive = directory / "rides", directory / "archive"
        self._stats = directory / "stats"
        self._notes = [directory / f"worker-{number}.notes" for number in range(1, WORKERS + 1)]
        self._port = free_port()
        self._url = f"redis://127.0.0.1:{self._port}"
        self.samples: Sequence[Sample] = []
        self.events: list[Event] = []
        self.summary: list[str] = []

    def run(self) -> None:
        """Do all of it; raises SystemExit when a job fails, or what must be equal is not."""
        self._timed("make", lambda: make_rides(self._rides, self._count, self._seed))
        with ExitStack() as started, Client(self._url, retries=-1) as client:
            ports = ("-port", "0", "-monitor-port", "0", "-resp-port", str(self._port))
            broker = processes.start(self._directory, "broker", "-m", "miniqueue", *ports)
            started.callback(processes.end, broker)
            client.create_topic(TOPIC, retention="forever", max_deliveries=MAX_DELIVERIES, dedup_window_seconds=3600)
            sampler = started.enter_context(Sampler(self._url, TOPIC, broker.pid))
            self.samples = sampler.samples
            self._work(client, sampler)
            self._job(sampler, "archive", str(self._archive))
            self._job(sampler, "stats", str(self._stats))
            self._tell(sampler, "start of check")
            self._timed("check", lambda: self._check(client))

    def _work(self, client: Client, sampler: Sampler) -> None:
        """Load while the workers work, until they have done everything."""
        with Crew(
            self._directory, self._worker, self._notes, self._seed, lambda text: self._tell(sampler, text)
        ) as crew:
            sampler.members = crew.members
            self._job(
                sampler, "load", "-format", "parquet", "-key", "PULocationID", "-run-id", "rides", str(self._rides)
            )
            self._tell(sampler, "start of drain")
            self._timed("drain", lambda: _wait_until_empty(client))
        stopped = f"{crew.stops} were stopped for {STOP_SECONDS:.0f} s"
        self.summary.append(f"workers: {WORKERS}; {crew.kills} were killed, {stopped}")

    def _worker(self, notes: Path) -> list[str]:
        return ["-m", "benchmarks.rides.working", self._url, TOPIC, str(notes), str(self._count)]

    def _job(self, sampler: Sampler, name: str, *words: str) -> None:
        """Run a job; if it fails, run it again, as users do, and it continues where it was."""
        began_at, attempts, code, said = time.monotonic(), 0, 1, ""
        while code and attempts < _ATTEMPTS:
            attempts += 1
            self._tell(sampler, f"start of {name}")
            code, said = self._attempt(sampler, name, words)
        if code:
            raise SystemExit(f"{name} broke off {attempts} times: {said[-4000:]}")
        times = "" if attempts == 1 else f", at attempt {attempts}"
        self.summary.append(f"{name}: {said.splitlines()[-1]} in {time.monotonic() - began_at:.0f} s{times}")

    def _attempt(self, sampler: Sampler, name: str, words: Sequence[str]) -> tuple[int, str]:
        command = ("-m", "miniqueue", "pipeline", name, "-topic", TOPIC, "-url", self._url, *words)
        process = processes.start(self._directory, name, *command)
        sampler.job_pid = process.pid
        try:
            code = process.wait()
        finally:
            sampler.job_pid = 0
            processes.end(process)
        return code, processes.log_of(self._directory, name).read_text()

    def _check(self, client: Client) -> None:
        self.summary += checking.check(client, TOPIC, self._rides, self._archive, self._notes)
        self.summary += checking.check_stats(self._stats, self._count)

    def _timed(self, name: str, act: Callable[[], object]) -> None:
        began_at = time.monotonic()
        act()
        self.summary.append(f"{name}: {time.monotonic() - began_at:.0f} s")

    def _tell(self, sampler: Sampler, text: str) -> None:
        self.events.append(Event(round(sampler.seconds, 1), text))
        print(f"{sampler.seconds:7.1f} s  {text}", flush=True)


def _wait_until_empty(client: Client) -> None:
    while client.stats(TOPIC)["depth"]:
        time.sleep(_POLL_SECONDS)
