"""Three shards for each test, and clients at their doors."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.server.shards.http.fleet import Fleet, fleet_in
from tests.server.shards.resp.clients import DoorClient


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_in(tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def connect(fleet: Fleet) -> AsyncIterator[Callable[..., DoorClient]]:
    """Return a function that connects a client to the door of a shard."""
    clients: list[DoorClient] = []

    def connect_to(door: int = 0) -> DoorClient:
        clients.append(DoorClient(fleet.members[door].resp))
        return clients[-1]

    yield connect_to
    for client in clients:
        client.transport.lose()
