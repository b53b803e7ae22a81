"""What one iteration of the event loop costs when a topic with many partitions and groups comes to rest, and wakes."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import orjson
import pytest

from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.server.dashboard.app import DashboardApp
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.budget.test_turns_cost import MOST, IterationLoop, Measured, get, measure, say
from tests.fakes import settle_down
from tests.server.resp.clients import PARAMETERS, Client

#: Partitions of the topic that wakes, and groups besides the default group: at once, that would cost more than `MOST`.
PARTITIONS = 200
GROUPS = 2
#: The same of the topic that comes to rest.
MANY_GROUPS = 3

COMMANDS = [
    b"PUB wide x",
    b"PUBLISH wide x",
    b"RECEIVE wide",
    b"RECEIVEANY PATTERN wi*",
    b"STATS wide",
    b"GROUP CREATE wide last",
    b"TOPIC SET wide ttl_seconds 60",
    b"PURGE wide",
    b"SCHEDULE FIRE daily",
    b"TOPIC DELETE wide",
]
PAGES: list[tuple[str, str, bytes | None]] = [
    ("http", "/publish/wide", b"x"),
    ("http", "/transactions", orjson.dumps({"publish": "wide", "text": "x"})),
    ("monitor", "/metrics", None),
    ("page", "/ui/data/topic?topic=wide", None),
    ("page", "/ui/data/messages?topic=wide", None),
]


class Rested:
    """A broker, its clients, and its topic `wide`."""

    def __init__(self, world: World) -> None:
        self.world, broker = world, world.broker
        self.server = RespServer(broker, PARAMETERS)
        self.client = Client(self.server)
        self.topics = broker._engine.topics.by_name
        facts = Facts(name="here", monitor_port=8081, resp_port=6379)
        http, monitor = HttpApp(broker), MonitorApp(broker)
        self.apps = {"http": http, "monitor": monitor, "page": DashboardApp(monitor, http, broker, None, facts)}
        self.measured: list[Measured] = []

    async def begin(self, partition_count: int, group_count: int) -> None:
        await say(self.client, b"TOPIC CREATE wide partitions %d" % partition_count)
        for number in range(group_count):
            await say(self.client, b"GROUP CREATE wide g%d" % number)

    async def rest(self) -> None:
        """Purge the topic, and wait until it is at rest."""
        if self.world.broker.stats()[b"wide"].ready:
            await say(self.client, b"PURGE wide")
        while not self.is_at_rest:
            await self.world.commit()
            self.topics[b"wide"].pulse = None  # so nothing was measured in the last minute
            await self.come_to_rest()

    async def come_to_rest(self) -> None:
        self.world.broker.tick()
        await settle_down()
        await settle_down()

    @property
    def is_at_rest(self) -> bool:
        return self.topics[b"wide"].at_rest is not None

    async def first(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Measure an act that is the first one after a rest."""
        await self.rest()
        self.measured.append(await measure(name, act))

    async def execute(self, *lines: bytes) -> None:
        for line in (b"MULTI", *lines, b"EXEC"):
            await say(self.client, line)

    async def subscribe(self) -> None:
        stream = Client(self.server)
        stream.send(b"SUBSCRIBE", b"wide")
        await settle_down()
        stream.transport.lose()


async def measure_first_acts() -> list[Measured]:
    world = World()
    await world.start()
    rested = Rested(world)
    await rested.begin(PARTITIONS, GROUPS)
    await say(rested.client, b"SCHEDULE SET daily EVERY 86400 wide x")
    for which, target, body in PAGES:
        await rested.first(target, partial(get, rested.apps[which], target, body))
    await rested.first("SUBSCRIBE", rested.subscribe)
    await rested.first("EXEC", partial(rested.execute, b"PUBLISH wide x", b"PUB wide x KEY k"))
    for line in COMMANDS:
        await rested.first(line.decode(), partial(say, rested.client, line))
    await world.broker.stop()
    return rested.measured


async def measure_rest() -> list[Measured]:
    """Wait until a topic with as many partitions as one may have is at rest, and wake it."""
    world = World()
    await world.start()
    rested = Rested(world)
    await rested.begin(MAX_PARTITIONS, MANY_GROUPS)
    rested.measured.append(await measure("rest", rested.come_to_rest))
    assert rested.is_at_rest
    await rested.first("PUB", partial(say, rested.client, b"PUB wide x"))
    assert not rested.is_at_rest
    await world.broker.stop()
    return rested.measured


@pytest.mark.slow
@pytest.mark.parametrize("measure_all", [measure_first_acts, measure_rest])
def test_neither_a_rest_nor_its_end_holds_the_loop_in_proportion_to_partitions_and_groups(measure_all):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_all())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}
