"""The short form of `make soak ARGS=shard-faults`."""

from pathlib import Path

import pytest

from tests.acceptance.process import Trust
from tests.durability.shards.faults import FaultLoop

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

SEED = 20_264
#: Longer than the other shards wait for an answer.
STOP_SECONDS = 4.0
FAULTS = ("kill", "low", "stop")


def test_a_shard_that_fails_breaks_no_promise(tmp_path: Path, trust: Trust):
    loop = FaultLoop(tmp_path / "loop", trust, SEED, STOP_SECONDS)
    loop.run(FAULTS)
    assert not loop.findings, f"{loop.line}\n" + "\n".join(loop.findings)
