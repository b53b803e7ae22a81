"""The short form of `make soak ARGS=transform`, and the proof that it finds a transaction that is not atomic."""

from pathlib import Path

import pytest

from tests.acceptance.process import Trust
from tests.durability.crash.transform import TransformLoop

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

KILLS = 4
SEED = 20_261
#: The planted bug is found within this many kills; mostly with the first few.
KILLS_TO_FIND = 60
KILLS_AT_ONCE = 10


def test_what_comes_out_of_a_pipeline_of_transactions_is_what_went_in_whatever_is_killed(trust: Trust, tmp_path: Path):
    judged = TransformLoop(tmp_path, trust, SEED).run(KILLS)
    assert not judged.findings, judged
    assert judged.transactions >= KILLS, judged


@pytest.mark.planted
def test_a_transaction_that_is_two_commits_is_found(trust: Trust, tmp_path: Path):
    findings: list[str] = []
    for number in range(KILLS_TO_FIND // KILLS_AT_ONCE):
        (place := tmp_path / f"{number}").mkdir()
        findings += TransformLoop(place, trust, SEED + number, "split-transactions").run(KILLS_AT_ONCE).findings
        if findings:
            return
    pytest.fail("nothing was found")
