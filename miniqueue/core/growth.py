"""What keeps a key in order when its topic is given more partitions: what was there before goes first.

A key may choose another partition among more of them. What is published from then on must not overtake what is older:

    1 partition     0  ▮▮▮▮▮▮│▯▯▯      ▮ before, ▯ behind: after partitions were added
    3 partitions    1        │▯▯       ▯ of a partition waits until all ▮ are settled in those that its keys may come
                    2        │▯▯▯▯       from: with `n` partitions before and `m` now, those whose numbers are the same
                                         modulo gcd(n, m)

Where partitions are doubled, or multiplied, those that were there wait for nothing: only their own keys stay in them.
Otherwise an old one waits as well. It is the same with each growth, as long as something older is there; a lane waits
for lanes of its own priority. Each group waits by itself.

Nothing of this is kept but where logs ended: what is settled, cursors know.
"""

from collections.abc import Mapping, Sequence
from math import gcd, inf
from typing import Final, NamedTuple

from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lanes import partition_of, priority_of
from miniqueue.core.lease import Range
from miniqueue.core.publish_options import Priority

#: So many growths are known of a topic; of more the first are forgotten.
MAX_GROWTHS: Final = 64

_ALL_PLACES: Final = (Range.FRONT, Range.DELAYED, Range.BACK)


class Growth(NamedTuple):
    """That a topic was given more partitions.

    Attributes:
      partition_count: how many there were before.
      ends: where the log of each partition, or lane, ended then, by its number; at 0 if it is not named.
    """

    partition_count: int
    ends: Mapping[int, int]


class _Wait:
    """That some logs go no further than where they ended, before others are settled up to there."""

    def __init__(self, growth: Growth, cursors: Sequence[GroupCursor]) -> None:
        ends = [(cursor, growth.ends.get(cursor.partition, 0)) for cursor in cursors]
        self._olds = [(cursor, end_seq) for cursor, end_seq in ends if end_seq]
        sole = self._olds[0][0] if len(self._olds) == 1 else None  # its own order is that of its log
        self.held = [(cursor, end_seq) for cursor, end_seq in ends if cursor is not sole]
        self._in_the_way: cursor_view.CameBack | None = None

    def is_over(self, places: Sequence[Range]) -> bool:
        """Whether everything older is settled; what came back counts in these places."""
        while self._olds:
            cursor, end_seq = self._olds[-1]
            if cursor.tail_seq < end_seq:
                return False  # it is not committed yet
            if cursor.depth and not self._is_settled(cursor, end_seq, places):  # else nobody loads what came back
                return False
            self._olds.pop()
            self._in_the_way = None
        return True

    def _is_settled(self, cursor: GroupCursor, end_seq: int, places: Sequence[Range]) -> bool:
        if self._in_the_way is not None and cursor_view.is_there(cursor, self._in_the_way):
            return False
        if not (cursor_view.is_log_settled(cursor, end_seq) and cursor_view.is_known(cursor, places)):
            return False
        self._in_the_way = cursor_view.returned_before(cursor, end_seq, places)
        return self._in_the_way is None


class OldFirst:
    """Holds back what must not overtake, in the logs of one group; they are read up to there and no further.

    Args:
      growths: of the topic, the first one first.
      partition_count: how many partitions there are now.
      cursors: of the group.
      is_ordered: whether keys are: then what is delayed, or waits at the back, is waited for, too.
    """

    def __init__(
        self, growths: Sequence[Growth], partition_count: int, cursors: Sequence[GroupCursor], *, is_ordered: bool
    ) -> None:
        self._places = _ALL_PLACES if is_ordered else _ALL_PLACES[:1]
        self._cursors = cursors
        self._waits: list[_Wait] = []
        modulus = partition_count
        for growth in reversed(growths):
            modulus = gcd(modulus, growth.partition_count)
            self._waits += [_Wait(growth, related) for related in _related(cursors, modulus)]
        self._waits = [wait for wait in self._waits if not wait.is_over(self._places)]
        self._hold()

    @property
    def is_over(self) -> bool:
        """Whether nothing is held back any more."""
        return not self._waits

    @property
    def held(self) -> set[int]:
        """The numbers of partitions of which something is held back."""
        return {cursor.partition for cursor in self._cursors if cursor.log.stop < cursor.tail_seq}

    def look(self) -> bool:
        """Let go on what may by now; return whether anything may."""
        left = [wait for wait in self._waits if not wait.is_over(self._places)]
        has_changed = len(left) < len(self._waits)
        if has_changed:
            self._waits = left
            self._hold()
        return has_changed

    def end(self) -> None:
        """Hold nothing back."""
        self._waits = []
        self._hold()

    def _hold(self) -> None:
        stops: dict[GroupCursor, float] = dict.fromkeys(self._cursors, inf)
        for wait in self._waits:
            for cursor, end_seq in wait.held:
                stops[cursor] = min(stops[cursor], end_seq)
        for cursor, stop in stops.items():
            cursor.log.stop = stop
            if cursor.keyed is not None:  # what is known may be behind it, where keys were not ordered before
                cursor.keyed.turns.hold(stop)


def _related(cursors: Sequence[GroupCursor], modulus: int) -> list[list[GroupCursor]]:
    """Return those together between which a key may move."""
    found: dict[tuple[Priority, int], list[GroupCursor]] = {}
    for cursor in cursors:
        place = priority_of(cursor.partition), partition_of(cursor.partition) % modulus
        found.setdefault(place, []).append(cursor)
    return [*found.values()]
