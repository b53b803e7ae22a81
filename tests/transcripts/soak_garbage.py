"""Each command and route repeated a thousand times without leaving a reference cycle: `make soak` runs it."""

import pytest

from tests.transcripts.test_garbage import check_repeated


@pytest.mark.timeout(3600)
def test_no_command_and_no_route_leaves_a_cycle_when_it_is_repeated():
    check_repeated(1000)
