"""Signals that end the command, handled from its first line on.

    SIGTERM, SIGHUP ─▶ Interrupted ─▶ unfinished files are removed while it propagates ─▶ exit code 128 + number

The kernel gives process 1, as in a container, no default action: a signal without a handler is lost. So the handlers
are installed before everything else is imported, and this module imports almost nothing. Python handles SIGINT itself.
SIGHUP is blocked until `admit_hangup`: on SIGHUP, a broker reloads its users, which must be possible first.
"""

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_SHELL_OFFSET = 128  # shells add this to the number of the signal


class Interrupted(KeyboardInterrupt):
    """A signal has asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interrupts:
    """A context in which signals raise Interrupted; in the main thread only, since others cannot handle signals."""

    def __enter__(self) -> None:
        """Install the handlers, except for signals that the parent process has set to be ignored."""
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
        """Restore the previous handlers and the signal mask."""
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def admit_hangup() -> None:
    """Unblock SIGHUP; one that has arrived since the start is delivered now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code for a process that a signal ended."""
    return _SHELL_OFFSET + (interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for handled in _SIGNALS:
        signal.signal(handled, signal.SIG_IGN)  # a second signal must not interrupt the removal of unfinished files
    raise Interrupted(number)
