"""A job and its broker are killed again and again: for `make soak`, since each start of Spark takes its time."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.broker import RespBroker
from tests.spark.kills import check_copies

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


def test_many_kills_neither_lose_nor_double(broker, tmp_path):
    check_copies(broker, tmp_path / "job", 50_000, ["job", "broker and job"] * 5)
