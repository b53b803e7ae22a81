"""Each hostile client by itself: the broker stays within `-max-memory`, and serves an innocent client meanwhile.

The figures are printed, not judged: how late timers are depends on what else the machine does. docs/security.md has
those of a quiet machine, and `make soak ARGS=hostile` judges them.
"""

import pytest

from tests.durability.hostile.beside import measure
from tests.durability.hostile.clients import HOSTILE
from tests.durability.hostile.victim import MAX_MEMORY_BYTES, SPARE_BYTES, filled, victim

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker(tmp_path_factory, trust):
    store = filled(tmp_path_factory.mktemp("broker"), trust, topics=2000)
    with victim(store, trust, "-sync", "never") as found:
        yield found


@pytest.mark.parametrize("name", HOSTILE)
def test_the_broker_stays_within_its_memory_and_serves_others(broker, name):
    figures = measure(name, broker, rounds=1, phase_seconds=0.6)
    print(figures.row())
    assert figures.peak_bytes < MAX_MEMORY_BYTES + SPARE_BYTES
    assert figures.rate_share > 0
