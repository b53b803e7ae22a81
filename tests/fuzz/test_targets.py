"""Every target, on the same inputs each time; with CI or MINIQUEUE_FUZZ_SECONDS set on new ones, for that long."""

import os
import time

import pytest

from tests.fuzz.engine import fuzz
from tests.fuzz.soak import running
from tests.fuzz.targets import TARGETS

QUICK_SEED = 1
CI_SECONDS = 60.0


def seconds_wanted() -> float:
    """Return for how long each target is to run; 0 for the quick run, which is the same every time."""
    is_ci = os.environ.get("CI", "").lower() in ("1", "true")
    return float(os.environ.get("MINIQUEUE_FUZZ_SECONDS", CI_SECONDS if is_ci else 0))


@pytest.fixture(scope="module")
def long_runs():
    """What comes of the long runs, which begin together and go on beside each other; nothing for the quick run."""
    seconds = seconds_wanted()
    with running(list(TARGETS) if seconds else [], seconds, seed=int(time.time())) as runs:
        yield runs


@pytest.mark.slow
@pytest.mark.timeout(120 + len(TARGETS) * seconds_wanted())
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name, long_runs, capsys):
    if name not in long_runs:
        fuzz(TARGETS[name], QUICK_SEED, input_count=TARGETS[name].quick_inputs)
        return
    is_good, said = long_runs[name].result()
    with capsys.disabled():
        print(f"\n{said}")
    assert is_good, said
