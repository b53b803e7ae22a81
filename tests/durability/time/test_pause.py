"""A process that is stopped and goes on: nothing is lost, and neither leases nor connections end."""

import pytest

from tests.acceptance.tools import needs
from tests.durability.time.pause import stop_and_go_on

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


@needs("curl")
def test_a_broker_that_was_stopped_for_a_second_goes_on(tmp_path, trust):
    print(stop_and_go_on(tmp_path, trust, pause_seconds=1.0))
