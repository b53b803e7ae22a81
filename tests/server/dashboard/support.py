"""A dashboard on a broker in memory, asked without a server, as a browser asks."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import orjson

from miniqueue.broker import Broker
from miniqueue.server.dashboard.app import DashboardApp
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.security.authentication import Authenticator
from tests.fakes import FaultyStore, ManualClock, broker_on, settle_down
from tests.server.access import Clock, token_of

PORT = 8081
HOST = b"localhost:8081"
OWN_ORIGIN = b"http://localhost:8081"
FACTS = Facts(name="here", monitor_port=PORT, resp_port=6379)


class Reply:
    """What came back."""

    def __init__(self) -> None:
        self.status = 0
        self.header_list: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_complete = False

    async def send(self, message: Any) -> None:
        if "status" in message:
            self.status = int(message["status"])
            self.header_list = list(message["headers"])
        self.body += message.get("body", b"")
        self.is_complete = not message.get("more_body", False)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.header_list)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def cookie(self) -> bytes:
        """The cookie that a browser would send back."""
        return self.headers[b"set-cookie"].partition(b";")[0]

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.json["code"]


class Tab:
    """A stream of live events, which reads what is sent, or nothing while `may_read` is cleared."""

    def __init__(self, app: DashboardApp, scope: dict[str, Any]) -> None:
        self.reply = Reply()
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._leaving = asyncio.Event()
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._leaving.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.may_read.wait()
        await self.reply.send(message)

    def take(self) -> list[tuple[str, Any]]:
        """Return the events that came since the last call."""
        events, self.reply.body = self.reply.body.decode().split("\n\n"), b""
        found = []
        for event in filter(None, events):
            fields = dict(line.split(": ", 1) for line in event.splitlines())
            if "data" in fields:
                found.append((fields["event"], orjson.loads(fields["data"])))
        return found

    async def close(self) -> None:
        self._leaving.set()
        await self.task


class World:
    """The dashboard, and what it stands on."""

    def __init__(self, broker: Broker, clock: ManualClock, sign_in: Authenticator | None, facts: Facts) -> None:
        self.broker, self.clock, self.sign_in = broker, clock, sign_in
        self.seconds = Clock()
        self.queue = HttpApp(broker, sign_in)
        self.monitor = MonitorApp(broker, sign_in)
        self.app = DashboardApp(self.monitor, self.queue, broker, sign_in, facts, monotonic=self.seconds)

    def scope(
        self, method: str, target: str, *headers: tuple[bytes, bytes], host: bytes = HOST, scheme: str = "http"
    ) -> dict[str, Any]:
        path, _, query = target.partition("?")
        return {
            "type": "http",
            "method": method,
            "scheme": scheme,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", host), *headers],
            "client": ("127.0.0.1", 50_000),
            "state": {},
        }

    async def ask(
        self, method: str, target: str, *headers: tuple[bytes, bytes], body: bytes = b"", **named: Any
    ) -> Reply:
        """Make one request."""
        reply = Reply()

        parts = [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else await asyncio.get_running_loop().create_future()

        await self.app(self.scope(method, target, *headers, **named), receive, reply.send)
        return reply

    async def get(self, target: str, *headers: tuple[bytes, bytes], **named: Any) -> Reply:
        return await self.ask("GET", target, *headers, **named)

    async def act(self, method: str, target: str, *headers: tuple[bytes, bytes], body: bytes = b"") -> Reply:
        """Make a request as the page does, with its origin."""
        return await self.ask(method, target, (b"origin", OWN_ORIGIN), *headers, body=body)

    async def sign_in_as(self, name: str) -> tuple[bytes, bytes]:
        """Sign in; return the header with the cookie."""
        password = token_of(name).decode()
        reply = await self.act("POST", "/ui/session", body=orjson.dumps({"user": name, "password": password}))
        assert reply.status == 200, reply.body
        return b"cookie", reply.cookie

    async def data(self, view: str, *headers: tuple[bytes, bytes]) -> Any:
        """Return a read model."""
        self.clock.advance(1)
        reply = await self.get("/ui/data/" + view, *headers)
        assert reply.status == 200, reply.body
        return reply.json

    async def look(self, view: str, *headers: tuple[bytes, bytes]) -> Tab:
        """Open a live view."""
        tab = Tab(self.app, self.scope("GET", "/ui/live?view=" + view, *headers))
        await settle_down()
        return tab

    async def publish(self, topic: bytes, *payloads: bytes) -> None:
        await self.broker.publish(topic, list(payloads)).commit.wait()

    async def refresh(self, seconds: float = 1) -> None:
        """Advance the clock, by a second unless the test says otherwise, and compute all views again."""
        self.clock.advance(seconds)
        self.seconds.now_seconds += seconds
        await self.app.live.refresh()
        await settle_down()


@asynccontextmanager
async def dashboard(sign_in: Authenticator | None = None, facts: Facts = FACTS, **broker_options: Any):
    """Yield a world."""
    clock = ManualClock()
    broker = broker_on(FaultyStore(), clock, **broker_options)
    await broker.start()
    world = World(broker, clock, sign_in, facts)
    try:
        yield world
    finally:
        world.app.drain()
        await settle_down()
        await broker.stop()
