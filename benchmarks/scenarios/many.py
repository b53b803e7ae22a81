"""Many topics and many connections: the publish rate and the memory, beside those with one topic and no others."""

from dataclasses import replace

from benchmarks import loads
from benchmarks.bench import RATE, Bench
from benchmarks.queues import BEANSTALKD_MEMORY, JETSTREAM, MINIQUEUE, REDIS, Queue, Shape
from benchmarks.scenario import Contender, Figures, Scenario, fresh
from benchmarks.servers import TOPIC, Server

MEMORY = "memory MB"
TOPICS = 10_000
CONNECTIONS = 5_000
SHAPE = Shape(10, 32)


def _topics(queue: Queue) -> Contender:
    """Publish to a random topic each time; redis-benchmark puts a number in place of `__rand_int__`."""
    words = tuple(f"{word}-__rand_int__" if word == TOPIC else word for word in queue.words)
    many = replace(queue, words=words)

    def load(bench: Bench, server: Server) -> Figures:
        many.publish(bench, server, SHAPE, bench.count(TOPICS * 10))
        return {RATE: many.publish_rate(bench, server, SHAPE), MEMORY: server.memory_mb()}

    return fresh(many, load, f"{queue.name}, {TOPICS:,} topics")


def _one_topic(queue: Queue) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        queue.publish(bench, server, SHAPE, bench.count(TOPICS * 10))
        return {RATE: queue.publish_rate(bench, server, SHAPE), MEMORY: server.memory_mb()}

    return fresh(queue, load, f"{queue.name}, one topic")


def _idle(queue: Queue, connections: int) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        if not connections:
            return _published(bench, server)
        with loads.idle_connections(bench, server, connections):
            return _published(bench, server)

    def _published(bench: Bench, server: Server) -> Figures:
        memory = server.memory_mb()
        return {RATE: queue.publish_rate(bench, server, SHAPE), MEMORY: memory}

    return fresh(queue, load, f"{queue.name}, {connections:,} idle" if connections else f"{queue.name}, none idle")


SCENARIOS = (
    Scenario(
        "Many",
        f"publish to {TOPICS:,} topics at random, {SHAPE}",
        (_topics(MINIQUEUE), _one_topic(MINIQUEUE), _topics(REDIS), _one_topic(REDIS)),
        is_quick=False,
        note="JetStream and beanstalkd take no part: redis-benchmark, which makes up the names, does not speak their "
        "protocols, and the client for them knows one name.",
    ),
    Scenario(
        "Many",
        f"publish beside {CONNECTIONS:,} idle connections, {SHAPE}",
        tuple(
            _idle(queue, connections)
            for queue in (MINIQUEUE, REDIS, JETSTREAM, BEANSTALKD_MEMORY)
            for connections in (CONNECTIONS, 0)
        ),
        is_quick=False,
    ),
)
