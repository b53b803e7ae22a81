"""The broker against the model, the same runs every time; `make soak` makes many more, and new ones each time."""

import pytest

from tests.model.machine import BrokerMachine, LevelDBMachine, ProtocolMachine, WaitingMachine
from tests.model.soak import check


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "runs"), [(BrokerMachine, 200), (WaitingMachine, 75), (ProtocolMachine, 75), (LevelDBMachine, 10)]
)
def test_all_that_is_seen_is_what_the_model_says(machine, runs):
    outcome = check(machine, runs, is_repeatable=True)
    if outcome.divergence is not None:
        raise outcome.divergence
    assert outcome.run_count >= runs
    assert outcome.step_count > 10 * runs
