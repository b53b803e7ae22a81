"""How late timers fire."""

import pytest

from miniqueue.server.process.loop_lag import INTERVAL_SECONDS, LoopLag


class EndedError(Exception):
    pass


class Timer:
    """A clock that a sleep moves on, by its time and a lag."""

    def __init__(self, lags_seconds: list[float]) -> None:
        self.now_seconds = 100.0
        self._lags_seconds = lags_seconds

    def now(self) -> float:
        return self.now_seconds

    async def sleep(self, seconds: float) -> None:
        if not self._lags_seconds:
            raise EndedError
        self.now_seconds += seconds + self._lags_seconds.pop(0)


async def measured(lags_seconds: list[float]) -> tuple[LoopLag, Timer]:
    timer = Timer(lags_seconds)
    lag = LoopLag(timer.now)
    with pytest.raises(EndedError):
        await lag.run(timer.sleep)
    return lag, timer


def test_there_is_no_lag_before_the_first_timer():
    assert LoopLag(lambda: 0.0).quantiles_seconds() is None


async def test_quantiles_are_those_of_the_last_minute():
    lag, timer = await measured([0.0] * 95 + [0.02] * 4 + [0.3])
    assert lag.quantiles_seconds() == {"0.5": 0.001, "0.99": 0.02, "0.999": 0.3, "1": 0.3}
    timer.now_seconds += 61
    assert lag.quantiles_seconds() is None


async def test_a_timer_that_fires_in_time_has_no_lag():
    lag, timer = await measured([0.0] * 3)
    assert timer.now_seconds == pytest.approx(100 + 3 * INTERVAL_SECONDS)
    assert lag.quantiles_seconds() == dict.fromkeys(("0.5", "0.99", "0.999", "1"), 0.001)
