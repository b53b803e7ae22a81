"""What delayed messages cost that are not due yet: the server's time while nothing happens, memory, publish rate.

miniqueue delays a message that a consumer returns with DACK; the store is made once. In each round the server is
started on it twice: with 100 times as many ticks as usual, to weigh a tick, and as it is, to publish. beanstalkd, which
delays on publishing, keeps them in memory and is left running.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import loads
from benchmarks.bench import Bench
from benchmarks.queues import BEANSTALKD_MEMORY, MINIQUEUE, Queue, Shape, miniqueue
from benchmarks.scenario import Contender, Figures, Goal, Measure, Scenario, started
from benchmarks.servers import Server

DELAYED = 1_000_000
PAYLOAD_BYTES = 100
TICKS_PER_SECOND = 100
TICKING = miniqueue("miniqueue", "-period", f"{1000 // TICKS_PER_SECOND}ms")
FULL, EMPTY = f"miniqueue, {DELAYED:,} delayed", "miniqueue, none delayed"
TICK, MEMORY, PUBLISH = "CPU of a tick, idle time included, ms", "memory MB", "published/s"


def _delayed(name: str, count: int) -> Contender:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        with TemporaryDirectory(dir=bench.folder, ignore_cleanup_errors=True) as folder:
            if count:
                _delay(bench, Path(folder), bench.count(count))
            yield lambda: _work(bench, Path(folder))

    return Contender(name, prepare)


def _delay(bench: Bench, folder: Path, count: int) -> None:
    with started(bench, MINIQUEUE, folder) as server:
        MINIQUEUE.publish(bench, server, Shape(PAYLOAD_BYTES, 256), count)
        loads.consume(bench, server, "subscribe", count=count - 50, connections=50, word="DACK 864000")


def _work(bench: Bench, folder: Path) -> Figures:
    with started(bench, TICKING, folder) as server:
        seconds = max(1.0, 10 * min(1.0, bench.seconds))
        time.sleep(1)  # the start is over
        before = server.cpu_seconds()
        time.sleep(seconds)
        tick_ms = (server.cpu_seconds() - before) * 1000 / (seconds * TICKS_PER_SECOND)
    with started(bench, MINIQUEUE, folder) as server:
        return {TICK: tick_ms, **_published(bench, MINIQUEUE, server)}


def _put_delayed(name: str, count: int) -> Contender:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        with started(bench, BEANSTALKD_MEMORY) as server:
            if count:
                amounts = {"count": bench.count(count), "pipeline": 256, "connections": 50}
                loads.publish(bench, server, "beanstalk-delayed", payload=b"x" * PAYLOAD_BYTES, **amounts)
            yield lambda: _published(bench, BEANSTALKD_MEMORY, server)

    return Contender(name, prepare, BEANSTALKD_MEMORY.program)


def _published(bench: Bench, queue: Queue, server: Server) -> Figures:
    memory = server.memory_mb()
    return {MEMORY: memory, PUBLISH: queue.publish_rate(bench, server, Shape(PAYLOAD_BYTES, 32))}


SCENARIOS = (
    Scenario(
        "Many",
        "delayed messages of 100 B, none of them due",
        (
            _delayed(FULL, DELAYED),
            _delayed(EMPTY, 0),
            _put_delayed(f"{BEANSTALKD_MEMORY.name}, {DELAYED:,} delayed", DELAYED),
            _put_delayed(f"{BEANSTALKD_MEMORY.name}, none delayed", 0),
        ),
        (
            Goal(TICK, FULL, "at most", 2),
            Goal(MEMORY, FULL, "at most", 30, EMPTY, by="difference"),
            Goal(PUBLISH, FULL, "at least", 0.9, EMPTY),
        ),
        note="Redis takes no part: its streams do not delay. Nor does JetStream: what it delays (a NAK with a delay) "
        "counts as unacknowledged, of which its consumer here may have 100,000.",
    ),
)
