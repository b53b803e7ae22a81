"""The soak beside hostile clients, for seconds instead of an hour; and that it finds what is planted."""

import sys
from pathlib import Path

import pytest

from tests.durability.hostile import unaccounted
from tests.durability.hostile.mix import soak

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_a_broker_stays_within_its_bounds_beside_hostile_clients(tmp_path, trust):
    """How late timers are depends on what else the machine does in so short a time: only `make soak` judges it."""
    mixed = soak(tmp_path, trust, rounds=2, seed=1)
    print(mixed.line())
    assert [finding for finding in mixed.findings if not finding.startswith("timers")] == []


@pytest.mark.planted
def test_a_broker_that_charges_nothing_is_found(tmp_path, trust):
    command = (sys.executable, str(Path(unaccounted.__file__)))
    mixed = soak(tmp_path, trust, rounds=12, seed=1, names=("window_games",), command=command)
    print(mixed.line(), *mixed.findings, sep="\n")
    assert any("the broker used" in finding or "in no account" in finding for finding in mixed.findings)
