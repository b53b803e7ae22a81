"""Publishing over RESP, and over the native protocols of the peers, in the same runs of messages."""

from dataclasses import replace
from itertools import product

from benchmarks import loads, queues
from benchmarks.bench import RATE, Bench
from benchmarks.queues import JETSTREAM, MINIQUEUE, REDIS, REDIS_EVERYSEC, Queue, Shape
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.servers import TOPIC, Server

PAYLOADS = (10, 1024, 65536)
PIPELINES = (1, 32, 256)
MOST_BYTES = 2**28
LARGEST = Shape(65536, 256)
MPUBLISH_MESSAGES = 100
#: What Redis has in place of MPUBLISH: one request, one reply, all messages or none.
XADD_ALL = "for _, message in ipairs(ARGV) do redis.call('XADD', KEYS[1], '*', 'field', message) end return #ARGV"

SHAPES = [
    Shape(payload, pipeline, connections)
    for payload, connections, pipeline in product(PAYLOADS, (50, 1), PIPELINES)
    if payload * pipeline * connections <= MOST_BYTES
]


def title(shape: Shape) -> str:
    """Return the name of the scenario with a shape."""
    return f"publish {shape}"


def _at_least(ratio: float, against: Queue) -> Goal:
    return Goal(RATE, MINIQUEUE.name, "at least", ratio, against.name)


GOALS = {
    Shape(10, 1): (_at_least(0.8, REDIS),),
    Shape(10, 32): (_at_least(1.6, REDIS), _at_least(3, JETSTREAM)),
    Shape(10, 256): (_at_least(2.0, REDIS),),
    Shape(1024, 32): (_at_least(1.2, REDIS),),
}


def _contender(queue: Queue, shape: Shape) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        return {RATE: queue.publish_rate(bench, server, shape)}

    return fresh(queue, load)


def _many(queue: Queue, *command: str) -> Contender:
    """Return a contender that takes many messages with one command."""
    words = [*command, *["x" * 10] * (MPUBLISH_MESSAGES - 1)]

    def load(bench: Bench, server: Server) -> Figures:
        amounts = {"payload": b"x" * 10, "pipeline": 1, "connections": 50}
        rate = bench.rate(lambda count: loads.resp(bench, server, words, count=count, **amounts), 200)
        return {RATE: rate * MPUBLISH_MESSAGES}

    return fresh(queue, load)


def _note(shape: Shape) -> str:
    """Say at the last shape before it why the largest is not there."""
    if shape != replace(LARGEST, pipeline=32):
        return ""
    return f"{LARGEST} is left out, since 840 MB would be under way."


SCENARIOS = (
    *(
        Scenario(
            "Publish",
            title(shape),
            tuple(_contender(queue, shape) for queue in queues.ALL),
            GOALS.get(shape, ()),
            is_quick=shape in GOALS,
            note=_note(shape),
        )
        for shape in SHAPES
    ),
    Scenario(
        "Publish",
        f"publish {MPUBLISH_MESSAGES} messages of 10 B with one MPUBLISH, 50 connections",
        (
            _many(MINIQUEUE, "MPUBLISH", TOPIC),
            *(_many(queue, "EVAL", XADD_ALL, "1", TOPIC) for queue in (REDIS, REDIS_EVERYSEC)),
        ),
        note="Redis runs a script, which adds all or none as MPUBLISH does. The protocols of JetStream and beanstalkd, "
        "in the versions measured, have no request with many messages; they have the pipelines above.",
    ),
)
