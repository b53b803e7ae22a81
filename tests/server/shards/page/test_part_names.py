"""Nothing that a person, a client, or a tool sees names a part of a spread topic."""

import asyncio
import re
from collections.abc import AsyncIterator

import hiredis
import orjson
import pytest
import structlog

from miniqueue.access.rights import ROUTES
from miniqueue.errors.requests import SpreadTopicError
from miniqueue.server.asgi.replies import error_reply
from miniqueue.server.dashboard.app import MODELS
from miniqueue.server.process.escaping import escape
from miniqueue.server.process.logs import make_harmless
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.wire import resp_replies
from tests.server.shards.http.fleet import COUNT, TOPICS, topic_in
from tests.server.shards.http.tunnels import Client, scope_of, until
from tests.server.shards.page.pages import Pages
from tests.server.shards.resp.clients import DoorClient

TOPIC, PLAIN = topic_in(1, "orders"), TOPICS[0]
NAME, LETTERS = TOPIC.encode(), TOPIC.encode() + b".dlq"
PARTS = 5
#: How a part appears in bytes, in JSON, and in text that is escaped.
EXPOSED = re.compile(rb"\x1f|\\u001f|\\x1f|%1[fF]")
#: Copies of the store, which has its own format.
COPIES = ("/backup", "/changes")
#: Words for each command, after its name: T is the topic, D its dead letters, P a plain one, R a receipt, M an id.
WORDS: dict[bytes, list[bytes]] = {
    b"PUBLISH": [b"T x"],
    b"PUB": [b"T x KEY k", b"T x DELAY 60"],
    b"MPUBLISH": [b"T x y"],
    b"PUBBATCH": [b"T id x y"],
    b"PUBEACH": [b"T id x 2 KEY a y 2 KEY b"],
    b"PUBPACKED": [b"T id x y"],
    b"REQUEST": [b"T x TIMEOUT 0"],
    b"REPLY": [b"T R x"],
    b"SUBSCRIBE": [b"T PREFETCH 3"],
    b"SUB": [b"D"],
    b"PSUBSCRIBE": [b"x"],
    b"UNSUBSCRIBE": [b""],
    b"PUNSUBSCRIBE": [b""],
    b"GET": [b"T", b"D"],
    b"RECEIVE": [b"T", b"D", b"T MEMBER m", b"T GROUP none"],
    b"RECEIVEANY": [b"TOPICS T D", b"COUNT 3 PATTERN *", b"TOPICS T WAIT 0"],
    b"ACK": [b"T R", b"T R SYNC"],
    b"NACK": [b"T R REASON why"],
    b"BACK": [b"T R"],
    b"DACK": [b"T R 60"],
    b"REJECT": [b"T R why"],
    b"EXTEND": [b"T R 60"],
    b"LEASES": [b"", b"T", b"T GROUP default", b"D GROUP default"],
    b"GROUP": [b"CREATE T g", b"LIST T", b"MEMBERS T g", b"HOLDERS T default", b"SEEK T g latest", b"DELETE T g"],
    b"EVENTS": [b""],
    b"TOPICS": [b""],
    b"REDRIVE": [b"D LIMIT 1", b"D LIMIT 1 REPORT", b"D LIMIT 1 TASK", b"D TO P", b"P TO T"],
    b"TOPIC": [
        b"CREATE T",
        b"SET T ttl_seconds 1000",
        b"GET T",
        b"GET D",
        b"DELETE none",
        b"HELP",
        b"SET D ttl_seconds 9",
    ],
    b"LEN": [b"T", b"T GROUP default", b"D"],
    b"STATS": [b"", b"T", b"D", b"T GROUP default"],
    b"PEEK": [b"T", b"T STATE leased", b"T STATE dead", b"D", b"T ID M"],
    b"SEARCH": [b"T", b"T STATE dead", b"D CONTAINS x"],
    b"TRACE": [b"T M", b"D M"],
    b"READ": [b"T 0 0", b"T 1024 0"],
    b"PARTITIONS": [b"T", b"D"],
    b"CANCEL": [b"T M"],
    b"MESSAGE": [b"DELETE T M", b"FRONT T M", b"REDRIVE D M", b"DUE T M"],
    b"MESSAGES": [b"DELETE T KEY none", b"DELETE T KEY none TASK", b"REDRIVE D KEY none DRYRUN"],
    b"TASK": [b"LIST", b"GET 1", b"CANCEL 1"],
    b"SCHEDULE": [b"SET s EVERY 60 T x", b"GET s", b"LIST", b"FIRE s", b"DELETE s"],
    b"PAUSE": [b"T IN 60", b"T OUT 60 GROUP default"],
    b"RESUME": [b"T", b"T GROUP default"],
    b"PURGE": [b"T STATE delayed", b"T TASK", b"D"],
    b"MULTI": [b""],
    b"EXEC": [b""],
    b"DISCARD": [b""],
    b"WATCH": [b"x"],
    b"UNWATCH": [b""],
    b"PING": [b""],
    b"INFO": [b""],
    b"USAGE": [b""],
    b"HELLO": [b"3"],
    b"AUTH": [b"x y"],
    b"CLIENT": [b"ID", b"GETNAME", b"SETNAME n", b"SETINFO LIB-NAME n", b"LIST", b"NO-EVICT on", b"NO-TOUCH on"],
    b"CLUSTER": [b"INFO", b"KEYSLOT T", b"MYID", b"NODES", b"SHARDS", b"SLOTS"],
    b"COMMAND": [b"", b"COUNT", b"DOCS"],
    b"CONFIG": [b"GET *"],
    b"SELECT": [b"0"],
    b"ECHO": [b"x"],
    b"RESET": [b""],
    b"QUIT": [b""],
}


class Spread:
    """A broker with a spread topic that has messages in all states, and traces; and a client of it."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.fleet = pages.fleet
        self.clients: list[DoorClient] = []
        self.client = self.connect(0)
        self.words = {b"T": NAME, b"D": LETTERS, b"P": PLAIN.encode(), b"R": b"", b"M": b""}

    def connect(self, door: int) -> DoorClient:
        self.clients.append(DoorClient(self.fleet.members[door].resp))
        return self.clients[-1]

    async def ask(self, line: bytes):
        """Return the reply to the command in a line."""
        return value_of(await self.client.ask(*self.words_of(line)))

    def words_of(self, line: bytes) -> list[bytes]:
        return [self.words.get(word, word) for word in line.split()]

    async def fill(self) -> None:
        """Make the topics, with a message of each state in each part."""
        assert await self.ask(b"TOPIC CREATE T spread %d max_deliveries 1 trace true" % PARTS) == b"OK"
        await self.ask(b"PUB P x")
        await self.ask(b"PAUSE T OUT")
        await self.ask(b"RESUME T")
        for _ in range(4 * PARTS):
            self.words[b"M"] = await self.ask(b"PUB T x")
        for receipt, *_ in await self.ask(b"RECEIVE T COUNT %d" % (2 * PARTS)):
            self.words[b"R"] = receipt
            await self.ask(b"NACK T R REASON why")
        [[self.words[b"R"], *_]] = await self.ask(b"RECEIVE T LEASE 60")
        for _ in range(PARTS):
            await self.ask(b"PUB T x DELAY 60")


@pytest.fixture
async def spread(pages: Pages) -> AsyncIterator[Spread]:
    spread = Spread(pages)
    await spread.fill()
    yield spread
    for client in spread.clients:
        client.transport.lose()


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


def check(shown: bytes, what: object) -> None:
    exposed = EXPOSED.search(shown)
    assert exposed is None, f"{what}: {shown[max(0, exposed.start() - 60) : exposed.end() + 20]!r}"


def test_words_for_every_command_are_tried():
    assert WORDS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("door", range(COUNT))
async def test_no_command_names_a_part(spread, door):
    listener, held = spread.connect(door), spread.connect(door)
    await listener.ask(b"EVENTS")
    with structlog.testing.capture_logs() as logged:
        for command, lines in WORDS.items():
            for line in lines:
                client = spread.connect(door)
                check(await client.ask(command, *spread.words_of(line)), (command, line))
                await asyncio.sleep(0)
                check(client.transport.take(), (command, line, "later"))
        await held.ask(b"GET", NAME)
        check(await held.ask(b"LEASES"), "LEASES")
        check(await spread.connect(door).ask(b"CLIENT", b"LIST"), "CLIENT LIST")
        for member in spread.fleet.members:
            member.broker._engine.notices.tick()
        check(b"".join(await listener.hear(3)) + listener.heard + listener.transport.take(), "EVENTS")
    for event in logged:
        check(orjson.dumps(make_harmless(structlog.get_logger(), "info", event)), event["event"])


@pytest.mark.parametrize("door", range(COUNT))
async def test_no_route_names_a_part(spread, door):
    message_id, receipt = spread.words[b"M"].decode(), spread.words[b"R"].decode()
    body = orjson.dumps({"receipts": [receipt], "topics": [TOPIC], "topic": TOPIC})
    for topic in (TOPIC, f"{TOPIC}.dlq", "topics"):
        for method, route in ROUTES:
            if route.startswith("/ui") or route.endswith(COPIES):
                continue
            path = route.format(topic=topic, id=message_id, name=TOPIC, n=0)
            if route == "/request/{topic}":
                path += "?timeout=0"
            if route in ("/metrics", "/stats", "/readyz", "/livez", "/healthz"):
                check((await spread.fleet.look(path, door=door)).body, path)
            elif route in ("/events", "/subscribe/{topic}"):
                check(await begun(spread, method, path, door), (method, path))
            elif (method, topic) != ("DELETE", TOPIC) or "{id}" in route:
                check((await spread.fleet.ask(method, path, body, door=door)).body, (method, path))
    for path in (f"/topics/{TOPIC}/groups/default", f"/topics/{TOPIC}/partitions/1024?offset=0"):
        check((await spread.fleet.ask("GET", path, door=door)).body, path)


async def begun(spread: Spread, method: str, path: str, door: int) -> bytes:
    """Return the beginning of a reply that has no end."""
    client = Client(b"")
    stream = asyncio.create_task(spread.fleet.ask(method, path, door=door, client=client))
    await until(lambda: bool(client.sent))
    await spread.ask(b"PUB T x KEY k")
    for member in spread.fleet.members:
        member.broker._engine.notices.tick()
    for _ in range(20):
        await asyncio.sleep(0)
    client.leave()
    await stream
    return client.body


@pytest.mark.parametrize("door", range(COUNT))
async def test_no_view_of_the_page_names_a_part(spread, door):
    for name, model in MODELS.items():
        for topic in ("", TOPIC, f"{TOPIC}.dlq", PLAIN):
            query = f"?topic={topic}" if topic and "topic" in model.parameters else ""
            shown = await spread.pages.ask("GET", f"/ui/data/{name}{query}", door=door)
            check(shown.body, (name, query))
            more = [f"{query}&state=dead", f"{query}&contains=x"] if query and name == "messages" else []
            for each in more:
                check((await spread.pages.ask("GET", f"/ui/data/{name}{each}", door=door)).body, (name, each))


@pytest.mark.parametrize("name", ["orders\x1f3", "orders.dlq\x1f63"])
def test_texts_of_errors_and_logs_lose_the_number_of_the_part(name):
    whole = name.partition("\x1f")[0]
    assert escape(name) == escape(name.encode()) == whole
    assert resp_replies.error("FULL", f"topic '{name}' is full") == b"-FULL topic '%b' is full\r\n" % whole.encode()
    client = Client()
    asyncio.run(error_reply(SpreadTopicError(name.encode(), "it"))(scope_of(), client.receive, client.send))
    check(client.body, "an error")
