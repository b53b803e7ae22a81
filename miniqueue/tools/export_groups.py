"""Which groups a topic has, and what each of them is done with: what an export must know before the first message.

    CURSOR GAP BITMAP GROUP GROUP_PURGE ─▶ names ─▶ a chunk: who still is to get some of it, and what not

A group that is deleted may have left keys; it is none. It knows neither keys nor values of the store.
"""

from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.partition import DEFAULT_GROUP
from miniqueue.tools.finished import Finished


class ExportGroups:
    """The groups of one topic; first what is stored of them, then questions."""

    def __init__(self) -> None:
        self._entered: dict[int, bytes] = {}
        self._purged: set[int] = set()
        self._finished: dict[tuple[int, int], Finished] = {}  # by partition and group id
        self._bitmaps: dict[tuple[int, int, int], int] = {}  # the same, and the first number of the chunk
        self._names: dict[int, bytes] = {}

    def enter(self, group_id: int, name: bytes) -> None:
        """Take the entry of a group."""
        self._entered[group_id] = name

    def purge(self, group_id: int) -> None:
        """Take that a group is deleted."""
        self._purged.add(group_id)

    def finish(self, partition: int, group_id: int, start: int, stop: int) -> None:
        """Take a run of numbers that a group is done with, in their order; an empty one says that it is there."""
        self._finished.setdefault((partition, group_id), Finished()).add(start, stop)

    def settle(self, partition: int, group_id: int, first_seq: int, bits: int) -> None:
        """Take the settled bits of a chunk."""
        self._bitmaps[partition, group_id, first_seq] = bits

    @property
    def names(self) -> dict[int, bytes]:
        """The names by their ids, that of the default group first; there is one at least."""
        if not self._names:
            self._names = self._found()
        return self._names

    @property
    def is_default_alone(self) -> bool:
        """Whether nobody else reads the topic."""
        return [*self.names.values()] == [DEFAULT_GROUP_NAME]

    def _found(self) -> dict[int, bytes]:
        ids, names = {group_id for _, group_id in self._finished}, dict(self._entered)
        if DEFAULT_GROUP_NAME not in names.values() and DEFAULT_GROUP in ids - self._purged:
            names[DEFAULT_GROUP] = DEFAULT_GROUP_NAME
        if not names:  # as its entry cannot be read
            names[min(ids - self._purged, default=DEFAULT_GROUP)] = DEFAULT_GROUP_NAME
        return dict(sorted(names.items(), key=lambda item: (item[1] != DEFAULT_GROUP_NAME, item[0])))

    def left_in(self, partition: int, first_seq: int) -> list[tuple[bytes, int]]:
        """Return the groups that are not done with a chunk, each with its settled bits there."""
        return [
            (name, self._bitmaps.pop((partition, group_id, first_seq), 0))
            for group_id, name in self.names.items()
            if first_seq not in self._finished.get((partition, group_id), ())
        ]

    def of(self, names: list[bytes]) -> list[bytes]:
        """Return what a line says of those who still are to get a message: nothing where all are."""
        return [] if len(names) == len(self.names) else names
