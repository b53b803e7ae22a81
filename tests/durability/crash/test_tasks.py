"""The short form of `make soak ARGS=tasks`, and the proof that it finds a task that is stored too late."""

from pathlib import Path

import pytest

from tests.acceptance.process import Trust
from tests.durability.crash.tasks import TaskLoop

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

KILLS = 3
SEED = 20_262
#: The planted bug is found within this many kills; mostly with the first few.
KILLS_TO_FIND = 60
KILLS_AT_ONCE = 10


def test_tasks_settle_each_message_once_whatever_is_killed(trust: Trust, tmp_path: Path):
    counted = TaskLoop(tmp_path, trust, SEED).run(KILLS)
    assert not counted.findings, counted
    assert counted.tasks > KILLS, counted


@pytest.mark.planted
def test_a_task_that_is_stored_after_what_it_did_is_found(trust: Trust, tmp_path: Path):
    for number in range(KILLS_TO_FIND // KILLS_AT_ONCE):
        (place := tmp_path / f"{number}").mkdir()
        if TaskLoop(place, trust, SEED + number, "store-tasks-late").run(KILLS_AT_ONCE).findings:
            return
    pytest.fail("nothing was found")
