"""Each act interrupted at each of its reads and writes, in topics of several kinds: `make soak` runs it."""

import pytest

from tests.broker.runtime.interrupted_acts import SETTINGS, case_id, cases, check_all

EVERY = 1000  # reads and writes of an act; none has as many


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", cases(EVERY, SETTINGS), ids=case_id)
def test_an_act_that_is_interrupted_is_done_or_says_that_it_is_not(case):
    check_all(case)
