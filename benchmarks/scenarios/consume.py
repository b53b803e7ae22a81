"""Consuming what is there, over RESP and the native protocols of the peers: in batches, one by one, and over and over.

Messages have 10 bytes and are published just before.
"""

from benchmarks import loads, queues
from benchmarks.bench import Bench
from benchmarks.queues import BEANSTALKD, BEANSTALKD_MEMORY, JETSTREAM, MINIQUEUE, REDIS, REDIS_EVERYSEC, Queue
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.servers import TOPIC, Server

RATE = "messages/s"
CPU = "server CPU µs/message"
CONNECTIONS = 50
BATCH = 100


def make_group(queue: Queue, server: Server) -> None:
    """Make the group of consumers that a Redis stream needs."""
    if queue.dialect == "redis":
        queues.command(server, "XGROUP", "CREATE", TOPIC, "group", "0", "MKSTREAM")


def consuming(
    queue: Queue, consumer: str, *, count: int, batch: int = 1, word: str = "ACK", name: str = ""
) -> Contender:
    """Return a contender that is filled and then emptied in each round."""

    def load(bench: Bench, server: Server) -> Figures:
        total = bench.count(count, least=CONNECTIONS * batch * 4)
        make_group(queue, server)
        queue.fill(bench, server, total + CONNECTIONS * batch)
        return loads.consume(bench, server, consumer, count=total, batch=batch, word=word, connections=CONNECTIONS)

    return fresh(queue, load, name)


SCENARIOS = (
    Scenario(
        "Consume",
        f"consume and settle, {BATCH} at a time, {CONNECTIONS} connections",
        (
            consuming(MINIQUEUE, "prefetch", count=400_000, batch=BATCH),
            consuming(MINIQUEUE, "receive", count=400_000, batch=BATCH, name="miniqueue, RECEIVE"),
            consuming(REDIS, "redis", count=400_000, batch=BATCH),
            consuming(REDIS_EVERYSEC, "redis", count=400_000, batch=BATCH),
            consuming(JETSTREAM, "nats", count=100_000, batch=BATCH),
        ),
        (
            Goal(RATE, MINIQUEUE.name, "at least", 3, REDIS.name),
            Goal(CPU, MINIQUEUE.name, "at most", 1 / 3, REDIS.name),
        ),
        note="beanstalkd takes no part: it hands out one message at a time.",
    ),
    Scenario(
        "Consume",
        f"consume and settle, one at a time, {CONNECTIONS} connections",
        (
            consuming(MINIQUEUE, "subscribe", count=60_000),
            consuming(REDIS, "redis", count=60_000),
            consuming(REDIS_EVERYSEC, "redis", count=60_000),
            consuming(JETSTREAM, "nats", count=20_000),
            consuming(BEANSTALKD, "beanstalk", count=10_000),
            consuming(BEANSTALKD_MEMORY, "beanstalk", count=60_000),
        ),
        (
            Goal(RATE, MINIQUEUE.name, "at least", 40_000),
            Goal(RATE, MINIQUEUE.name, "at least", 1, REDIS.name),
        ),
    ),
    Scenario(
        "Consume",
        f"return to the front and redelivery (NACK; NAK; release), {CONNECTIONS} connections",
        (
            consuming(MINIQUEUE, "subscribe", count=60_000, word="NACK"),
            consuming(JETSTREAM, "nats", count=20_000, word="NACK"),
            consuming(BEANSTALKD, "beanstalk", count=10_000, word="release"),
            consuming(BEANSTALKD_MEMORY, "beanstalk", count=60_000, word="release"),
        ),
        (Goal(RATE, MINIQUEUE.name, "at least", 50_000),),
        note="Redis takes no part: a consumer of a stream cannot return a message. It stays with the consumer, until "
        "another one claims it (XCLAIM, XAUTOCLAIM).",
    ),
)
