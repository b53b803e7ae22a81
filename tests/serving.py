"""The real HTTP server, in this process, on a broker in memory; and lines to and from a stream of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson
import structlog.testing
from starlette.types import ASGIApp

from miniqueue.broker import Broker
from miniqueue.server.http.app import HttpApp
from miniqueue.server.hypercorn.listening import ServeHttps, listen, serve_https
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.security.certificates import Certificates, ensure_certificates
from miniqueue_client import Http2Client, connect
from miniqueue_client.http2.stream import Stream
from tests.fakes import FaultyStore, ManualClock, broker_on

NDJSON = (b"content-type", b"application/x-ndjson")
#: So that what hangs fails; longer than a busy machine makes anything here take.
PATIENCE_SECONDS = 60


@dataclass
class Served:
    """A server on loopback and what it stands on."""

    certificates: Certificates
    app: ASGIApp
    broker: Broker
    clock: ManualClock
    store: FaultyStore
    port: int = 0
    clients: list[Http2Client] = field(default_factory=list)
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    server: "asyncio.Task[None] | None" = None

    @property
    def cafile(self) -> str:
        return str(self.certificates.cert.with_name("ca.pem"))

    async def client(self) -> Http2Client:
        client = await connect("localhost", self.port, cafile=self.cafile)
        self.clients.append(client)
        return client

    async def begin(self, path: str, *headers: tuple[bytes, bytes], method: str = "POST") -> Stream:
        """Begin a request on a connection of its own."""
        client = await self.client()
        return await client._begin(method.encode(), path.encode(), *headers)

    async def request(
        self, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes]
    ) -> tuple[int, bytes]:
        """Make one request; return its status and body."""
        stream = await self.begin(path, *headers, method=method)
        stream.write(body, is_last=True)
        return await stream.response(), await stream.read_all()

    async def stop(self) -> None:
        """Shut down, as on SIGTERM."""
        assert self.server is not None
        self.shutdown.set()
        await asyncio.wait_for(self.server, PATIENCE_SECONDS)


def make_certificates(directory: Path) -> Certificates:
    return ensure_certificates(directory / "cert.pem", directory / "key.pem", may_create=True, now=datetime.now(UTC))


@asynccontextmanager
async def serving(
    certificates: Certificates,
    app: ASGIApp | None = None,
    *,
    serve: ServeHttps = serve_https,
    sign_in: Authenticator | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    may_fail: bool = False,
    **broker_options: object,
) -> AsyncIterator[Served]:
    """Serve `app`, or the real one, while the block runs; unless it `may_fail`, no request may break it."""
    store, clock = FaultyStore(), ManualClock()
    broker = broker_on(store, clock, **broker_options)
    await broker.start()
    served = Served(certificates, app or HttpApp(broker, sign_in), broker, clock, store)
    listener = listen("127.0.0.1", 0)
    served.port = listener.getsockname()[1]
    served.server = asyncio.create_task(
        serve(served.app, listener, certificates.cert, certificates.key, served.shutdown.wait)
    )
    with structlog.testing.capture_logs() as logged:
        try:
            async with asyncio.timeout(patience_seconds):
                yield served
        finally:
            for client in served.clients:
                client.close()
            store.go_on()
            await served.stop()
            await broker.stop()
    assert may_fail or [entry for entry in logged if "ASGI" in entry["event"]] == []


class Lines:
    """A stream as JSON lines."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._rest = b""
        self._lines: list[bytes] = []

    def say(self, *lines: str) -> None:
        """Send each as a JSON string."""
        self.stream.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))

    async def hear(self) -> dict[str, object] | None:
        """Return the next line; None at the end."""
        while not self._lines:
            chunk = await self.stream.read()
            if not chunk:
                return None
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines += lines
        return orjson.loads(self._lines.pop(0))

    async def hear_all(self) -> list[dict[str, object] | None]:
        """Return all lines up to the end."""
        heard = []
        while (line := await self.hear()) is not None:
            heard.append(line)
        return heard


async def eventually(is_true: Callable[[], object]) -> None:
    """Wait for something that another task brings about; the test's time limit is the limit."""
    while not is_true():  # noqa: ASYNC110 - it may be true of anything
        await asyncio.sleep(0.001)
