"""The clock of the sessions and handovers of members: it stops while the broker does not serve its clients.

    read at each tick, and by each act ─▶ the time since the last reading counts
                                            └ unless there was a gap, or the store is closed

A member cannot settle messages while the process is stopped, its event loop stalls, or the store is closed. Without
this clock, correct members would lose their messages and partitions at such times.
"""

from miniqueue.broker.commit.admission import Admission
from miniqueue.broker.runtime.clock import Clock, is_gap


class MemberClock:
    """A monotonic clock that stops while the broker does not serve its clients.

    Args:
      clock: measures the time.
      admission: reports whether the store is open.
      period_seconds: the time between two ticks; each tick reads this clock.
    """

    def __init__(self, clock: Clock, admission: Admission, period_seconds: float) -> None:
        self._clock = clock
        self._admission = admission
        self._period_seconds = period_seconds
        self._read_at = clock.monotonic()
        self._left_out_seconds = 0.0

    def now(self) -> float:
        """Return the seconds since a fixed time in the past, without the time that does not count."""
        now = self._clock.monotonic()
        elapsed_seconds, self._read_at = now - self._read_at, now
        if not self._admission.is_open or is_gap(elapsed_seconds, self._period_seconds):
            self._left_out_seconds += elapsed_seconds
        return now - self._left_out_seconds

    def skip(self) -> None:
        """Leave out the time since the last reading: the store was closed until now."""
        now = self._clock.monotonic()
        self._left_out_seconds += now - self._read_at
        self._read_at = now
