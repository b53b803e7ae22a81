"""Three shards in this process, with real backs over Unix sockets: clients of any of their doors."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from starlette.types import ASGIApp

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.placing import Placing
from miniqueue.server.cluster.nodes import Nodes
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.shards.http.scopes import MONITOR, QUEUE
from miniqueue.server.shards.shard import Shard
from tests.fakes import FaultyStore, ManualClock, broker_on
from tests.server.shards.http.tunnels import Client, scope_of, until

COUNT = 3
PLACING = Placing(0, COUNT)


def topic_in(shard: int, prefix: str = "t") -> str:
    """Return the name of a topic in a shard."""
    return next(name for number in range(1_000) if PLACING.shard_of((name := f"{prefix}{number}").encode()) == shard)


#: A topic of each shard.
TOPICS = [topic_in(shard) for shard in range(COUNT)]


#: The ports of the shards, which nothing listens on.
FIRST_PORT = 7000


def nodes_of(number: int) -> Nodes:
    """Return the nodes that clients see in a shard."""
    return Nodes(number, FIRST_PORT, [PLACING.slots_of(shard) for shard in range(COUNT)])


class Member:
    """One shard, with the applications of its ports."""

    def __init__(self, shard: Shard, broker: Broker, store: FaultyStore, sign_in: Authenticator | None) -> None:
        self.shard = shard
        self.broker = broker
        self.store = store
        self.sign_in = sign_in
        self.http = HttpApp(broker, sign_in)
        self.monitoring = MonitorApp(broker, sign_in)
        self.door = shard.door(broker, self.http, self.http.gate)
        self.monitor_door = shard.monitor_door(broker, self.monitoring, self.monitoring.gate)
        self.resp = RespServer(broker, {}, sign_in, routing=shard.routing())
        self.server: asyncio.Server
        self.apps: dict[str, ASGIApp]

    async def listen(self) -> None:
        self.apps = {QUEUE: self.http, MONITOR: self.monitoring}
        self.server = await self.shard.serve(self.broker, self.resp, self.apps)

    def serve_also(self, apps: dict[str, ASGIApp]) -> None:
        """Serve these applications to the other shards, instead of those of the same ports."""
        self.apps.update(apps)


class Answered:
    """The reply to a request."""

    def __init__(self, client: Client) -> None:
        self.status = client.status
        self.headers = dict(client.sent[0]["headers"])
        self.body = client.body

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [orjson.loads(line) for line in self.body.splitlines()]

    @property
    def code(self) -> str:
        code: str = self.json["code"]
        return code


class Fleet:
    """All shards of a broker."""

    def __init__(self, members: list[Member], clock: ManualClock) -> None:
        self.members = members
        self.clock = clock

    def broker_with(self, topic: str) -> Broker:
        return self.members[PLACING.shard_of(topic.encode())].broker

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *headers: tuple[bytes, bytes],
        door: int = 0,
        client: Client | None = None,
    ) -> Answered:
        """Return the reply to a request at a door; the path has a query if it contains a `?`."""
        return await self.ask_app(self.members[door].door, method, path, body, *headers, client=client)

    async def look(self, path: str, *headers: tuple[bytes, bytes], door: int = 0) -> Answered:
        """Return a page of the monitoring port."""
        return await self.ask_app(self.members[door].monitor_door, "GET", path, b"", *headers)

    async def ask_app(
        self,
        app: ASGIApp,
        method: str,
        path: str,
        body: bytes,
        *headers: tuple[bytes, bytes],
        client: Client | None = None,
    ) -> Answered:
        path, _, query = path.partition("?")
        client = client or Client(body)
        await app(scope_of(method, path, *headers, query=query.encode()), client.receive, client.send)
        return Answered(client)

    async def publish(self, *topics: str) -> None:
        """Publish a message with the name of its topic to each."""
        for topic in topics:
            await self.broker_with(topic).publish(topic.encode(), [topic.encode()]).commit.wait()

    async def wait_until_read(self, *topics: str) -> None:
        """Return when consumers wait for messages of these topics."""
        for topic in topics:
            await until(lambda name=topic: name.encode() in self.broker_with(name)._engine.topics.by_name)

    def lose(self, number: int) -> None:
        """Make all shards believe that one does not answer."""
        for member in self.members:
            member.shard.peers.note_away(number)

    def find(self) -> None:
        """Make all shards believe that all answer."""
        for member in self.members:
            for number in range(COUNT):
                member.shard.peers.note_present(number)


@asynccontextmanager
async def fleet_in(directory: Path, sign_in: Authenticator | None = None) -> AsyncIterator[Fleet]:
    """Yield three shards whose sockets are in a directory."""
    paths = [directory / f"shard-{number}" for number in range(COUNT)]
    clock, members, sockets = ManualClock(), list[Member](), list[socket.socket]()
    for number, path in enumerate(paths):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        limits = BrokerLimits(max_topics=100, max_partitions=100, has_users=sign_in is not None)
        store = FaultyStore()
        broker = broker_on(store, clock, limits=limits)
        broker.place(Placing(number, COUNT))
        await broker.start()
        ends = socket.socketpair()
        sockets += ends
        shard = Shard(Placing(number, COUNT), paths, listener, ends[0], nodes=nodes_of(number))
        member = Member(shard, broker, store, sign_in)
        await member.listen()
        members.append(member)
    try:
        yield Fleet(members, clock)
    finally:
        for member in members:
            member.http.drain()
            member.shard.close()
            member.server.close()
        for member in members:
            await member.broker.stop()
        for each in sockets:
            each.close()
