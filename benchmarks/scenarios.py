"""What is measured: each scenario gives one figure for miniqueue, and for a peer where there is one."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import loads, servers

XADD = ["XADD", "bench", "*", "field", loads.PAYLOAD]


@dataclass(frozen=True)
class Scenario:
    """One line of the report.

    `run` returns one figure for each contender, miniqueue's first; `goal` is the least wanted: of the ratio to the
    peer, or of the figure itself where there is no peer. A goal of a figure that should be small is negative.
    """

    name: str
    unit: str
    run: Callable[[float], dict[str, float]]
    goal: float
    is_ratio: bool = True


@contextmanager
def miniqueue(*options: str) -> Iterator[servers.Server]:
    """Run miniqueue on an empty store."""
    with TemporaryDirectory() as folder, servers.miniqueue(Path(folder), *options) as server:
        yield server


@contextmanager
def redis(appendfsync: str | None = "always") -> Iterator[servers.Server]:
    """Run Redis with an empty store."""
    with TemporaryDirectory() as folder, servers.redis(Path(folder), appendfsync=appendfsync) as server:
        yield server


def _publish(pipeline: int, count: int, scale: float) -> dict[str, float]:
    total = int(count * scale)
    with miniqueue() as ours, redis() as theirs:
        return {
            "miniqueue": loads.resp_benchmark(
                ours.ports["resp"], ["PUBLISH", "bench", loads.PAYLOAD], count=total, pipeline=pipeline
            ),
            "redis XADD, AOF always": loads.resp_benchmark(theirs.ports["resp"], XADD, count=total, pipeline=pipeline),
        }


def _stream(word: str, count: int, scale: float) -> dict[str, float]:
    total = int(count * scale)
    with miniqueue() as server:
        _fill(server, total + 50)
        return {"miniqueue": loads.stream(server.ports["resp"], "bench", word, count=total)}


def _http_publish(scale: float) -> dict[str, float]:
    total = int(20_000 * scale)
    with ExitStack() as stack:
        ours = stack.enter_context(miniqueue())
        theirs = stack.enter_context(servers.noop(ours.files["ca"].parent))
        return {
            "miniqueue": loads.http_publish(ours.ports["https"], "/publish/bench", count=total),
            "no-op app": loads.http_publish(theirs.ports["https"], "/", count=total),
        }


def _json_lines(scale: float) -> dict[str, float]:
    with miniqueue() as server:
        rate = loads.json_lines(server.ports["https"], server.files["ca"], "bench", count=int(1_000_000 * scale))
        return {"miniqueue": rate}


@dataclass(frozen=True)
class Backlog:
    """What a store full of messages costs: measured once, reported in several lines."""

    start_seconds: float
    memory_mib: float
    publish_ratio: float
    consume_ratio: float


def backlog(scale: float) -> Backlog:
    """Compare an empty store with one of 2 million messages that nobody has read, after a restart."""
    with TemporaryDirectory() as empty_folder, TemporaryDirectory() as full_folder:
        with servers.miniqueue(Path(full_folder)) as server:
            _fill(server, int(2_000_000 * scale))
        with servers.miniqueue(Path(empty_folder)) as empty, servers.miniqueue(Path(full_folder)) as full:
            rates = {name: _rates(server, scale) for name, server in (("empty", empty), ("full", full))}
            return Backlog(
                start_seconds=full.start_seconds,
                memory_mib=full.memory_bytes() / 2**20,
                publish_ratio=rates["full"][0] / rates["empty"][0],
                consume_ratio=rates["full"][1] / rates["empty"][1],
            )


def _rates(server: servers.Server, scale: float) -> tuple[float, float]:
    total = int(200_000 * scale)
    publish = loads.resp_benchmark(server.ports["resp"], ["PUBLISH", "bench", loads.PAYLOAD], count=total, pipeline=32)
    time.sleep(1)  # let what the load left behind settle; both stores get the same pause
    return publish, loads.stream(server.ports["resp"], "bench", "ACK", count=total // 2)


def _fill(server: servers.Server, count: int) -> None:
    words = ["PUBLISH", "bench", loads.PAYLOAD]
    loads.resp_benchmark(server.ports["resp"], words, count=count, pipeline=256)


SCENARIOS = (
    Scenario("RESP publish, pipeline 1", "/s", lambda scale: _publish(1, 60_000, scale), 0.6),
    Scenario("RESP publish, pipeline 32", "/s", lambda scale: _publish(32, 600_000, scale), 1.0),
    Scenario("RESP publish, pipeline 256", "/s", lambda scale: _publish(256, 1_500_000, scale), 1.0),
    Scenario("SUBSCRIBE and ACK, lock-step", "/s", lambda scale: _stream("ACK", 150_000, scale), 25_000, False),
    Scenario("NACK and redelivery", "/s", lambda scale: _stream("NACK", 100_000, scale), 20_000, False),
    Scenario("HTTP/2 publish per request", "/s", _http_publish, 0.8),
    Scenario("NDJSON publish, one stream", "/s", _json_lines, 200_000, False),
)
