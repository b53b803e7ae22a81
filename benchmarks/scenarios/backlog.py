"""What stored messages cost: the same work on an empty store, and on one with up to 10 million unread ones.

Each store is filled once, and its server is started on it in each round. What is published there is consumed again,
so that as many are unread when the round is over.
"""

import time
from functools import partial

from benchmarks import loads
from benchmarks.bench import RATE, Bench
from benchmarks.queues import JETSTREAM, MINIQUEUE, REDIS, Queue, Shape
from benchmarks.scenario import Contender, Figures, Goal, Load, Scenario, stored
from benchmarks.scenarios.consume import make_group
from benchmarks.servers import Server

#: How many messages are stored.
SIZES = (0, 100_000, 1_000_000, 10_000_000)
QUEUES = (MINIQUEUE, REDIS, JETSTREAM)
PAYLOAD_BYTES = 100
ONE_BY_ONE = {"miniqueue": "subscribe", "redis": "redis", "nats": "nats"}
IN_BATCHES = {"miniqueue": "prefetch", "redis": "redis", "nats": "nats"}
BATCH = 20
CONNECTIONS = 50
#: What is out when a load ends, and comes back.
OUT = CONNECTIONS * (BATCH + 1)
PUBLISH, CONSUME = "published/s, pipeline 32", "consumed/s, one at a time"
START, MEMORY = "start-up s", "memory MB"


def title(queue: Queue, size: int) -> str:
    """Return the name of a contender."""
    return f"{queue.name}, {size:,} stored" if size else f"{queue.name}, empty"


def _backlog(queue: Queue, size: int) -> Contender:
    def fill(bench: Bench, server: Server) -> Load:
        make_group(queue, server)
        if size:
            queue.publish(bench, server, Shape(PAYLOAD_BYTES, 256), bench.count(size))
        return partial(_work, queue)

    return stored(queue, fill, title(queue, size))


def _work(queue: Queue, bench: Bench, server: Server) -> Figures:
    more = 0  # than there was

    def publish(count: int) -> float:
        nonlocal more
        more += count
        return queue.publish(bench, server, Shape(PAYLOAD_BYTES, 32), count)

    def consume(count: int) -> Figures:
        nonlocal more
        if more < count + 2 * OUT:  # where reading is quicker than writing
            publish(count + 2 * OUT - more)
        more -= count
        return loads.consume(bench, server, ONE_BY_ONE[queue.dialect], count=count, connections=CONNECTIONS)

    published = bench.rate(publish, 32 * CONNECTIONS)
    time.sleep(0.5)  # let what the load left behind settle; all get the same pause
    consumed = bench.steady(consume, 4 * CONNECTIONS)[RATE]
    loads.consume(bench, server, IN_BATCHES[queue.dialect], count=more - OUT, batch=BATCH, connections=CONNECTIONS)
    return {PUBLISH: published, CONSUME: consumed, START: server.start_seconds, MEMORY: server.memory_mb()}


EMPTY, FULL = title(MINIQUEUE, 0), title(MINIQUEUE, SIZES[-1])

SCENARIOS = (
    Scenario(
        "Backlog",
        f"backlog of messages of 100 B, {CONNECTIONS} connections",
        tuple(_backlog(queue, size) for queue in QUEUES for size in reversed(SIZES)),
        (
            Goal(PUBLISH, FULL, "at least", 0.9, EMPTY),
            Goal(CONSUME, FULL, "at least", 0.9, EMPTY),
            Goal(START, FULL, "at most", 1),
            Goal(MEMORY, FULL, "at most", 300),
        ),
        note="beanstalkd takes no part: in memory it loses its backlog when it is started again, and with an fsync for "
        "each message it takes half an hour to write it.",
    ),
)
