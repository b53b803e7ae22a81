"""How far a copy is behind its original, in seconds; both sides of a copy that follows use it.

    original, at 10.0 s: change 70 is the last ─▶ the copy reaches change 70 ─▶ it contains everything of 10.0 s

Knows neither stores nor connections; the caller passes the time.
"""

from math import ceil


class CopyLag:
    """The moment of which a copy is complete.

    Args:
      complete_of: the moment at first, in seconds; None if it is unknown.
    """

    def __init__(self, complete_of: float | None = None) -> None:
        self._complete_of = complete_of
        self._aim: tuple[int, float] | None = None

    def aim(self, change: int, at: float) -> None:
        """Note that `change` was the last one of the original at a time; ignored until the previous aim is reached."""
        if self._aim is None:
            self._aim = change, at

    def reach(self, change: int) -> None:
        """Note that the copy contains everything up to `change`."""
        if self._aim is not None and change >= self._aim[0]:
            self._complete_of = self._aim[1]
            self._aim = None

    def seconds(self, now: float) -> float | None:
        """Return how old the moment is of which the copy is complete, to milliseconds; None if it is unknown."""
        return None if self._complete_of is None else max(0.0, ceil((now - self._complete_of) * 1000) / 1000)
