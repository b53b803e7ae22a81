"""What a command, a page, or a tick may cost in one iteration of the event loop, with thousands of topics.

A command that is not cut into turns costs in proportion to the number of topics, and is over the limit by far.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import pytest

from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.budget.counting import Counter, counting
from tests.fakes import settle_down
from tests.server.resp.clients import PARAMETERS, Client

TOPICS = 2000
PARTITIONS = 64
#: Instructions of one iteration, about 10 ms: those of a command that costs 100 for each topic.
MOST = 200_000
HOST = [(b"host", b"localhost:8080")]

COMMANDS = [
    b"TOPICS",
    b"INFO",
    b"STATS",
    b"STATS wide",
    b"USAGE",
    b"LEN wide",
    b"PEEK wide COUNT 100",
    b"PARTITIONS wide",
    b"READ wide 0 0",
    b"RECEIVE wide COUNT 100",
    b"LEASES",
    b"GROUP LIST wide",
    b"GROUP MEMBERS wide default",
    b"GROUP CREATE wide third",
    b"GROUP SEEK wide third latest",
    b"GROUP DELETE wide third",
    b"TOPIC CREATE other partitions 64",
    b"TOPIC GET wide",
    b"TOPIC SET wide retention_seconds 60",
    b"TOPIC DELETE other",
    b"SCHEDULE LIST",
    b"PURGE wide",
    b"CLIENT LIST",
    b"COMMAND DOCS",
]
PAGES = [
    ("http", "/topics"),
    ("http", "/usage"),
    ("monitor", "/stats"),
    ("monitor", "/metrics"),
    ("monitor", "/readyz"),
]


class Measured(NamedTuple):
    """The most expensive iteration of an act."""

    name: str
    count: int


class IterationLoop(asyncio.SelectorEventLoop):
    """Notes how much was counted in the most expensive iteration."""

    counter: Counter | None = None
    most = 0

    def _run_once(self) -> None:
        before = self.counter.count if self.counter is not None else 0
        super()._run_once()
        if self.counter is not None:
            self.most = max(self.most, self.counter.count - before)


async def measure(name: str, act: Callable[[], Awaitable[object]]) -> Measured:
    """Carry out an act, and all that it has begun."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IterationLoop)
    with counting() as counter:
        loop.counter, loop.most = counter, 0
        await asyncio.create_task(_whole(act))
        loop.counter = None
    return Measured(name, loop.most)


async def _whole(act: Callable[[], Awaitable[object]]) -> None:
    await act()
    await settle_down()


async def say(client: Client, line: bytes) -> None:
    """Send a command, and wait for its reply."""
    client.send(*line.split())
    while not (reply := client.transport.take()):  # noqa: ASYNC110 - each iteration is measured
        await asyncio.sleep(0)
    assert not reply.startswith(b"-"), (line, reply)


async def get(app: HttpApp | MonitorApp, path: str) -> None:
    """Ask for a page."""
    statuses = []

    async def send(message: dict[str, object]) -> None:
        if "status" in message:
            statuses.append(message["status"])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": HOST,
    }
    await app(scope, receive, send)
    assert statuses == [200], path


async def measure_all() -> list[Measured]:
    world = World()
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    apps = {"http": HttpApp(broker), "monitor": MonitorApp(broker)}
    await say(client, b"TOPIC CREATE wide partitions %d" % PARTITIONS)
    await say(client, b"GROUP CREATE wide second")
    for number in range(TOPICS):
        broker.publish(b"topic-%d" % number, [b"x"])
    for number in range(200):
        broker.publish(b"wide", [b"%d" % number])
    await world.commit()
    await settle_down()

    async def tick() -> None:
        broker.tick()

    measured = [await measure("tick", tick)]
    measured += [await measure(line.decode(), partial(say, client, line)) for line in COMMANDS]
    measured += [await measure(path, partial(get, apps[which], path)) for which, path in PAGES]
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_act_holds_the_loop_in_proportion_to_the_number_of_topics():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_all())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}
