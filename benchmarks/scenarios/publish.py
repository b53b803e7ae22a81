"""Publishing over RESP, and over the native protocols of the peers, in the same runs of messages.

64 KiB at pipeline 256 is measured with one connection only: with 50, 840 MB would be under way.
"""

from itertools import product

from benchmarks import loads, queues
from benchmarks.bench import Bench
from benchmarks.queues import JETSTREAM, MINIQUEUE, REDIS, Queue, Shape
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.servers import TOPIC, Server

RATE = "messages/s"
PAYLOADS = (10, 1024, 65536)
PIPELINES = (1, 32, 256)
MOST_BYTES = 2**28
MPUBLISH_MESSAGES = 100

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


def _mpublish(bench: Bench, server: Server) -> Figures:
    words = ["MPUBLISH", TOPIC, *["x" * 10] * (MPUBLISH_MESSAGES - 1)]

    def load(count: int) -> float:
        return loads.resp(bench, server, words, count=count, payload=b"x" * 10, pipeline=1, connections=50)

    return {RATE: bench.rate(load, 200) * MPUBLISH_MESSAGES}


SCENARIOS = (
    *(
        Scenario(
            "Publish",
            title(shape),
            tuple(_contender(queue, shape) for queue in queues.ALL),
            GOALS.get(shape, ()),
            is_quick=shape in GOALS,
        )
        for shape in SHAPES
    ),
    Scenario(
        "Publish", "publish 100 messages of 10 B with one MPUBLISH, 50 connections", (fresh(MINIQUEUE, _mpublish),)
    ),
)
