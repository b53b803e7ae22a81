"""Signals that end a consumer in order: the first one lets it finish the message in hand, the second one does not.

SIGINT, SIGTERM, SIGHUP ─▶ `is_asked`: no more messages are received ─▶ messages in hand are settled ─▶ exit code
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from miniqueue.interrupts import Interrupted

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Whether the command is to end, and why."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._number = 0

    @property
    def is_asked(self) -> bool:
        """Whether the command is to end."""
        return self._asked.is_set()

    def ask(self, number: int) -> None:
        """Ask the command to end, because of a signal."""
        self._number = number
        self._asked.set()

    def finish(self) -> None:
        """Ask the command to end, although no signal has arrived."""
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Return after a time, or when a signal arrives."""
        self._asked.wait(seconds)

    def raise_if_asked(self) -> None:
        """Raise Interrupted if a signal has arrived: the exit code contains its number."""
        if self._number:
            raise Interrupted(self._number)


@contextmanager
def stopping_on_signals() -> Iterator[Stopping]:
    """Yield a `Stopping`, whose first signal is recorded; a second one has its former effect."""
    stopping = Stopping()
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _SIGNALS if is_main}
    handled = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in handled.items():
            signal.signal(number, handler)

    first = threading.Lock()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if first.acquire(blocking=False):
            restore()
            stopping.ask(number)
        elif callable(former := handled[signal.Signals(number)]):
            former(number, frame)  # a second signal has come before all handlers were restored

    for number in handled:
        signal.signal(number, on_signal)
    try:
        yield stopping
    finally:
        restore()
