"""HTTP/2: a request for each message, many messages on one request, and a stream that goes both ways."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import loads, servers
from benchmarks.bench import RATE, Bench
from benchmarks.queues import MINIQUEUE, Queue, count_name, miniqueue
from benchmarks.scenario import Contender, Figures, Goal, Measure, Scenario, fresh, started
from benchmarks.servers import TOPIC, Server

NOOP = "no-op app on Hypercorn"
#: Each with the flags that make it.
SYNCED = (
    ("no-op app that syncs, on Hypercorn", ("--sync",)),
    ("no-op app that syncs, on Granian", ("--sync", "--granian")),
)
HYPERCORN = "miniqueue on Hypercorn"
GRANIAN = miniqueue("miniqueue on Granian", "-http-server", "granian")
#: Connections, and streams on each.
LOADS = ((12, 1), (1, 12), (4, 32))
PUBLISH_NOTE = (
    "An app that syncs does nothing, either, but write a few bytes and sync them before it answers, once for all who "
    "wait, as miniqueue does: what is left to whoever answers for what is on the disk."
)
NOTE = "Redis, JetStream and beanstalkd take no part: they do not speak HTTP/2."


def _publishing(queue: Queue, name: str, connections: int, streams: int) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        return {RATE: _rate(bench, server, f"/publish/{TOPIC}", connections, streams)}

    return fresh(queue, load, name)


def _noop(name: str, connections: int, streams: int, *flags: str) -> Contender:
    """Return a contender that does nothing with its requests, with the certificates of a miniqueue."""

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        def measure() -> Figures:
            with servers.noop(certificates.ca.parent, *flags) as server:
                bench.note_server(server.command, str(server.port), str(certificates.ca.parent))
                return {RATE: _rate(bench, server, "/", connections, streams)}

        with started(bench, MINIQUEUE) as certificates:
            yield measure

    return Contender(name, prepare)


def _rate(bench: Bench, server: Server, path: str, connections: int, streams: int) -> float:
    amounts = {"connections": connections, "streams": streams}
    return bench.rate(lambda count: loads.http_publish(bench, server, path, count=count, **amounts), 500)


def _json_lines(bench: Bench, server: Server) -> Figures:
    loads.json_lines(bench, server, count=bench.count(50_000))
    return {RATE: loads.json_lines(bench, server, count=bench.count(450_000))}


def _duplex(prefetch: int, count: int) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        total = bench.count(count)
        MINIQUEUE.fill(bench, server, total + prefetch)
        return loads.duplex(bench, server, count=total, prefetch=prefetch)

    name = f"miniqueue, prefetch {prefetch}" if prefetch else "miniqueue, one at a time"
    return fresh(MINIQUEUE, load, name)


SCENARIOS = (
    *(
        Scenario(
            "HTTP/2",
            f"publish 10 B, a request each, {count_name(connections, 'connection')} × {count_name(streams, 'stream')}",
            (
                _publishing(MINIQUEUE, HYPERCORN, connections, streams),
                _publishing(GRANIAN, GRANIAN.name, connections, streams),
                _noop(NOOP, connections, streams),
                *(_noop(name, connections, streams, *flags) for name, flags in SYNCED),
            ),
            (Goal(RATE, HYPERCORN, "at least", 0.9, NOOP), Goal(RATE, GRANIAN.name, "at least", 3, HYPERCORN)),
            is_quick=streams == 32,
            note=f"{PUBLISH_NOTE} {NOTE}",
        )
        for connections, streams in LOADS
    ),
    Scenario(
        "HTTP/2",
        "publish 10 B, JSON lines, one stream",
        (fresh(MINIQUEUE, _json_lines, HYPERCORN), fresh(GRANIAN, _json_lines)),
        (Goal(RATE, HYPERCORN, "at least", 300_000),),
        note=NOTE,
    ),
    Scenario(
        "HTTP/2",
        "duplex consume and settle, one stream",
        (_duplex(1000, 100_000), _duplex(0, 5_000)),
        (Goal(RATE, "miniqueue, prefetch 1000", "at least", 50_000),),
        note=NOTE,
    ),
)
