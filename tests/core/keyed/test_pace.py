"""How fast something may go."""

import pytest

from miniqueue.core.keyed.pace import RateLimiter


def test_one_may_always_go_after_a_rest():
    assert RateLimiter(0.01).room(1000.0) == 1


def test_a_rest_is_not_saved_up():
    assert RateLimiter(100).room(1000.0) == 10


def test_who_has_gone_waits_for_the_next():
    pace = RateLimiter(2)
    pace.spend(1, 10.0)
    assert pace.room(10.0) == 0
    assert pace.opens_at == pytest.approx(10.4)
    assert pace.room(10.5) == 1


@pytest.mark.parametrize("per_second", [0.5, 3, 250, 100_000])
@pytest.mark.parametrize("step_seconds", [0.001, 0.0137, 1.0])
def test_it_is_as_fast_as_it_says_and_never_faster(per_second, step_seconds):
    pace, gone, steps = RateLimiter(per_second), 0, round(60 / step_seconds)
    for step in range(steps):
        now = 5 + step * step_seconds
        room = pace.room(now)
        pace.spend(room, now)
        gone += room
    assert gone <= 60 * per_second + max(1, per_second / 10)
    if step_seconds < 0.1:
        assert gone >= 0.95 * 60 * per_second - 1
