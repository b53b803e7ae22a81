"""What one iteration of the event loop costs when a topic is created that has as many partitions as one may have.

Made at once, the partitions cost half a million instructions, and ten times as many with ten groups.
"""

import asyncio
import re
from contextlib import suppress
from functools import partial

import pytest

from miniqueue.broker.model.new_partitions import PartitionsDueError
from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.budget.test_turns_cost import MOST, IterationLoop, Measured, get, measure, say
from tests.fakes import FakeConsumer, settle_down
from tests.server.resp.clients import PARAMETERS, Client

#: Groups with consumers of a topic that does not exist.
GROUPS = 10

#: Commands that create the topic that they name; each of them waits, as no partitions are spare.
COMMANDS = [
    b"PUBLISH one x",
    b"PUB three x KEY k",
    b"PUB four x UNIQUE k",
    b"PUBBATCH six id x y",
    b"SCHEDULE FIRE daily",
]


async def made(world: World) -> None:
    """Wait until partitions are spare."""
    for _ in range(1000):
        await asyncio.sleep(0)
        with suppress(PartitionsDueError):
            world.broker._engine.topics.spare.check(range(1, MAX_PARTITIONS), {DEFAULT_GROUP})
            return
    raise AssertionError


async def measure_creations() -> list[Measured]:
    world = World()
    broker = await world.start()
    client, app = Client(RespServer(broker, PARAMETERS)), HttpApp(broker)
    await say(client, b"PUB in x")
    for name in (b"dead", b"worse"):
        await say(client, b"TOPIC CREATE of.%b max_deliveries 1 dead_letter_topic %b" % (name, name))
        await say(client, b"PUB of.%b x" % name)
    await say(client, b"SCHEDULE SET daily EVERY 86400 daily x")
    await say(client, b"SCHEDULE SET soon EVERY 1 soon x")
    broker.set_defaults(TopicDefaults({"*": {"partitions": MAX_PARTITIONS}}))
    measured = [await measure(line.decode(), partial(say, client, line)) for line in COMMANDS]
    measured.append(await measure("/publish/seven", partial(get, app, "/publish/seven", b"x")))

    async def execute() -> None:
        for line in (b"MULTI", b"PUBLISH nine x", b"PUBLISH nine x", b"EXEC"):
            await say(client, line)

    async def tick() -> None:
        world.clock.advance(1.5)
        broker.tick()
        await settle_down()

    measured.append(await measure("EXEC", execute))
    measured.append(await measure("a tick, with a schedule", tick))
    for name in (b"dead", b"worse"):
        await say(client, b"PUBLISH %b.before x" % name)
        await tick()
        await made(world)
        (receipt,) = re.findall(rb"[0-9a-f]{16}-[0-9]+", await client.say(b"RECEIVE of.%b" % name))
        line = b"NACK of.%b %b" % (name, receipt) if name == b"dead" else b"REJECT of.%b %b broken" % (name, receipt)
        measured.append(await measure(line.decode(), partial(say, client, line)))
    consumers = [FakeConsumer(broker, b"read", b"g%d" % number) for number in range(GROUPS)]
    measured.append(await measure("PUBLISH to groups", partial(say, client, b"PUBLISH read x")))
    assert len(consumers) == len(broker.groups.names(b"read")) == GROUPS
    names = ["one", "three", "four", "six", "daily", "seven", "nine", "soon", "dead", "worse", "read"]
    assert [broker.admin.settings_of(name.encode()).partitions for name in names] == [MAX_PARTITIONS] * len(names)
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_message_that_creates_a_topic_holds_the_loop_in_proportion_to_its_partitions():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_creations())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}
