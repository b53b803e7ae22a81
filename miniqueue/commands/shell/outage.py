"""Says that a broker is waited for: each error once, until the broker replies again.

lost ─▶ a line on standard error ─▶ the same error again: nothing ─▶ it replies ─▶ lost again ─▶ a line
"""

import threading
from collections.abc import Callable


class Outage:
    """What was said of a broker that is lost; threads can share it.

    Args:
      warn: says something to a person.
      what_follows: what the command does, such as `trying again`.
    """

    def __init__(self, warn: Callable[[str], None], what_follows: str = "waiting for the broker") -> None:
        self._warn = warn
        self._what_follows = what_follows
        self._lock = threading.Lock()
        self._said = ""

    def say(self, error: Exception) -> None:
        """Say what failed, unless it was the last that was said."""
        text = str(error).rstrip(".")
        with self._lock:
            if text != self._said:
                self._said = text
                self._warn(f"{text}; {self._what_follows}")

    def end(self) -> None:
        """Note that the broker has replied."""
        self._said = ""
