"""Where the log has gone while something before it is still open.

A chunk is deleted as soon as it is finished, whatever is still open before it. What is left is a gap: without a
note of it, a restart that reads from the oldest open chunk on could not tell it from damage.

    log:     [open] ░░finished░░ [open] ░░finished░░░░░░ [unread] …      head_seq: the oldest open chunk
    gaps:           start ─▶ stop       start ─▶ stop

Gaps that touch are one, and none lies before head_seq, so there are never more of them than open chunks.
"""


class Gaps:
    """The gaps of one group in one partition.

    Args:
      stops: for each gap, the sequence number after its last message, by that of its first.
    """

    __slots__ = ("_starts", "_stops")

    def __init__(self, stops: dict[int, int]) -> None:
        self._stops = stops
        self._starts = {stop: start for start, stop in stops.items()}

    def end_of(self, seq: int) -> int:
        """Return where the gap that begins at `seq` ends, or `seq` when none does."""
        return self._stops.get(seq, seq)

    def covers(self, seq: int) -> bool:
        """Whether `seq` lies in a gap."""
        return any(start <= seq < stop for start, stop in self._stops.items())

    def runs(self) -> list[tuple[int, int]]:
        """Return the gaps, the first one first."""
        return sorted(self._stops.items())

    def add(self, start: int, stop: int, head_seq: int) -> dict[int, int | None]:
        """Note that the messages from `start` to before `stop` are finished, and those before `head_seq`.

        Returns:
          What to write: the stop of a gap by its start, None to delete its entry.
        """
        changes: dict[int, int | None] = {}
        if stop in self._stops:
            changes[stop] = None
            stop = self._stops.pop(stop)
        start = self._starts.pop(start, start)
        if stop > head_seq:
            self._stops[start] = changes[start] = stop
            self._starts[stop] = start
            return changes
        self._starts.pop(stop, None)
        if self._stops.pop(start, None) is not None:
            changes[start] = None
        return changes
