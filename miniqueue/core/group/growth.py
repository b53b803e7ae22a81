"""Order of keys after partitions were added to a topic: older messages are delivered first.

With more partitions, a key may map to another partition. Messages that are published after the growth must not
overtake older ones:

    1 partition     0  ▮▮▮▮▮▮│▯▯▯      ▮ published before the growth, ▯ after it
    3 partitions    1        │▯▯       the ▯ of a partition wait until all ▮ are settled in the partitions that its
                    2        │▯▯▯▯       keys may come from: with `n` partitions before and `m` now, those whose
                                         numbers are equal modulo gcd(n, m)

If the number of partitions is doubled, or multiplied, the old partitions do not wait: they receive no other keys than
before. Otherwise an old partition waits too. This applies to each growth, as long as older messages are left. A lane
waits for lanes of its own priority; each group waits by itself.

Only the ends of the logs at each growth are stored; the cursors contain what is settled. There may be thousands of
cursors: no line of Python runs for each of them, except for those with older messages.
"""

from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from math import gcd, inf
from operator import attrgetter
from typing import Final, NamedTuple

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range
from miniqueue.core.cursor.many import set_each
from miniqueue.core.group import view
from miniqueue.core.group.turns import by_priority
from miniqueue.core.keyed.reader import with_reader
from miniqueue.core.message.lanes import partition_of

_log, _partition = attrgetter("log"), attrgetter("partition")

#: Maximum number of growths that a topic remembers; of more, the oldest are forgotten, to keep the list of waits short.
MAX_GROWTHS: Final = 64


class Growth(NamedTuple):
    """An increase of the number of partitions of a topic.

    Attributes:
      partition_count: the number of partitions before.
      ends: the end of each log, by the number of the partition or lane; 0 if a number is missing.
    """

    partition_count: int
    ends: Mapping[int, int]


class _Wait:
    """A wait of some logs, from their ends at a growth on, until other logs are settled up to their ends."""

    def __init__(self, growth: Growth, cursors: Sequence[GroupCursor]) -> None:
        ends = [*map(growth.ends.get, map(_partition, cursors), repeat(0))]
        self._olds = [*compress(zip(cursors, ends, strict=True), ends)]
        self.held = dict(zip(cursors, ends, strict=True))
        if len(self._olds) == 1:
            del self.held[self._olds[0][0]]  # its log alone keeps its order
        self._in_the_way: view.ReturnedMessage | None = None

    def is_over(self, ranges: Sequence[Range]) -> bool:
        """Whether all older messages are settled; returned messages count if they are in one of `ranges`."""
        while self._olds:
            cursor, end_seq = self._olds[-1]
            if cursor.tail_seq < end_seq:
                return False  # it is not committed yet
            # An empty cursor is settled; its ranges may not be loaded, as no consumer takes from it.
            if cursor.depth and not self._is_settled(cursor, end_seq, ranges):
                return False
            self._olds.pop()
            self._in_the_way = None
        return True

    def _is_settled(self, cursor: GroupCursor, end_seq: int, ranges: Sequence[Range]) -> bool:
        if self._in_the_way is not None and view.is_there(cursor, self._in_the_way):
            return False
        if not (view.is_log_settled(cursor, end_seq) and view.is_known(cursor, ranges)):
            return False
        self._in_the_way = view.returned_before(cursor, end_seq, ranges)
        return self._in_the_way is None


class OldFirst:
    """Holds back messages that must not overtake older ones, by setting the stops of the logs of one group.

    Args:
      growths: the growths of the topic, oldest first.
      partition_count: the current number of partitions.
      cursors: the cursors of the group.
      is_ordered: whether keys are ordered; then messages in DELAYED and BACK are waited for, too.
    """

    def __init__(
        self, growths: Sequence[Growth], partition_count: int, cursors: Sequence[GroupCursor], *, is_ordered: bool
    ) -> None:
        self._ranges = RETURN_RANGES if is_ordered else RETURN_RANGES[:1]
        self._cursors = cursors
        self._waits: list[_Wait] = []
        modulus = partition_count
        for growth in reversed(growths):
            modulus = gcd(modulus, growth.partition_count)
            self._waits += [_Wait(growth, related) for related in _related(cursors, modulus)]
        self._waits = [wait for wait in self._waits if not wait.is_over(self._ranges)]
        self._hold()

    @property
    def is_over(self) -> bool:
        """Whether nothing is held back."""
        return not self._waits

    @property
    def held(self) -> set[int]:
        """The numbers of the partitions with messages that are held back."""
        return {cursor.partition for cursor in self._cursors if cursor.log.stop < cursor.tail_seq}

    def look(self) -> bool:
        """End the waits whose older messages are settled; return whether there were any."""
        remaining = [wait for wait in self._waits if not wait.is_over(self._ranges)]
        has_changed = len(remaining) < len(self._waits)
        if has_changed:
            self._waits = remaining
            self._hold()
        return has_changed

    def end(self) -> None:
        """Remove all stops."""
        self._waits = []
        self._hold()

    def _hold(self) -> None:
        stops: dict[GroupCursor, float] = dict.fromkeys(self._cursors, inf)
        for wait in self._waits:
            stops.update(zip(wait.held, map(min, map(stops.__getitem__, wait.held), wait.held.values()), strict=True))
        set_each(map(_log, stops), "stop", stops.values())
        # If keys were not ordered before, messages after the stop may be indexed already.
        for cursor, reader in with_reader(self._cursors):
            reader.turns.hold(stops[cursor])


def _related(cursors: Sequence[GroupCursor], modulus: int) -> list[Sequence[GroupCursor]]:
    """Return the sets of cursors among which a key may move."""
    related: list[Sequence[GroupCursor]] = []
    for lane in by_priority(cursors):
        if lane[-1].partition - lane[0].partition == len(lane) - 1:  # usually each partition has one
            related += [lane[start::modulus] for start in range(min(modulus, len(lane)))]
        else:
            families: dict[int, list[GroupCursor]] = {}
            for cursor in lane:
                families.setdefault(partition_of(cursor.partition) % modulus, []).append(cursor)
            related += families.values()
    return related
