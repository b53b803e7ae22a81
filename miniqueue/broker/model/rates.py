"""The recent activity of one topic; `inspect.rates` measures it."""

from collections.abc import Callable
from typing import NamedTuple

from miniqueue.core.cursor.lease import ChunkLease, Lease
from miniqueue.core.statistics import Activity, Latencies


class Counters(NamedTuple):
    """Counts of what happened in a topic, from an arbitrary start: only differences are meaningful."""

    publish: int
    deliver: int
    ack: int
    return_: int

    def since(self, earlier: "Counters") -> list[int]:
        """Return how much each count has grown since `earlier`; 0 if the topic was recreated."""
        return [max(0, now - then) for now, then in zip(self, earlier, strict=True)]


class GroupRate:
    """The recent acknowledgments of one group: as of the last measurement, and tick by tick."""

    __slots__ = ("activity", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.activity = Activity(1)


class TopicRates:
    """The recent activity of one topic.

    Args:
      wanted: see below.
      seen: see below.
      time: called with the commit time of delivered messages, in milliseconds since 1970.

    Attributes:
      wanted: number of deliveries that are still to be timed in this second.
      seen: the counters as of the last measurement.
      groups: the same of each group by its id, if there are several, and something happened in the last minute.
      oldest: a key for what was settled at the time of an inspection, and the publish time of the oldest message then.
    """

    __slots__ = ("_time", "activity", "groups", "latencies", "oldest", "seen", "wanted")

    def __init__(self, wanted: int, seen: Counters, time: Callable[[int], None]) -> None:
        self._time = time
        self.wanted = wanted
        self.seen = seen
        self.oldest: tuple[tuple[object, ...], int | None] | None = None
        self.activity: Activity | None = None
        self.groups: dict[int, GroupRate] = {}
        self.latencies: Latencies | None = None

    def handed_out(self, lease: Lease) -> None:
        """Time the delivery of messages that were never returned: from their commit to now."""
        self.wanted -= 1
        if isinstance(lease, ChunkLease):
            self._time(lease.progress.chunk.committed_at_ms)
