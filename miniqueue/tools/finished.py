"""Which parts of a log a group is done with: all in front of its cursor, and its gaps."""

from bisect import bisect_right


class Finished:
    """Runs of numbers, added in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Add the numbers from `start` to before `stop`."""
        self._starts.append(start)
        self._stops.append(stop)

    def __contains__(self, seq: int) -> bool:
        """Whether a number is in one of the runs."""
        run = bisect_right(self._starts, seq) - 1
        return run >= 0 and seq < self._stops[run]
