"""Jobs of Spark that move rows in and out: the same ones, with miniqueue, with nothing, and with Redis in its place.

Rows are messages of 100 bytes, from Parquet. Each has a warm session of its own, so that its workers share no
memory, on the cores that the servers have too. Without pyspark or Java there are no figures.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench, MeasurementError
from benchmarks.queues import MINIQUEUE, REDIS, Queue
from benchmarks.rides.sampling import spark_memory_mb
from benchmarks.scenario import Contender, Figures, Goal, Measure, Scenario, started
from miniqueue.tools.spark import needs

ROWS = 1_000_000
RATE, MEMORY = "rows/s", "server memory MB"
#: Of the processes of Spark, by the names that they have for the rides.
SPARK_MEMORY = {
    "driver_python": "memory MB, driver's program",
    "driver_jvm": "memory MB, JVM",
    "python_worker": "memory MB, Python worker",
}
#: Those that are to stay as they are; a JVM takes its heap before it collects, whatever it runs.
FLAT = (SPARK_MEMORY["driver_python"], SPARK_MEMORY["python_worker"])
NO_SINK = "no sink"
OURS, THEIRS = MINIQUEUE.name, REDIS.name
NOTE = (
    "Redis takes part with a sink and a source of ours on redis-py. JetStream and beanstalkd do not: none are "
    "written for them here."
)


class Session:
    """A process with a session of Spark.

    Args:
      process: takes jobs on its standard input, and answers on its standard output.
      folder: where it has its files.
    """

    def __init__(self, process: "subprocess.Popen[str]", folder: str) -> None:
        self._process = process
        self._folder = folder
        self._line()

    def rate(self, bench: Bench, **asked: str | int) -> float:
        """Run a job; return its rows per second."""
        assert self._process.stdin is not None
        line, port = json.dumps(asked), asked["port"]
        bench.note(_command(self._folder), self._folder, *([f'"port": {port}'] if port else []), stdin=line)
        with suppress(BrokenPipeError):  # then there is no answer, either
            print(line, file=self._process.stdin, flush=True)
        answer = json.loads(self._line())
        if "error" in answer:
            raise MeasurementError(answer["error"])
        return float(answer["rate"])

    def memory_mb(self) -> dict[str, float]:
        """Return the memory of the driver's program, of its JVM, and of the largest Python worker."""
        memory = spark_memory_mb(self._process.pid)
        return {figure: memory[name] for name, figure in SPARK_MEMORY.items() if name in memory}

    def _line(self) -> str:
        assert self._process.stdout is not None
        line: str = self._process.stdout.readline()
        if not line:
            raise MeasurementError("Spark did not start, or broke off")
        return line


@contextmanager
def started_session(bench: Bench) -> Iterator[Session]:
    """Run a session of Spark; raises MeasurementError where it lacks something."""
    if problems := needs.missing(os.environ):
        raise MeasurementError("; ".join(problems))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with TemporaryDirectory(dir=bench.folder, ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(_command(folder), text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]  # pipes
        try:
            yield Session(process, folder)
        finally:
            process.communicate()  # which closes its standard input


def _command(folder: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.clients.spark", f"--folder={folder}"]


def _contender(queue: Queue | None, job: str, key: str) -> Contender:
    peer = "none" if queue is None else "redis" if queue is REDIS else "miniqueue"

    def measure(session: Session, bench: Bench, rows: int) -> Figures:
        if queue is None:
            rate = session.rate(bench, job=job, peer=peer, port=0, rows=rows, key=key)
            return {RATE: rate, **session.memory_mb()}
        with started(bench, queue) as server:
            rate = session.rate(bench, job=job, peer=peer, port=server.ports["resp"], rows=rows, key=key)
            return {RATE: rate, MEMORY: server.memory_mb(), **session.memory_mb()}

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        with started_session(bench) as session:
            first = measure(session, bench, bench.count(ROWS // 10))
            measure(session, bench, bench.count(ROWS))  # what a JVM runs for the first time is slow, and the second
            yield lambda: _with_growth(measure(session, bench, bench.count(ROWS)), first)

    return Contender(queue.name if queue else NO_SINK, prepare, queue.program if queue else "")


def _with_growth(figures: Figures, first: Figures) -> Figures:
    """Add what has become of memory since the end of the first job, which had a tenth of the rows."""
    grown = {_grown(name): figures[name] / first[name] for name in FLAT if name in figures and name in first}
    return {**figures, **grown}


def _grown(name: str) -> str:
    return f"{name}, ÷ after a tenth of the rows"


def _scenario(job: str, title: str, queues: tuple[Queue | None, ...], *goals: Goal, key: str = "") -> Scenario:
    contenders = tuple(_contender(queue, job, key) for queue in queues)
    name = f"{title} {ROWS:,} rows of 100 B"
    # Not in a quick run: a session takes ten seconds to start, and there is one for each contender.
    return Scenario("Spark", name, contenders, (*goals, *_FLAT), is_quick=False, note=NOTE)


_FLAT = tuple(Goal(_grown(name), OURS, "at most", 1.1) for name in FLAT)
_SINK = Goal(RATE, OURS, "at least", 1.5, THEIRS), Goal(RATE, OURS, "at least", 0.5, NO_SINK)
_AS_FAST = Goal(RATE, OURS, "at least", 1, THEIRS)

SCENARIOS = (
    _scenario("load", "miniqueue pipeline load:", (MINIQUEUE, None, REDIS), *_SINK),
    _scenario("load", "miniqueue pipeline load -key:", (MINIQUEUE, None, REDIS), _SINK[0], key="key"),
    _scenario("map", "redis-py in mapPartitions:", (MINIQUEUE, None, REDIS), *_SINK),
    _scenario("read", "a batch read of", (MINIQUEUE, REDIS), _AS_FAST),
    _scenario("archive", "miniqueue pipeline archive:", (MINIQUEUE, REDIS), _AS_FAST),
)
