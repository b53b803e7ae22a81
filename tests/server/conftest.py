"""What the tests of the servers share: a certificate, and a RESP server with a client of it."""

import pytest

from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.certificates import Certificates
from tests.broker.support import World
from tests.server.resp.clients import PARAMETERS, Client
from tests.serving import make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def server(world: World) -> RespServer:
    """Return a RESP server on the broker of `world`."""
    return RespServer(world.broker, PARAMETERS)


@pytest.fixture
async def client(server: RespServer) -> Client:
    """Return a client of `server`, without a socket."""
    return Client(server)
