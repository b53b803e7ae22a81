"""The server of the tests of commands, which are about replies, not about turns."""

import pytest

from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.server.resp.clients import LONG_TURN_SECONDS, PARAMETERS


@pytest.fixture
async def server(world: World) -> RespServer:
    """Return a RESP server on the broker of `world`, whose turns end when nothing is left to do."""
    return RespServer(world.broker, PARAMETERS, turn_seconds=LONG_TURN_SECONDS)
