"""Three shards for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.shards.http.fleet import Fleet, fleet_in


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_in(tmp_path) as fleet:
        yield fleet
