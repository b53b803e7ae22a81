"""A RESP server to be attacked over real sockets, on TLS or without, in this process and on this loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import structlog.testing

from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.certificates import Certificates, server_tls_context
from tests.broker.support import World
from tests.fakes import settle_down
from tests.server.access import sign_in_for


@dataclass
class Peer:
    """A client over a socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes, *, byte_by_byte: bool = False) -> None:
        """Send bytes; stops when the other end has gone."""
        with suppress(ConnectionError, ssl.SSLError):
            for piece in [data[i : i + 1] for i in range(len(data))] if byte_by_byte else [data]:
                if self.reader._eof or self.writer.is_closing():
                    return
                self.writer.write(piece)
                await self.writer.drain()
                if byte_by_byte:
                    for _ in range(8):  # the server reads it before the next
                        await asyncio.sleep(0)

    async def until_over(self) -> bytes:
        """Return all that comes until the server ends the connection."""
        heard = b""
        with suppress(ConnectionError, ssl.SSLError):
            while chunk := await self.reader.read(1 << 16):
                heard += chunk
        return heard

    async def until(self, end: bytes) -> bytes:
        return await self.reader.readuntil(end)

    async def leave(self) -> None:
        self.writer.transport.abort()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


@dataclass
class Victim:
    """A server, and what it logs."""

    server: RespServer
    world: World
    port: int
    context: ssl.SSLContext | None
    logged: list[dict[str, object]]
    peers: list[Peer] = field(default_factory=list)

    async def peer(self) -> Peer:
        name = "localhost" if self.context else None
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=name, limit=1 << 22
        )
        self.peers.append(Peer(*streams))
        return self.peers[-1]

    async def answer_to(self, data: bytes, *, byte_by_byte: bool = False) -> bytes:
        """Say something on a connection of its own; return what comes until the server ends it."""
        peer = await self.peer()
        await peer.say(data, byte_by_byte=byte_by_byte)
        return await peer.until_over()

    def ended(self, reason: str) -> int:
        return self.server.refusals.counts.get(reason, 0)


@asynccontextmanager
async def resp_victim(
    certificates: Certificates, *, is_tls: bool, has_users: bool = False, **options: object
) -> AsyncIterator[Victim]:
    """Serve while the block runs."""
    world = World(**options)
    await world.start()
    server = RespServer(world.broker, {}, sign_in_for() if has_users else None)
    tls = server_tls_context(certificates.cert, certificates.key, protocols=()) if is_tls else None
    socket = listen("127.0.0.1", 0)
    port = socket.getsockname()[1]
    listener = await asyncio.get_running_loop().create_server(server, sock=socket, ssl=tls)
    context = ssl.create_default_context(cafile=certificates.cert.with_name("ca.pem")) if is_tls else None
    with structlog.testing.capture_logs() as logged:
        victim = Victim(server, world, port, context, logged)
        try:
            yield victim
        finally:
            for peer in victim.peers:
                await peer.leave()
            listener.close()
            server.drain()
            await settle_down()
            await listener.wait_closed()
            await world.broker.stop()
