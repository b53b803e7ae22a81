"""A backlog takes no memory while it arrives, waits, and goes, and leaves none behind; nor do the tools need more."""

import pytest

from tests.durability.load.footprint import MIB, Footprint, measure

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

#: Of 10 MB each.
ROUNDS = 20
#: A line for each step of the broker, each tool and the broker beside it, and each wait.
LINES = 18


def test_a_backlog_and_the_tools_keep_to_their_bounds(tmp_path, trust):
    measured = measure(tmp_path, trust, ROUNDS)
    print("\n".join(measured.lines))
    assert measured.findings == []
    assert len(measured.lines) == LINES


def test_a_process_that_takes_more_is_found(start_broker):
    footprint = Footprint(start_broker("data", "-sync", "never"), max_rss_bytes=10 * MIB)
    with footprint.step("publishing"):
        footprint.publish("t", 1)
    with footprint.step("draining"):
        footprint.drain("t")
    assert [finding.partition(",")[0] for finding in footprint.findings] == ["publishing", "draining"]
    assert all("; the bound is 1" in finding for finding in footprint.findings)
    footprint.client.close()
