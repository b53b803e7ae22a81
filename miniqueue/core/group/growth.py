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

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress, filterfalse, repeat
from math import gcd, inf
from operator import attrgetter, eq, ge, itemgetter, methodcaller, or_, sub
from typing import Final, NamedTuple, TypeAlias

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range
from miniqueue.core.cursor.many import set_each
from miniqueue.core.group import view
from miniqueue.core.group.turns import by_priority
from miniqueue.core.keyed.reader import with_reader
from miniqueue.core.message.lanes import partition_of

_log, _partition = attrgetter("log"), attrgetter("partition")
_tail_seq, _acked_count, _dropped_count = attrgetter("tail_seq"), attrgetter("acked_count"), attrgetter("dropped_count")
_olds, _held, _items = attrgetter("olds"), attrgetter("held"), methodcaller("items")
_first, _second, _last = itemgetter(0), itemgetter(1), itemgetter(-1)

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


#: A cursor, and the end of its log at a growth.
_Log: TypeAlias = tuple[GroupCursor, int]


class _Wait:
    """A wait of some logs, from their ends at a growth on, until other logs are settled up to their ends.

    Args:
      logs: the cursors among which a key may have moved, and the ends of their logs at the growth.

    Attributes:
      olds: the logs that are not known to be settled, and their ends; `is_over` looks at the last one first.
      held: the logs that wait, and their ends.
    """

    __slots__ = ("_in_the_way", "held", "olds")

    def __init__(self, logs: Sequence[_Log]) -> None:
        self.olds = [*filter(_second, logs)]
        self.held = dict(logs)
        if len(self.olds) == 1:
            del self.held[self.olds[0][0]]  # its log alone keeps its order
        self._in_the_way: view.ReturnedMessage | None = None

    def is_over(self, ranges: Sequence[Range]) -> bool:
        """Whether all older messages are settled; returned messages count if they are in one of `ranges`."""
        while self.olds:
            cursor, end_seq = self.olds[-1]
            if cursor.tail_seq < end_seq:
                return False  # it is not committed yet
            # An empty cursor is settled; its ranges may not be loaded, as no consumer takes from it.
            if cursor.depth and not self._is_settled(cursor, end_seq, ranges):
                return False
            self.olds.pop()
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
        self._growths, self._partition_count = tuple(growths), partition_count
        self._cursors = cursors
        self._waits: list[_Wait] = []
        modulus = partition_count
        for growth in reversed(growths):
            modulus = gcd(modulus, growth.partition_count)
            self._waits += filter(_olds, map(_Wait, _related(cursors, growth, modulus)))
        self._end_waits()
        self.hold()

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
        has_changed = self._end_waits()
        if has_changed:
            self.hold()
        return has_changed

    def _end_waits(self) -> bool:
        over = [wait for wait in compress(self._waits, _may_be_over(self._waits)) if wait.is_over(self._ranges)]
        if over:
            self._waits = [*filterfalse(set(over).__contains__, self._waits)]
        return bool(over)

    def end(self) -> None:
        """Remove all stops."""
        self._waits = []
        self.hold()

    def is_for(
        self, growths: Sequence[Growth], partition_count: int, cursors: Sequence[GroupCursor], *, is_ordered: bool
    ) -> bool:
        """Whether another object with these arguments would hold back the same; there may be thousands of waits."""
        is_same = self._cursors is cursors and self._partition_count == partition_count
        return is_same and self._growths == tuple(growths) and is_ordered == (self._ranges is RETURN_RANGES)

    def hold(self) -> None:
        """Set the stops of the logs."""
        # Of several stops of a cursor, the first one counts, which is the last in this order.
        held = sorted(chain.from_iterable(map(_items, map(_held, self._waits))), key=_second, reverse=True)
        stops: dict[GroupCursor, float] = dict.fromkeys(self._cursors, inf) | dict(held)
        set_each(map(_log, stops), "stop", stops.values())
        # If keys were not ordered before, messages after the stop may be indexed already.
        for cursor, reader in with_reader(self._cursors):
            reader.turns.hold(stops[cursor])


def _may_be_over(waits: Sequence[_Wait]) -> Iterator[bool]:
    """Return whether each of some waits may be over: not if the log that it looks at next has older messages left."""
    olds = [*map(_last, map(_olds, waits))]
    cursors, ends = [*map(_first, olds)], map(_second, olds)
    lefts = map(sub, map(_tail_seq, cursors), map(_acked_count, cursors))
    return map(or_, map(ge, view.head_seqs(cursors), ends), map(eq, lefts, map(_dropped_count, cursors)))


def _related(cursors: Sequence[GroupCursor], growth: Growth, modulus: int) -> Iterator[Sequence[_Log]]:
    """Yield the sets of cursors among which a key may have moved at a growth, with the ends of their logs."""
    for lane in by_priority(cursors):
        logs = [*zip(lane, map(growth.ends.get, map(_partition, lane), repeat(0)), strict=True)]
        if lane[-1].partition - lane[0].partition == len(lane) - 1:  # usually each partition has one
            yield from map(logs.__getitem__, map(slice, range(min(modulus, len(lane))), repeat(None), repeat(modulus)))
        else:
            families: dict[int, list[_Log]] = {}
            for log in logs:
                families.setdefault(partition_of(log[0].partition) % modulus, []).append(log)
            yield from families.values()
