"""All that clients may do, in any order, on a broker that fails and dies; the same walks every time."""

import pytest

from tests.model.grounds import ALL_GROUNDS
from tests.model.planted.in_logs import IN_LOGS
from tests.model.planted.in_walks import PLANTS
from tests.model.walk import walks

WALKS = 100
#: A planted bug is found within so many walks; most are with the first few.
WALKS_TO_FIND = 40


@pytest.mark.slow
def test_whatever_was_answered_holds():
    walks(range(WALKS))


EVERYWHERE = PLANTS | IN_LOGS


@pytest.mark.planted
@pytest.mark.slow
@pytest.mark.parametrize("plant", EVERYWHERE, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found(plant, monkeypatch):
    plant(monkeypatch)
    grounds = [ground for ground in ALL_GROUNDS if ground.name == EVERYWHERE[plant].encode()]
    with pytest.raises(AssertionError, match="seed") as found:
        walks(range(WALKS_TO_FIND), grounds)
    of_the_walk = found.value.__cause__
    assert isinstance(of_the_walk.__cause__, AssertionError), "the plant broke by itself"
