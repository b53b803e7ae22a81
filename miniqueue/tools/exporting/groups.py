"""The groups of a topic, and the messages that each group has finished; an export needs both before the first message.

    CURSOR GAP BITMAP GROUP GROUP_PURGE ─▶ names ─▶ a chunk: groups that need some of its messages, and which

A group has finished all messages before its cursor, and those in its gaps. Keys of a deleted group can remain; it
is not a group. This module knows neither keys nor values of the store.
"""

from bisect import bisect_right

from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.names import DEFAULT_GROUP_NAME


class SequenceRuns:
    """Runs of sequence numbers, added in ascending order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Add the sequence numbers from `start` to before `stop`."""
        self._starts.append(start)
        self._stops.append(stop)

    def __contains__(self, seq: int) -> bool:
        """Whether a sequence number is in one of the runs."""
        run = bisect_right(self._starts, seq) - 1
        return run >= 0 and seq < self._stops[run]


class ExportGroups:
    """The groups of one topic: first pass what is stored of them, then ask."""

    def __init__(self) -> None:
        self._entered: dict[int, bytes] = {}
        self._purged: set[int] = set()
        self._finished: dict[tuple[int, int], SequenceRuns] = {}  # key: partition and group id
        self._bitmaps: dict[tuple[int, int, int], int] = {}  # key: also first_seq of the chunk
        self._names: dict[int, bytes] = {}

    def enter(self, group_id: int, name: bytes) -> None:
        """Take the entry of a group."""
        self._entered[group_id] = name

    def purge(self, group_id: int) -> None:
        """Take a deleted group."""
        self._purged.add(group_id)

    def finish(self, partition: int, group_id: int, start: int, stop: int) -> None:
        """Take a run of messages that a group has finished, in ascending order; an empty run: the group exists."""
        self._finished.setdefault((partition, group_id), SequenceRuns()).add(start, stop)

    def settle(self, partition: int, group_id: int, first_seq: int, bits: int) -> None:
        """Take the settled bits of a chunk."""
        self._bitmaps[partition, group_id, first_seq] = bits

    @property
    def names(self) -> dict[int, bytes]:
        """The names by group id, the default group first; never empty."""
        if not self._names:
            self._names = self._numbered()
        return self._names

    @property
    def is_default_alone(self) -> bool:
        """Whether the default group is the only group."""
        return [*self.names.values()] == [DEFAULT_GROUP_NAME]

    def _numbered(self) -> dict[int, bytes]:
        ids, names = {group_id for _, group_id in self._finished}, dict(self._entered)
        if DEFAULT_GROUP_NAME not in names.values() and DEFAULT_GROUP in ids - self._purged:
            names[DEFAULT_GROUP] = DEFAULT_GROUP_NAME
        if not names:  # the entry of the only group cannot be read
            names[min(ids - self._purged, default=DEFAULT_GROUP)] = DEFAULT_GROUP_NAME
        return dict(sorted(names.items(), key=lambda item: (item[1] != DEFAULT_GROUP_NAME, item[0])))

    def unfinished_in(self, partition: int, first_seq: int) -> list[tuple[bytes, int]]:
        """Return the groups that have not finished a chunk, each with its settled bits of the chunk."""
        return [
            (name, self._bitmaps.pop((partition, group_id, first_seq), 0))
            for group_id, name in self.names.items()
            if first_seq not in self._finished.get((partition, group_id), ())
        ]

    def of(self, names: list[bytes]) -> list[bytes]:
        """Return the groups to name in the line of a message: none if all groups need it."""
        return [] if len(names) == len(self.names) else names
