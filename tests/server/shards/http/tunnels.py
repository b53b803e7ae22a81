"""A tunnel over a real socket, in this process, to an application of a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from starlette.types import ASGIApp, Message, Scope

from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import Memory
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.http.frames import Frames
from miniqueue.server.shards.http.scopes import QUEUE
from miniqueue.server.shards.http.serving import Serving
from miniqueue.server.shards.http.tunnel import Passing, Tunnels, pass_on

OWNER = 1


async def until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds."""
    while not holds():  # noqa: ASYNC110 - what makes it hold sets no event
        await asyncio.sleep(0)


def scope_of(
    method: str = "POST", path: str = "/publish/t", *headers: tuple[bytes, bytes], query: bytes = b""
) -> Scope:
    """Return the scope of a request, as a server makes it."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("10.0.0.1", 50_000),
        "http_version": "2",
        "scheme": "https",
        "state": {},
        "extensions": {},
    }


class Client:
    """A client of the door: the parts of its body, and what it gets."""

    def __init__(self, *parts: bytes, is_complete: bool = True) -> None:
        self.sent: list[Message] = []
        self.has_news = asyncio.Event()
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        for number, part in enumerate(parts, 1):
            self.upload(part, is_last=is_complete and number == len(parts))

    def upload(self, part: bytes, *, is_last: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": part, "more_body": not is_last})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> Message:
        return await self._incoming.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.has_news.set()

    async def wait_for(self, count: int) -> None:
        """Return when that many messages have arrived."""
        while len(self.sent) < count:
            self.has_news.clear()
            await self.has_news.wait()

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_whole(self) -> bool:
        """Whether the reply has its end."""
        return bool(self.sent) and not self.sent[-1].get("more_body", False) and len(self.sent) > 1


class Owner:
    """An owner with an application, and the tunnels that lead to it."""

    def __init__(self, path: Path, app: ASGIApp, named: Callable[[str], User | None]) -> None:
        self.memory = Memory(1 << 30)
        self.serving = Serving({QUEUE: app}, self.memory, named)
        self.tunnels = Tunnels(self._connect, self._check, max_count=50)
        self.accepted: list[Frames] = []
        self.is_away = False
        self._path = str(path)

    async def _connect(self, shard: int, make: Callable[[bytes], Frames]) -> Frames:
        assert shard == OWNER
        _, protocol = await asyncio.get_running_loop().create_unix_connection(lambda: make(b""), self._path)
        return protocol

    def _check(self, shard: int) -> None:
        if self.is_away:
            raise ShardAwayError(f"shard {shard} does not answer; try again")

    async def listen(self) -> asyncio.Server:
        return await asyncio.get_running_loop().create_unix_server(self._accept, self._path)

    def _accept(self) -> asyncio.Protocol:
        tunnel = self.serving()
        assert isinstance(tunnel, Frames)
        self.accepted.append(tunnel)
        return tunnel

    def kill(self) -> None:
        """End all connections, as the kernel does for a process that is killed."""
        for tunnel in self.accepted:
            tunnel.abort()

    async def ask(self, client: Client, scope: Scope | None = None, user: str | None = None) -> None:
        """Pass a request on."""
        passing = Passing(QUEUE, user)
        await pass_on(self.tunnels, OWNER, scope or scope_of(), client.receive, client.send, passing)


@asynccontextmanager
async def owner_of(
    directory: Path, app: ASGIApp, named: Callable[[str], User | None] = lambda _: None
) -> AsyncIterator[Owner]:
    """Yield an owner with this application."""
    owner = Owner(directory / "back", app, named)
    server = await owner.listen()
    try:
        yield owner
    finally:
        owner.tunnels.close()
        owner.kill()
        server.close()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
