"""Signals that end the command, from its first line on.

    SIGTERM, SIGHUP ─▶ Interrupted ─▶ what is unfinished is removed on the way out ─▶ exit code 128 + number

The kernel gives process 1, as in a container, no default action: a signal without a handler is lost. So the handlers
are there before everything else is imported, and this module imports next to nothing. SIGINT has Python's own handler.
SIGHUP waits until `admit_hangup`: a broker reads its users again on it, as soon as it can.
"""

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_OF_SHELLS = 128  # what shells add to the number of the signal


class Interrupted(KeyboardInterrupt):
    """A signal has asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interrupts:
    """While entered, signals raise Interrupted, in the main thread; another thread cannot handle signals."""

    def __enter__(self) -> None:
        """Install the handlers, except for signals that whoever started the process wants ignored."""
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in _SIGNALS:
            if (before := signal.getsignal(number)) is not signal.SIG_IGN:
                try:
                    signal.signal(number, _interrupt)
                except ValueError:  # not in the main thread
                    return
                self._before[number] = before
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Have signals do what they did before."""
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def admit_hangup() -> None:
    """Let SIGHUP in, also one that has come since the start."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code for a process that a signal ended."""
    return _OF_SHELLS + (interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)  # another one must not interrupt the removal of what is unfinished
    raise Interrupted(number)
