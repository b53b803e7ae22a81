"""An event loop whose time goes on with its turns, and over every pause at once: the same tests run the same way."""

import asyncio
import selectors

#: How far each look at the clock advances it; the loop itself looks about twice in each iteration.
LOOK_SECONDS = 0.000_025


class SteadyLoop(asyncio.SelectorEventLoop):
    """Runs callbacks and timers as asyncio does, and waits for nothing but threads that are about to report."""

    def __init__(self) -> None:
        self._now_seconds = 0.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        self._now_seconds += LOOK_SECONDS
        return self._now_seconds

    def skip(self, seconds: float) -> None:
        """Advance the clock past a pause."""
        self._now_seconds += seconds


class _Impatient(selectors.DefaultSelector):
    """Makes a loop skip its pauses."""

    def __init__(self, loop: SteadyLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        self._loop.skip(timeout)
        return super().select(0)
