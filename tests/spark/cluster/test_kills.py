"""A job that is killed in the middle, and its broker, too, copies every message once; `soak_kills` kills more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.broker import RespBroker
from tests.spark.cluster.kills import Plan, check_copies
from tests.spark.needs import needs_spark

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.spark_jobs,
    needs_spark,
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


def test_kills_in_the_middle_neither_lose_nor_double(broker, tmp_path):
    check_copies(broker, tmp_path / "job", Plan(3000, 1000, ["workers", "broker", "job"]))
