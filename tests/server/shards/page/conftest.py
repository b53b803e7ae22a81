"""The page of three shards for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.shards.page.pages import Pages, pages_in


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with pages_in(tmp_path) as pages:
        yield pages
