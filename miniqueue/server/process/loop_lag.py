"""The lag of the event loop: how late its timers fire, which is how long everything else has to wait.

    timer of 5 ms ─▶ fires 8 ms later: 3 ms late ─▶ Latencies ─▶ quantiles of the last minute

A callback that takes 20 ms makes every connection wait for 20 ms, so the lag shows what no single client can: that
another one has too large a share of the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from miniqueue.core.statistics import Latencies

#: Interval between two measurements: 12,000 a minute, so that the quantile 0.999 is not one of them; they take 0.2 % of
#: the loop.
INTERVAL_SECONDS = 0.005
#: The quantiles that are reported; 1 is the maximum.
QUANTILES = {"0.5": 0.5, "0.99": 0.99, "0.999": 0.999, "1": 1.0}


class LoopLag:
    """Measures the lag of the last minute.

    Args:
      now: the time of the loop, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._started_at = now()
        self._lags = Latencies()

    async def run(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Measure, forever."""
        while True:
            due_at = self._now() + INTERVAL_SECONDS
            await sleep(INTERVAL_SECONDS)
            self._lags.note(self._second(), round((self._now() - due_at) * 1000))

    def quantiles_seconds(self) -> Mapping[str, float] | None:
        """Return the lag by quantile, each rounded up to a bound of `BOUNDS_MS`; None before the first measurement."""
        lags_ms = self._lags.quantiles_ms(self._second(), list(QUANTILES.values()))
        return None if lags_ms is None else {name: lag / 1000 for name, lag in zip(QUANTILES, lags_ms, strict=True)}

    def _second(self) -> int:
        return int(self._now() - self._started_at)
