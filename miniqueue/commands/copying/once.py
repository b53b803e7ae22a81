"""A copy that ends: everything that the topics contain when it begins.

    ping both ─▶ prepare the topics ─▶ count ─▶ round after round, until all is copied ─▶ release, end
                 └──────────── a broker that is lost meanwhile is waited for, without a limit ───────┘

A broker that does not reply at first is an error: its address may be wrong.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, TypeAlias, TypeVar

from miniqueue.commands.copying.copying import Copying
from miniqueue.commands.shell.outage import Outage
from miniqueue_client import ClientError
from miniqueue_client.calls.errors import UntrustedError, is_passing

T = TypeVar("T")

#: Shows progress while its block runs: gets the number of messages in all, and yields what counts those that are done.
Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]
_FIRST_PAUSE_SECONDS: Final = 0.2
_MAX_PAUSE_SECONDS: Final = 5.0


class Patience:
    """Repeats acts after errors that pass, with pauses that double.

    Args:
      outage: says that a broker is lost.
      sleep: waits for some seconds.
    """

    def __init__(self, outage: Outage, sleep: Callable[[float], None]) -> None:
        self._outage = outage
        self._sleep = sleep

    def repeat(self, act: Callable[[], T]) -> T:
        """Call `act` until it raises no error that passes; raises others."""
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            try:
                result = act()
            except ClientError as exc:
                if not is_passing(exc) or isinstance(exc, UntrustedError):
                    raise
                self._outage.say(exc)
                self._sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 2, _MAX_PAUSE_SECONDS)
            else:
                self._outage.end()
                return result


def copy_once(copying: Copying, progress: Progress, patience: Patience) -> None:
    """Copy what the topics contain now; raises ClientError.

    Args:
      copying: the copy, which has not begun.
      progress: shows how far it is.
      patience: waits for a broker that is lost.
    """
    copying.ping()
    patience.repeat(copying.refresh)
    patience.repeat(copying.survey)
    with progress(copying.remaining) as advance:
        while before := copying.remaining:
            patience.repeat(copying.round)
            advance(before - copying.remaining)
    patience.repeat(copying.release)
    patience.repeat(copying.end)
