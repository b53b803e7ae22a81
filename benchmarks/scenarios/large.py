"""A large topic that three groups read, each from its own position; and a replay of stored messages without a group.

    |▶ group0, all before it           ▶ group1, half of it                           ▶ group2, what comes next|

The store is filled once, and the server is started on it in each round. The same groups on an empty store are what it
is compared with. A group that is sought is one more, so that the others go on from where they are. Messages have 100
bytes.
"""

import time
from functools import partial

from benchmarks import loads, queues
from benchmarks.bench import RATE, Bench
from benchmarks.clients.consumers import GROUPS
from benchmarks.queues import MINIQUEUE, REDIS, Queue, Shape
from benchmarks.scenario import Contender, Figures, Goal, Load, Scenario, fresh, stored
from benchmarks.servers import TOPIC, Server

STORED = 10_000_000
CONSUMED = 600_000
WARMED = 100_000  # consumed before, in each round
REPLAYED = 1_000_000
PAYLOAD_BYTES = 100
BATCH, CONNECTIONS = 20, 48
PAGE = 1000
FIRST, MIDDLE, LAST = (group.decode() for group in GROUPS)
SOUGHT = "sought"
START, MEMORY, AFTER = "start-up s", "memory MB", "memory MB, after the load"
#: From where each group reads, in names of figures.
READS_FROM = {FIRST: "from the start", MIDDLE: "from the middle", LAST: "from the end"}
POSITIONS = ("earliest", "middle", "latest")
FULL, EMPTY = f"miniqueue, {STORED:,} stored", "miniqueue, empty"
REPLAY, CONSUME = f"READ, {PAGE:,} at a time", f"miniqueue, PREFETCH {PAGE:,}, acknowledged"
REDIS_REPLAY = f"{REDIS.name}, XRANGE, {PAGE:,} at a time"


def seek_figure(position: str, *, is_dry: bool) -> str:
    """Return the name of the time that a seek takes."""
    return f"SEEK {position}{', dry run' if is_dry else ''}, ms"


def _large(name: str, size: int) -> Contender:
    def fill(bench: Bench, server: Server) -> Load:
        return partial(_work, _fill(bench, server, bench.count(size) if size else 0))

    return stored(MINIQUEUE, fill, name)


def _fill(bench: Bench, server: Server, count: int) -> int:
    """Publish half, and the other half; return the time in between, in ms since 1970."""
    queues.command(server, "GROUP", "CREATE", TOPIC, FIRST)
    _publish(bench, server, count // 2)
    middle_ms = round(time.time() * 1000)
    _publish(bench, server, count // 2)
    for group, position in ((MIDDLE, str(middle_ms)), (LAST, "latest"), (SOUGHT, "latest")):
        queues.command(server, "GROUP", "CREATE", TOPIC, group, "FROM", position)
    return middle_ms


def _publish(bench: Bench, server: Server, count: int) -> None:
    if count:
        MINIQUEUE.publish(bench, server, Shape(PAYLOAD_BYTES, 256), count)


def _work(middle_ms: int, bench: Bench, server: Server) -> Figures:
    figures = {START: server.start_seconds, MEMORY: server.memory_mb()}
    for position in POSITIONS:
        words = ("GROUP", "SEEK", TOPIC, SOUGHT, str(middle_ms) if position == "middle" else position)
        figures[seek_figure(position, is_dry=True)] = _took_ms(server, *words, "DRYRUN")
        figures[seek_figure(position, is_dry=False)] = _took_ms(server, *words)
    queues.command(server, "GROUP", "SEEK", TOPIC, LAST, "latest")
    counts = bench.count(WARMED), bench.count(CONSUMED)
    _publish(bench, server, sum(counts) + CONNECTIONS * BATCH)
    for group, position in READS_FROM.items():
        for count in counts:
            amounts = {"count": count, "batch": BATCH, "connections": CONNECTIONS}
            consumed = loads.consume(bench, server, f"prefetch-{group}", **amounts)
        figures |= {f"{position}, {name}": value for name, value in consumed.items()}
    return {**figures, AFTER: server.memory_mb()}


def _took_ms(server: Server, *words: str) -> float:
    began_at = time.perf_counter()
    queues.command(server, *words)
    return (time.perf_counter() - began_at) * 1000


def _read(queue: Queue, name: str, consumer: str) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        total = bench.count(REPLAYED)
        queue.fill(bench, server, total + PAGE, PAYLOAD_BYTES)
        return loads.consume(bench, server, consumer, count=total, batch=PAGE, connections=1)

    return fresh(queue, load, name)


SCENARIOS = (
    Scenario(
        "Large topics",
        f"three groups at different places of a topic, {BATCH} at a time, {CONNECTIONS} connections",
        (_large(FULL, STORED), _large(EMPTY, 0)),
        (
            *(Goal(f"{position}, {RATE}", FULL, "at least", 0.9, EMPTY) for position in READS_FROM.values()),
            *(
                Goal(seek_figure(position, is_dry=dry), FULL, "at most", 100)
                for position in POSITIONS
                for dry in (True, False)
            ),
            Goal(START, FULL, "at most", 1),
            Goal(AFTER, FULL, "at most", 300),
        ),
        note="Redis, JetStream and beanstalkd take no part: it is miniqueue itself, on an empty store, that shows what "
        "the size of a topic costs.",
    ),
    Scenario(
        "Large topics",
        f"replay of {REPLAYED:,} messages of {PAYLOAD_BYTES} B, one connection",
        (
            _read(MINIQUEUE, REPLAY, "read"),
            _read(MINIQUEUE, CONSUME, "prefetch"),
            _read(REDIS, REDIS_REPLAY, "redis-range"),
        ),
        (Goal(RATE, REPLAY, "at least", 1, CONSUME),),
        note="JetStream and beanstalkd take no part: they hand messages to consumers, and have no pages of a log.",
    ),
)
