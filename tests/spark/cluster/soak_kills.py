"""A job and its broker are killed again and again: for `make soak`, since each start of Spark takes its time.

`SPARK_KILLS_SEED` says which kills, and when; without it that is another one each time, and a failure names it.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.client.broker import RespBroker
from tests.spark.cluster.kills import KILLS, Plan, check_copies
from tests.spark.needs import needs_spark

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    needs_spark,
]

ROWS, ROWS_AT_ONCE = 1_000_000, 40_000
ROUNDS = 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RespBroker]:
    broker = RespBroker(tmp_path)
    yield broker
    broker.end()


def test_many_kills_neither_lose_nor_double(broker, tmp_path):
    seed = int(os.environ.get("SPARK_KILLS_SEED") or time.time())
    kills = [kill for round_seed in range(seed, seed + ROUNDS) for kill in Random(round_seed).sample(KILLS, len(KILLS))]
    print(f"SPARK_KILLS_SEED={seed}: {', '.join(kills)}")
    check_copies(broker, tmp_path / "job", Plan(ROWS, ROWS_AT_ONCE, kills, seed))
