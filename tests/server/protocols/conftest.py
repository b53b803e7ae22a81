"""The client that a test is run with once for each protocol."""

import pytest

from tests.broker.support import World
from tests.server.protocols.speakers import HttpSpeaker, RespSpeaker, Speaker


@pytest.fixture(params=[RespSpeaker, HttpSpeaker], ids=["resp", "http"])
async def speaker(request: pytest.FixtureRequest, world: World) -> Speaker:
    return request.param(world)
