"""A RESP client without a socket, for the tests of RESP connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from miniqueue.server.resp.server import RespServer
from tests.broker.support import World, started_world
from tests.fakes import FakeTransport, settle_down

PARAMETERS = {"port": "6379", "period": "1s", "db": "./x"}
#: So that a turn ends when its work is done, however slow the machine is.
LONG_TURN_SECONDS = 60.0


class FakeTls:
    """What a TLS transport knows of its peer: no certificate."""

    def getpeercert(self, _binary_form: bool) -> None:
        """Return None, as of a client without a certificate."""


class Client:
    """A connection with a fake transport."""

    def __init__(self, server: RespServer, *, is_tls: bool = False) -> None:
        self.connection = server()
        self.transport = FakeTransport(self.connection)
        if is_tls:
            self.transport.extra["ssl_object"] = FakeTls()
        self.connection.connection_made(self.transport)

    def send(self, *words: bytes) -> None:
        """Send one command, without running anything else."""
        self.connection.data_received(command(*words))

    async def say(self, line: bytes) -> bytes:
        """Send words; return what comes back."""
        self.send(*line.split())
        await settle_down()
        return self.transport.take()


def command(*words: bytes) -> bytes:
    """Encode one command."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@asynccontextmanager
async def started_server(**options: object) -> AsyncIterator[tuple[World, RespServer, Client]]:
    """Yield a fresh world, a server on its broker, and a client of the server."""
    async with started_world(**options) as world:
        server = RespServer(world.broker, PARAMETERS)
        yield world, server, Client(server)
