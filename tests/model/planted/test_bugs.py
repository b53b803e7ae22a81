"""The machine is worth as much as the bugs that it finds."""

import pytest

from tests.model.machine import BrokerMachine, ProtocolMachine, WaitingMachine
from tests.model.planted.bugs import IN_THE_CORE, IN_THE_PROTOCOLS, IN_WAITING
from tests.model.planted.in_more import IN_MORE
from tests.model.soak import check

MAX_RUNS = 200
WHERE = [
    *((BrokerMachine, bug) for bug in IN_THE_CORE + IN_MORE),
    *((WaitingMachine, bug) for bug in IN_WAITING),
    *((ProtocolMachine, bug) for bug in IN_THE_PROTOCOLS),
]


@pytest.mark.planted
@pytest.mark.slow
@pytest.mark.parametrize(("machine", "plant"), WHERE, ids=lambda each: each.__name__)
def test_planted_bug_is_found(machine, plant, monkeypatch):
    plant(monkeypatch)
    outcome = check(machine, MAX_RUNS, is_repeatable=True)
    assert isinstance(outcome.divergence, AssertionError)
