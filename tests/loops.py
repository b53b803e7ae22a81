"""An event loop whose time does not advance while the machine stalls, or does something else.

    a wait of the loop itself      counts for as long as it was asked to wait, at most
    all other work, each time      counts for as long as it takes, at most `MOST_SECONDS`

So seconds in a test are those of what waits on this loop, whatever the load of the machine.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

T = TypeVar("T")

#: Far more than a turn takes.
MOST_SECONDS = 0.05
#: By which a selector may round up.
_ROUNDED_SECONDS = 0.001


def on_loop(factory: Callable[[], asyncio.AbstractEventLoop]) -> pytest.MarkDecorator:
    """Mark an async test that runs on a loop made by `factory`, with its fixtures."""
    return pytest.mark.on_loop(factory=factory)


class _Clock:
    """Seconds, of each stretch between two notes no more than was allowed for it."""

    def __init__(self) -> None:
        self._noted_at = time.monotonic()
        self._seconds = self._noted_at

    def now(self) -> float:
        return self._seconds + min(time.monotonic() - self._noted_at, MOST_SECONDS)

    def note(self, most_seconds: float) -> None:
        """End a stretch."""
        now = time.monotonic()
        self._seconds += min(now - self._noted_at, most_seconds)
        self._noted_at = now


class _Selector(selectors.DefaultSelector):
    """Tells the clock how long it was asked to wait."""

    def __init__(self, clock: _Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._clock.note(MOST_SECONDS)
        found = super().select(timeout)
        self._clock.note(MOST_SECONDS if timeout is None else max(timeout, 0.0) + _ROUNDED_SECONDS)
        return found


class CalmLoop(asyncio.SelectorEventLoop):
    """A loop on which only waiting takes time."""

    def __init__(self) -> None:
        self._calm = _Clock()
        super().__init__(_Selector(self._calm))

    def time(self) -> float:
        return self._calm.now()


def run_calmly(scenario: Coroutine[object, object, T]) -> T:
    """Do what `asyncio.run` does, on a calm loop."""
    with asyncio.Runner(loop_factory=CalmLoop) as runner:
        return runner.run(scenario)


class _LeapingSelector(selectors.DefaultSelector):
    """Waits for no timer: time leaps to it."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not timeout:
            return super().select(timeout)
        found = super().select(0)
        if not found:
            self.seconds += timeout
        return found


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next timer when nothing else is left to do; not for threads or sockets."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.seconds
