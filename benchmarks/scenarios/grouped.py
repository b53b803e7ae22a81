"""Topics that do more than hand out the next message: one whose keys are in order, and one that groups read.

Messages have 10 bytes. The key of each is one of many, at random; what is published and consumed is the same with and
without order. Of groups all messages are consumed by each, at the same time.
"""

from collections.abc import Sequence

from benchmarks import loads, queues
from benchmarks.bench import RATE, Bench
from benchmarks.clients.consumers import GROUP, GROUPS
from benchmarks.queues import MINIQUEUE, REDIS, Queue
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.servers import TOPIC, Server

KEYS = 100_000
KEYED = 200_000
READ = 200_000
BATCH = 20
CONNECTIONS = 48  # the same number in each group
PUBLISH, MEMORY = "published/s", "memory MB"
ORDERED, UNORDERED = f"miniqueue, {KEYS:,} keys, ordered", f"miniqueue, {KEYS:,} keys"
SHARED, ALONE = f"miniqueue, {len(GROUPS)} groups", "miniqueue, one group"
REDIS_SHARED, REDIS_ALONE = f"{REDIS.name}, {len(GROUPS)} groups", f"{REDIS.name}, one group"


def _keyed(name: str, *settings: str) -> Contender:
    """Publish with keys, then consume; redis-benchmark puts a number in place of the last word, the key."""

    def load(bench: Bench, server: Server) -> Figures:
        queues.command(server, "TOPIC", "CREATE", TOPIC, *settings)
        total = bench.count(KEYED)
        published = loads.resp(
            bench,
            server,
            ["PUB", TOPIC, "x" * 10, "KEY"],
            payload=b"__rand_int__",
            count=total + CONNECTIONS * BATCH,
            pipeline=32,
            connections=CONNECTIONS,
            spread=bench.count(KEYS),
        )
        consumed = loads.consume(bench, server, "receive", count=total, batch=BATCH, connections=CONNECTIONS)
        return {PUBLISH: published, **consumed, MEMORY: server.memory_mb()}

    return fresh(MINIQUEUE, load, name)


def _read(queue: Queue, name: str, consumer: str, groups: Sequence[bytes]) -> Contender:
    """Publish, then consume in groups, all at the same time."""

    def load(bench: Bench, server: Server) -> Figures:
        for group in groups:
            _make_group(queue, server, group.decode())
        total = bench.count(READ)
        queue.fill(bench, server, total + CONNECTIONS * BATCH)
        count = total * max(1, len(groups))
        consumed = loads.consume(bench, server, consumer, count=count, batch=BATCH, connections=CONNECTIONS)
        return {**consumed, MEMORY: server.memory_mb()}

    return fresh(queue, load, name)


def _make_group(queue: Queue, server: Server, group: str) -> None:
    if queue is REDIS:
        queues.command(server, "XGROUP", "CREATE", TOPIC, group, "0", "MKSTREAM")
    else:
        queues.command(server, "GROUP", "CREATE", TOPIC, group)


SCENARIOS = (
    Scenario(
        "Keys and groups",
        f"publish and consume {BATCH} at a time, {KEYS:,} keys, {CONNECTIONS} connections",
        (_keyed(ORDERED, "ordered", "true"), _keyed(UNORDERED)),
        (
            Goal(PUBLISH, ORDERED, "at least", 0.9, UNORDERED),
            Goal(RATE, ORDERED, "at least", 0.5, UNORDERED),
            Goal(MEMORY, ORDERED, "at most", 150, UNORDERED, by="difference"),
        ),
        note="Redis, JetStream and beanstalkd take no part: they have no order by key among competing consumers.",
    ),
    Scenario(
        "Keys and groups",
        f"consume and settle in groups, {BATCH} at a time, {CONNECTIONS} connections",
        (
            _read(MINIQUEUE, SHARED, "prefetch-groups", GROUPS),
            _read(MINIQUEUE, ALONE, "prefetch", ()),
            _read(REDIS, REDIS_SHARED, "redis-groups", GROUPS),
            _read(REDIS, REDIS_ALONE, "redis", (GROUP,)),
        ),
        (Goal(RATE, SHARED, "at least", 0.9, ALONE),),
        note="JetStream takes no part: the client for it knows one consumer. beanstalkd has no groups.",
    ),
)
