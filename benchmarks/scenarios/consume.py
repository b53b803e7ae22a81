"""Consuming what is there, over RESP and the native protocols of the peers: in batches, one by one, and repeatedly.

Messages have 10 bytes and are published just before.
"""

from benchmarks import loads, queues
from benchmarks.bench import RATE, Bench
from benchmarks.loads import CPU
from benchmarks.queues import BEANSTALKD, BEANSTALKD_MEMORY, JETSTREAM, MINIQUEUE, REDIS, REDIS_EVERYSEC, Queue
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.servers import TOPIC, Server

CONNECTIONS = 50
BATCH = 100


def make_group(queue: Queue, server: Server) -> None:
    """Make the group of consumers that a Redis stream needs."""
    if queue.dialect == "redis":
        queues.command(server, "XGROUP", "CREATE", TOPIC, "group", "0", "MKSTREAM")


def consuming(queue: Queue, consumer: str, *, batch: int = 1, word: str = "ACK", name: str = "") -> Contender:
    """Return a contender that is filled and emptied in each round, repeatedly until it is warm."""
    amounts = {"batch": batch, "connections": CONNECTIONS}

    def load(bench: Bench, server: Server) -> Figures:
        def emptied(count: int) -> Figures:
            queue.fill(bench, server, count + CONNECTIONS * batch)
            return loads.consume(bench, server, consumer, count=count, word=word, **amounts)

        make_group(queue, server)
        return bench.steady(emptied, CONNECTIONS * batch * 4)

    return fresh(queue, load, name)


SCENARIOS = (
    Scenario(
        "Consume",
        f"consume and settle, {BATCH} at a time, {CONNECTIONS} connections",
        (
            consuming(MINIQUEUE, "prefetch", batch=BATCH),
            consuming(MINIQUEUE, "receive", batch=BATCH, name="miniqueue, RECEIVE"),
            consuming(REDIS, "redis", batch=BATCH),
            consuming(REDIS_EVERYSEC, "redis", batch=BATCH),
            consuming(JETSTREAM, "nats", batch=BATCH),
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
            consuming(MINIQUEUE, "subscribe"),
            consuming(REDIS, "redis"),
            consuming(REDIS_EVERYSEC, "redis"),
            consuming(JETSTREAM, "nats"),
            consuming(BEANSTALKD, "beanstalk"),
            consuming(BEANSTALKD_MEMORY, "beanstalk"),
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
            consuming(MINIQUEUE, "subscribe", word="NACK"),
            consuming(JETSTREAM, "nats", word="NACK"),
            consuming(BEANSTALKD, "beanstalk", word="release"),
            consuming(BEANSTALKD_MEMORY, "beanstalk", word="release"),
        ),
        (Goal(RATE, MINIQUEUE.name, "at least", 50_000),),
        note="Redis takes no part: a consumer of a stream cannot return a message. It stays with the consumer, until "
        "another one claims it (XCLAIM, XAUTOCLAIM).",
    ),
)
