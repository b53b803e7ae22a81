"""The page of three shards, as browsers reach it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.page import Page
from miniqueue.server.shards.http.scopes import MONITOR, PAGE, QUEUE
from tests.server.access import token_of
from tests.server.shards.http.fleet import Fleet, fleet_in
from tests.server.shards.http.tunnels import Client, scope_of

PORT = 8081
HOST = (b"host", b"localhost:8081")
ORIGIN = (b"origin", b"http://localhost:8081")


class Pages:
    """The page of each process, as browsers reach it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.pages = [
            Page(member.monitoring, member.door, member.broker, member.sign_in, facts, member.shard)
            for member in fleet.members
        ]
        self.doors = []
        for member, page in zip(fleet.members, self.pages, strict=True):
            member.serve_also({QUEUE: member.http, MONITOR: page.app, PAGE: page.parts})
            self.doors.append(member.shard.page_door(member.broker, page.app, PORT))

    async def ask(self, method, target, *headers, body=b"", door=0, client=None):
        """Return the reply to a request of a browser at a process."""
        path, _, query = target.partition("?")
        client = client or Client(body)
        scope = scope_of(method, path, HOST, *headers, query=query.encode()) | {"scheme": "http"}
        scope["headers"] = [HOST, *headers]
        await self.doors[door](scope, client.receive, client.send)
        return client

    async def data(self, view, *headers, door=0):
        self.fleet.clock.advance(1)
        client = await self.ask("GET", f"/ui/data/{view}", *headers, door=door)
        assert client.status == 200, client.body
        return orjson.loads(client.body)

    async def sign_in(self, name, *headers, door=0):
        """Sign in; return the header with the cookie."""
        body = orjson.dumps({"user": name, "password": token_of(name).decode()})
        client = await self.ask("POST", "/ui/session", ORIGIN, *headers, body=body, door=door)
        assert client.status == 200, client.body
        given = dict(client.sent[0]["headers"])[b"set-cookie"]
        return b"cookie", given.partition(b";")[0]

    def drain(self):
        for page in self.pages:
            page.drain()


def facts():
    return Facts(name="here", monitor_port=PORT, resp_port=6379, started_at_ms=5)


@asynccontextmanager
async def pages_in(directory: Path, sign_in=None) -> AsyncIterator[Pages]:
    async with fleet_in(directory, sign_in) as fleet:
        pages = Pages(fleet)
        try:
            yield pages
        finally:
            pages.drain()
