"""A RESP client without a socket, for the tests of RESP connections."""

from miniqueue.server.resp_server import RespServer
from tests.broker.support import run
from tests.fakes import FakeTransport, settle_down

PARAMETERS = {"port": "6379", "period": "1s", "db": "./x"}


class Client:
    """A connection with a fake transport."""

    def __init__(self, server: RespServer) -> None:
        self.connection = server()
        self.transport = FakeTransport(self.connection)
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


def serve(body, **options):
    """Run `body(world, server, client)`."""

    async def with_server(world):
        server = RespServer(world.broker, PARAMETERS)
        await body(world, server, Client(server))

    return run(with_server, **options)
