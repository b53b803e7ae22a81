"""What a command, a page, or a tick may cost in one iteration of the event loop, with thousands of topics.

A command that is not cut into turns costs in proportion to the number of topics, and is over the limit by far; so does
one that settles thousands of messages.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import orjson
import pytest
from starlette.types import ASGIApp

from miniqueue.broker import Broker
from miniqueue.broker.inspect.history import STEP_SECONDS
from miniqueue.broker.leases.receive import ReceiveResult
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.topic_choice import MAX_TOPICS
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.server.dashboard.app import DashboardApp
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.budget.counting import Counter, counting
from tests.fakes import settle_down
from tests.server.resp.clients import PARAMETERS, Client

TOPICS = 1200
PARTITIONS = 64
#: Groups of one topic, each with a time after which it ends; these end.
GROUPS = 100
ENDING = 30
#: Groups of a topic that gets more partitions.
GROWING_GROUPS = 5
#: Groups with consumers that wait.
WAITING_GROUPS = 10
#: Connections to one listener.
CONNECTIONS = 4000
#: Messages of one topic.
LONG = 20_000
#: Messages that one command settles, and about as many as it can name.
SETTLED = 2700
MOST_SETTLED = 9900
#: Messages whose leases end together.
HELD = 2000
#: Messages of another topic that were returned, and are in memory.
RETURNED = 3000
#: Instructions of one iteration, about 10 ms: those of a command that costs 170 for each topic.
MOST = 200_000
#: Instructions for one group of a topic with as many partitions as one may have: they are looked at twice.
MOST_OF_GROUP = 300_000
#: Topics whose names, or faults, are listed at once.
MANY_TOPICS = 10_000
#: Messages with many headers, and chunks of one message.
DESCRIBED = 100
SINGLE = 350
#: Delayed messages that are due together.
DUE = 700
HOST = [(b"host", b"localhost:8080")]

#: Settings whose change concerns all partitions and groups of a topic.
WIDE_SETTINGS = [
    b"ordered true",
    b"fair true",
    b"trace true",
    b"max_deliveries 3",
    b"ttl_seconds 60",
    b"retention forever",
]

#: What settles messages, and what follows the receipts.
SETTLES = {b"ACK": b"", b"NACK": b"", b"BACK": b"", b"DACK": b"5", b"REJECT": b"broken", b"EXTEND": b"60"}
COMMANDS = [
    b"TOPICS",
    b"INFO",
    b"STATS",
    b"STATS wide",
    b"USAGE",
    b"LEN wide",
    b"PEEK wide COUNT 100",
    b"SEARCH wide COUNT 100",
    b"SEARCH long CONTAINS nothing SCAN 100000",
    b"MESSAGES DELETE long CONTAINS nothing",
    b"MESSAGES DELETE long LIMIT 5000 RATE 1000000",
    b"PUB long x UNIQUE k",
    b"MESSAGE FRONT long 0-%d" % LONG,
    b"MESSAGES FRONT long LIMIT 2000",
    b"MESSAGES DELETE scattered CONTAINS 1",
    b"MESSAGES DELETE returned LIMIT 1000",
    b"MESSAGES FRONT returned",
    b"PUB long x UNIQUE k REPLACE",
    b"PUB long x UNIQUE k REPLACE",
    b"TASK LIST",
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
GROUP_COMMANDS = [
    b"GROUP CREATE wide last FROM latest",
    b"GROUP CREATE wide first",
    b"GROUP SEEK wide first latest",
    b"GROUP SEEK wide first earliest",
    b"GROUP SEEK wide first latest DRYRUN",
    b"GROUP DELETE wide first",
    b"PURGE wide GROUP g1",
]
#: Commands for a topic that has as many partitions as one may have, and many groups.
WIDE_COMMANDS = [
    b"STATS",
    b"STATS wide",
    b"STATS wide GROUP g1",
    b"PARTITIONS wide",
    b"PEEK wide COUNT 1000",
    b"RECEIVE wide COUNT 1000",
    b"PUB wide x PRIORITY high KEY 1",
    b"PUB wide x PRIORITY low KEY 2",
]
#: Commands and pages that show messages, or many names.
READS = [
    b"READ described 0 0 COUNT 1000",
    b"PEEK described COUNT 1000",
    b"READ single 0 0 COUNT 1000",
    b"PEEK delayed STATE delayed COUNT 1000",
    b"RECEIVE described COUNT 1000",
]
READ_PAGES = [
    "/topics/described/partitions/0?count=1000",
    "/topics/described/messages?count=1000&state=leased",
]
PAGES = [
    ("http", "/topics"),
    ("http", "/usage"),
    ("monitor", "/stats"),
    ("monitor", "/metrics"),
    ("monitor", "/readyz"),
    ("page", "/ui/data/overview"),
    ("page", "/ui/data/topics?sort=-ready"),
    ("page", "/ui/data/topics?sort=oldest&q=1"),
    ("page", "/ui/data/topics?sort=state&q=*1*"),
    ("page", "/ui/data/topic?topic=wide"),
    ("page", "/ui/data/messages?topic=long&count=100"),
    ("page", "/ui/data/dead"),
    ("page", "/ui/data/dead?topic=long"),
    ("page", "/ui/data/history?topic=long"),
    ("page", "/ui/data/settings"),
    ("page", "/ui/data/broker"),
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


async def get(app: ASGIApp, target: str, body: bytes | None = None, method: str = "POST") -> None:
    """Ask for a page, or post a body, or do with it what `method` says."""
    path, _, query = target.partition("?")
    statuses = []

    async def send(message: dict[str, object]) -> None:
        if "status" in message:
            statuses.append(message["status"])

    parts = [{"type": "http.request", "body": body or b""}]

    async def receive() -> dict[str, object]:
        return parts.pop() if parts else await asyncio.get_running_loop().create_future()

    scope = {
        "type": "http",
        "method": "GET" if body is None else method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": HOST,
    }
    await app(scope, receive, send)
    assert statuses in ([200], [201]), target


async def measure_all() -> list[Measured]:
    world = World()
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    apps: dict[str, ASGIApp] = {"http": HttpApp(broker), "monitor": MonitorApp(broker)}
    facts = Facts(name="here", monitor_port=8081, resp_port=6379)
    apps["page"] = DashboardApp(apps["monitor"], apps["http"], broker, None, facts)
    await say(client, b"TOPIC CREATE wide partitions %d" % PARTITIONS)
    await say(client, b"GROUP CREATE wide second")
    for number in range(TOPICS):
        broker.publish(b"topic-%d" % number, [b"x"])
    for number in range(200):
        broker.publish(b"wide", [b"%d" % number])
    for _ in range(LONG // 1000):
        broker.publish(b"long", [b"x"] * 1000)
    broker.publish(b"scattered", [b"%d" % (number % 2) for number in range(4000)])
    broker.publish(b"returned", [b"x"] * RETURNED)
    await world.commit()
    await say(client, b"RECEIVE scattered AUTOACK")  # so its chunk is being read
    received: list[ReceiveResult] = []
    options = ReceiveOptions(max_count=RETURNED)
    broker.leases.receive(b"returned", options, received.append, lambda error: pytest.fail(str(error)))
    await settle_down()
    ((prefix, leases),) = received
    receipts = [b"%b%d" % (prefix, lease.receipt + n) for _, lease in leases for n in range(lease.count)]
    assert broker.leases.back(b"returned", receipts) == [True] * RETURNED
    await world.commit()

    async def tick() -> None:
        broker.tick()

    measured = [await measure("tick", tick)]
    measured += [await measure(line.decode(), partial(say, client, line)) for line in COMMANDS]
    measured += [await measure(path, partial(get, apps[which], path)) for which, path in PAGES]
    world.clock.advance(STEP_SECONDS)
    measured.append(await measure("a point of the history", broker.overview.note))
    for number in range(GROUPS):
        await broker.groups.create(b"grouped", b"g%d" % number)
    await broker.admin.change(b"grouped", {"idle_groups": {f"g{number}": 1e6 for number in range(GROUPS)}}).wait()
    await world.commit()
    await settle_down()
    measured.append(await measure("a check of groups", tick))
    measured.append(await measure("/metrics of groups", partial(get, apps["monitor"], "/metrics")))
    own = {f"g{number}": 1.0 if number < ENDING else 1e6 for number in range(GROUPS)}
    await broker.admin.change(b"grouped", {"idle_groups": own}).wait()
    world.clock.advance(2)
    grouped = broker._engine.topics.by_name[b"grouped"]

    async def end_groups() -> None:
        broker.tick()
        while len(grouped.existing_groups) > GROUPS - ENDING:  # noqa: ASYNC110 - each iteration is measured
            await asyncio.sleep(0)

    measured.append(await measure("the end of groups", end_groups))
    await broker.stop()
    return measured


async def measure_receives() -> list[Measured]:
    """Receive from as many topics as one may: all have messages, or none has."""
    world = World()
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    for number in range(MAX_TOPICS):
        broker.publish(b"full-%d" % number, [b"x"])
    await world.commit()
    names = b" ".join(b"none-%d" % number for number in range(MAX_TOPICS))
    lines = [b"RECEIVEANY COUNT 1000 PATTERN full-*", b"RECEIVEANY COUNT 1000 TOPICS " + names]
    measured = [await measure(line.decode(), partial(say, client, line)) for line in lines]
    await broker.stop()
    return measured


async def measure_reads() -> list[Measured]:
    """Show messages with many headers, and chunks of one; end what is delayed, and what expires."""
    world = World()
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    app = HttpApp(broker)
    options = PublishOptions(headers=tuple((b"name-%d" % number, b"value") for number in range(20)))
    for _ in range(DESCRIBED):
        broker.publish_with(b"described", b"x", options)
    dying = b" ttl_seconds 9 expired dead-letter dead_letter_topic dead"
    for name, settings in ((b"expiring", b" ttl_seconds 9"), (b"dying", dying)):
        await say(client, b"TOPIC CREATE %b%b" % (name, settings))
    for _ in range(SINGLE):
        for name in (b"single", b"expiring", b"dying"):
            broker.publish_with(name, b"x", PublishOptions(key=b"k"))
        await world.commit()
    for delay_seconds in (20, 1000):
        for _ in range(DUE):
            broker.publish_with(b"delayed", b"x", PublishOptions(delay_seconds=delay_seconds))
    await world.commit()
    measured = [await measure(line.decode(), partial(say, client, line)) for line in READS]
    measured += [await measure(path, partial(get, app, path)) for path in READ_PAGES]
    broker.tick()  # looks when the first messages expire

    async def end() -> None:
        world.clock.advance(10)
        for _ in range(5):
            broker.tick()
            await settle_down()

    await settle_down()
    measured += [await measure(name, end) for name in ("expiry", "what is due")]
    stats = broker.stats()
    assert (stats[b"delayed"].ready, stats[b"dead"].ready, stats[b"expiring"].expired) == (DUE, SINGLE, SINGLE)
    purge, topics = b"PURGE delayed STATE delayed", b"TOPICS"
    measured.append(await measure(purge.decode(), partial(say, client, purge)))
    for number in range(MANY_TOPICS):
        broker.publish(b"topic-%d" % number, [b"x"])
    await world.commit()
    measured.append(await measure(topics.decode(), partial(say, client, topics)))
    measured.append(await measure("/readyz", partial(get, MonitorApp(broker), "/readyz")))
    await broker.stop()
    return measured


@pytest.mark.slow
def test_nothing_that_reads_or_ends_messages_holds_the_loop_in_proportion_to_them():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_reads())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def measure_connections() -> list[Measured]:
    """List thousands of connections, some of them with streams."""
    world = World()
    broker = await world.start()
    server = RespServer(broker, PARAMETERS)
    clients = [Client(server) for _ in range(CONNECTIONS)]
    for client in clients[1::2]:
        client.send(b"SUBSCRIBE", b"orders")
    facts = Facts(name="here", monitor_port=8081, resp_port=6379, clients=server.listed)
    page = DashboardApp(MonitorApp(broker), HttpApp(broker), broker, None, facts)
    line, path = b"CLIENT LIST", "/ui/data/connections?q=x"
    measured = [await measure(line.decode(), partial(say, clients[0], line))]
    measured.append(await measure(path, partial(get, page, path)))
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_list_of_connections_holds_the_loop_in_proportion_to_their_number():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_connections())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def with_wide_topic(settings: bytes = b"") -> tuple[Broker, Client]:
    """Return a broker, and its client, whose topic `wide` has as many partitions as one may have, and 21 groups."""
    world = World()
    broker = await world.start()
    client = Client(RespServer(broker, PARAMETERS))
    await say(client, b"TOPIC CREATE wide partitions %d %b" % (MAX_PARTITIONS, settings))
    for number in range(20):
        await say(client, b"GROUP CREATE wide g%d" % number)
    for number in range(LONG // 10):
        broker.publish_with(b"wide", b"x", PublishOptions(key=b"%d" % number))
    await world.commit()
    return broker, client


async def measure_wide(settings: bytes) -> list[Measured]:
    """Do all that concerns a topic that has as many partitions as one may have, and many groups.

    RECEIVE is measured in a plain topic only: if it is ordered and traced, to lease 500 messages still costs more.
    """
    broker, client = await with_wide_topic(settings)
    lines = [line for line in WIDE_COMMANDS if not (settings and line.startswith(b"RECEIVE"))]
    lines.append(b"TOPIC DELETE wide")
    measured = [await measure(line.decode(), partial(say, client, line)) for line in lines]
    await broker.stop()
    return measured


@pytest.mark.slow
@pytest.mark.parametrize("settings", [b"", b"ordered true trace true"])
def test_no_command_holds_the_loop_in_proportion_to_partitions_and_groups(settings):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_wide(settings))
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def measure_waiting() -> list[Measured]:
    """Publish to a topic that has as many partitions as one may have, while consumers wait in many groups."""
    broker, client = await with_wide_topic()
    await say(client, b"PURGE wide")
    server = RespServer(broker, PARAMETERS)
    streams = [Client(server) for _ in range(WAITING_GROUPS)]
    for number, stream in enumerate(streams):
        stream.send(*b"SUBSCRIBE wide PREFETCH 10000 GROUP".split(), b"g%d" % number)
    await settle_down()

    async def publish(count: int) -> None:
        for number in range(count):
            broker.publish_with(b"wide", b"x", PublishOptions(key=b"%d" % number))
        await broker.publish(b"other", [b"x"]).commit.wait()

    measured = [await measure(f"{count} published", partial(publish, count)) for count in (1, 20)]
    assert [stream.transport.take().count(b"x\r\n") for stream in streams] == [21] * WAITING_GROUPS
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_commit_holds_the_loop_in_proportion_to_the_partitions_of_groups_with_consumers():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_waiting())
    assert {act.name: act.count for act in measured if act.count > MOST_OF_GROUP} == {}


async def measure_groups(settings: bytes) -> list[Measured]:
    """Create, move, and delete groups of a topic that has as many partitions as one may have, and many groups."""
    broker, client = await with_wide_topic(settings)
    if b"trace" in settings:
        await say(client, b"TRACE wide 0-0")  # so that the publishes in a thousand partitions are stored
    measured = []
    for line in GROUP_COMMANDS:
        measured.append(await measure(line.decode(), partial(say, client, line)))
    await broker.stop()
    return measured


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [b"trace true", b"max_deliveries 5 retention forever", b"ordered true", b"fair true"]
)
def test_no_act_on_a_group_holds_the_loop_in_proportion_to_its_partitions(settings):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_groups(settings))
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def measure_settings() -> list[Measured]:
    """Change settings of a topic that has as many partitions as one may have, and many groups, and back."""
    broker, client = await with_wide_topic()
    measured = []
    for setting in WIDE_SETTINGS:
        for words in (setting, setting.split()[0] + b" default"):
            line = b"TOPIC SET wide " + words
            measured.append(await measure(line.decode(), partial(say, client, line)))
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_setting_holds_the_loop_in_proportion_to_partitions_and_groups():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_settings())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def measure_growth(settings: bytes, partitions: int) -> list[Measured]:
    """Create topics with as many partitions as one may have, and give one as many that several groups read."""
    world = World()
    broker = await world.start()
    client, app = Client(RespServer(broker, PARAMETERS)), HttpApp(broker)
    many = b"partitions %d" % MAX_PARTITIONS
    await say(client, b"TOPIC CREATE growing partitions %d %b" % (partitions, settings))
    for number in range(GROWING_GROUPS - 1):
        await say(client, b"GROUP CREATE growing g%d" % number)
    for number in range(8 * partitions):  # so that each partition has some
        broker.publish_with(b"growing", b"x", PublishOptions(key=b"%d" % number))
    await world.commit()
    lines = [b"TOPIC CREATE first " + many, b"TOPIC SET growing " + many, b"PUB growing x", b"GROUP CREATE growing new"]
    measured = [await measure(line.decode(), partial(say, client, line)) for line in lines]

    async def execute() -> None:
        await say(client, b"MULTI")
        await say(client, b"TOPIC CREATE second " + many)
        await say(client, b"EXEC")

    measured.append(await measure("TOPIC CREATE in a transaction", execute))
    body = orjson.dumps({"partitions": MAX_PARTITIONS})
    put = partial(get, app, "/topics/third", body, "PUT")
    measured.append(await measure("PUT /topics/third", put))
    broker.set_defaults(TopicDefaults({"*": {"partitions": MAX_PARTITIONS}}))
    line = b"GROUP CREATE fourth new"
    measured.append(await measure(line.decode(), partial(say, client, line)))
    names = (b"first", b"second", b"third", b"fourth", b"growing")
    assert [broker.admin.settings_of(name).partitions for name in names] == [MAX_PARTITIONS] * 5
    await broker.stop()
    return measured


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "partitions"), [(b"", PARTITIONS), (b"ordered true", MAX_PARTITIONS // 2)])
def test_no_creation_or_growth_holds_the_loop_in_proportion_to_the_partitions(settings, partitions):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_growth(settings, partitions))
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def lease(world: World, client: Client, total: int, count: int) -> list[bytes]:
    """Return the receipts of `total` new messages, `count` of which are leased together."""
    await say(client, b"TOPIC DELETE in")
    for _ in range(total // 900):
        world.broker.publish(b"in", [b"x"] * 900)
    await world.commit()
    receipts: list[bytes] = []
    while len(receipts) < total:
        receipts += re.findall(rb"[0-9a-f]{16}-[0-9]+", await client.say(b"RECEIVE in COUNT %d" % count))
    return receipts


async def measure_settles() -> list[Measured]:
    """Settle thousands of messages, in two cases as many as one command can name: each has a lease, or most cut one."""
    world = World()
    broker = await world.start()
    server = RespServer(broker, PARAMETERS)
    client, app, measured = Client(server), HttpApp(broker), []
    for word, value in SETTLES.items():
        for count in (1, SETTLED):
            # What a command costs for each message that it names, before and after the turns, is alike for all words.
            total = MOST_SETTLED if (word, count) == (b"ACK", 1) else SETTLED
            receipts = (await lease(world, client, total, count))[::-1]
            words = b" ".join([word, b"in", *receipts, value])
            name = f"{word.decode()} of leases of {count}"
            measured.append(await measure(name, partial(say, client, words)))
    for word in (b"ACK", b"NACK", b"BACK", b"DACK 5"):
        await say(client, b"TOPIC DELETE in")
        world.broker.publish(b"in", [b"x"] * HELD)
        await world.commit()
        stream = Client(server)
        stream.send(*b"SUBSCRIBE in PREFETCH 10000".split())
        await settle_down()
        stream.transport.take()
        words = b" ".join([word, *[b"%d" % receipt for receipt in range(HELD, 0, -1)]])
        measured.append(await measure(f"{word.decode()} in a stream", partial(say, stream, words)))
        stream.transport.lose()
        await quiet(world)
    receipts = (await lease(world, client, MOST_SETTLED, MOST_SETTLED))[::-1]
    body = orjson.dumps({"receipts": [receipt.decode() for receipt in receipts]})
    measured.append(await measure("nack over HTTP", partial(get, app, "/topics/in/nack", body)))
    assert broker.stats()[b"in"].leased == 0
    await broker.stop()
    return measured


async def measure_returns(settings: bytes) -> list[Measured]:
    """End the leases of many messages that were not settled; each has a lease of its own, or all have one."""
    world = World()
    broker = await world.start()
    server = RespServer(broker, PARAMETERS)
    measured = []
    for way in ("lease", "stream", "lease of a stream"):
        for count in (1, HELD):
            client = Client(server)
            await say(client, b"TOPIC CREATE in " + settings)
            broker.publish(b"in", [b"x"] * HELD)
            await world.commit()
            if way == "lease":
                for _ in range(HELD // count):
                    await say(client, b"RECEIVE in COUNT %d LEASE 5" % count)
            else:
                words = b" LEASE 5" if way == "lease of a stream" else b""
                client.send(*(b"SUBSCRIBE in PREFETCH 10000" + words).split())
                await settle_down()
                if count == 1:  # what was returned has a lease each
                    client.transport.lose()
                    await quiet(world)
                    client = Client(server)
                    client.send(*(b"SUBSCRIBE in PREFETCH 10000" + words).split())
                    await settle_down()
            assert broker.stats()[b"in"].leased == HELD

            async def end(way: str = way, client: Client = client) -> None:
                if way == "stream":
                    client.transport.lose()
                else:
                    world.clock.advance(6)
                    broker.tick()
                await quiet(world)

            measured.append(await measure(f"the end of a {way}, of leases of {count}", end))
            client.transport.lose()
            await say(Client(server), b"TOPIC DELETE in")
    await broker.stop()
    return measured


async def measure_deliveries() -> list[Measured]:
    """Deliver many messages, each of which is encoded on its own, to streams of several groups."""
    world = World()
    broker = await world.start()
    server = RespServer(broker, PARAMETERS)
    await say(Client(server), b"TOPIC CREATE in")
    await say(Client(server), b"GROUP CREATE in other")
    options = PublishOptions(headers=((b"name", b"value"),))

    async def publish() -> None:
        for _ in range(HELD):
            broker.publish_with(b"in", b"x", options)
        await world.commit()

    async def subscribe(group: bytes = b"other") -> None:
        Client(server).send(*b"SUBSCRIBE in PREFETCH 10000 GROUP".split(), group)
        await quiet(world)

    await publish()
    measured = [await measure("SUBSCRIBE", subscribe)]
    await subscribe(b"default")
    assert broker.stats()[b"in"].leased == HELD

    async def publish_more() -> None:
        await broker.publish(b"in", [b"x"] * HELD, [options.attributes(0).encode()] * HELD).commit.wait()
        await quiet(world)

    measured.append(await measure("a commit that is delivered", publish_more))
    assert broker.stats()[b"in"].leased == 2 * HELD
    await broker.stop()
    return measured


@pytest.mark.slow
def test_no_delivery_holds_the_loop_in_proportion_to_its_messages():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_deliveries())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


async def quiet(world: World) -> None:
    """Wait until as many messages are leased as a moment before."""
    before = -1
    while (leased := world.broker.stats()[b"in"].leased) != before:
        before = leased
        await settle_down()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [b"", b"max_deliveries 2 dead_letter_topic dead"])
def test_no_end_of_leases_holds_the_loop_in_proportion_to_their_messages(settings):
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_returns(settings))
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


@pytest.mark.slow
def test_no_settle_holds_the_loop_in_proportion_to_its_messages():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_settles())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


@pytest.mark.slow
def test_no_receive_holds_the_loop_in_proportion_to_its_topics():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_receives())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}


@pytest.mark.slow
def test_no_act_holds_the_loop_in_proportion_to_the_number_of_topics():
    with asyncio.Runner(loop_factory=IterationLoop) as runner:
        measured = runner.run(measure_all())
    assert {act.name: act.count for act in measured if act.count > MOST} == {}
