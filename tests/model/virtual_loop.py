"""An event loop whose time stands still until a test advances it, and that can run until nothing is left to do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

MAX_TURNS = 5000  # some dozens is usual


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks as asyncio does; timers by `pass_time`.

    Args:
      is_busy: whether a thread has yet to report to this loop.

    Attributes:
      max_turns: until everything rests.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._now_seconds = 0.0
        self._is_busy = is_busy
        self.max_turns = MAX_TURNS
        super().__init__()

    def time(self) -> float:
        return self._now_seconds

    def run_until_idle(self) -> None:
        self._turns_left = self.max_turns
        self.call_soon(self._stop_when_idle)
        self.run_forever()
        assert self._turns_left, "this never comes to rest"

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work`, and whatever else there is."""
        task = self.create_task(work)
        self.run_until_idle()
        return task.result()

    def pass_time(self, seconds: float) -> None:
        """Advance the time from one timer to the next, and run everything that is due at each."""
        end_seconds = self._now_seconds + seconds
        while self._scheduled and (due_seconds := self._scheduled[0].when()) <= end_seconds:
            self._now_seconds = max(self._now_seconds, due_seconds)
            self._turn()
        self._now_seconds = end_seconds

    def _turn(self) -> None:
        self.call_soon(lambda: None)  # the loop looks for timers once, before it runs this
        self.call_soon(self.stop)
        self.run_forever()
        self.run_until_idle()

    def abandon(self) -> None:
        """End every task and timer, as the end of a process does; also those that others begin over it."""
        while tasks := asyncio.all_tasks(self):
            for task in tasks:
                task.cancel()
            self.run_until_idle()
        for timer in self._scheduled:  # or a broker that is dead would go on in the time of the next one
            timer.cancel()

    def _stop_when_idle(self) -> None:
        if not self._ready and self._is_busy():
            self._process_events(self._selector.select())  # like the loop itself, until the thread reports
        self._turns_left -= 1
        if self._ready and self._turns_left:
            self.call_soon(self._stop_when_idle)
        else:
            self.stop()
