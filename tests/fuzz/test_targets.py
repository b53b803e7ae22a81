"""Every target, on the same inputs in each run; `python -m tests.fuzz.soak` and `make soak` try new ones."""

import pytest

from tests.fuzz.engine import fuzz
from tests.fuzz.targets import TARGETS

SEED = 1


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name):
    fuzz(TARGETS[name], SEED, input_count=TARGETS[name].quick_inputs)
