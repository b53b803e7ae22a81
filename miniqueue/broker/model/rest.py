"""Topics at rest: what a topic in which nothing is needs of its partitions and groups, in a few bytes.

    awake ──`resting`, in which nothing is, for a while──▶ at rest: name, settings, counts, packed content
      ▲                                                       │
      └── an attribute that is missing is used: at once ◀─────┤  `waking`, then `attach`, then `Events.woken`
      └── a command names it, and it is wide: in turns ◀──────┘

A partition with a group uses 3 KB while it is awake. At rest, partitions and groups are numbers: where logs end, what
the groups have done, the next receipts, and where the messages begin that are retained; everything else is as in a
topic that was just read from the store. Equal numbers compress well, so a partition uses about 30 bytes, and one that
was never used about 10.

A topic is *wide* if it has many cursors: to make them all, or to look at them all, takes longer than an iteration of
the event loop may. So both ways can be gone in turns. Meanwhile, the topic is what it was: awake, or at rest. What is
made apart from it is dropped if something has happened to it. `engine.waking` knows who has to wait for it.
"""

import marshal
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from miniqueue.broker.model.new_partitions import CURSORS_IN_TURN
from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import stats_of
from miniqueue.broker.runtime.share import Work, at_once
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group import view
from miniqueue.core.log.delayed import DelaysState
from miniqueue.core.log.partition import Partition
from miniqueue.core.log.retention import Retained, due_at_ms_of
from miniqueue.core.message.message import ChunkExtent

T = TypeVar("T")

#: The memory of a topic at rest besides its packed content, about.
REST_BYTES: Final = 800
#: A topic with more cursors is wide.
MAX_CURSORS_AT_ONCE: Final = 128
#: Number of cursors that one event-loop iteration looks at and packs; to make one costs several times as much.
PACKED_IN_TURN: Final = 512
#: The length of a packed piece is before it, in so many bytes.
LENGTH_BYTES: Final = 4

#: What changes in a partition with everything that happens in it, if there is nothing in it before.
_marks = attrgetter("next_seq", "log_bytes", "consumed_bytes", "delays.state", "pins", "is_head_due")
_cursors = attrgetter("cursors")

#: A group, and a partition with its cursors, as plain values that `marshal` can pack.
_PlainGroup = tuple[bytes, int | None, bool, float, dict[int, int]]
_PlainRetained = tuple[int, tuple[int, ...] | None]
_PlainPartition = tuple[int, tuple[int, int, int], tuple[int, ...], dict[int, tuple[Any, ...]], _PlainRetained | None]


class Awake(NamedTuple):
    """The partitions and groups of a topic that is at rest, made again apart from it.

    Attributes:
      plain_number: the number of the partition to which messages without a key are published next.
      partitions: the partitions by number.
      groups: the groups by name.
      unread: the time without a consumer before the rest, and whether one had left since the last check, by group.
    """

    plain_number: int
    partitions: dict[int, Partition]
    groups: dict[bytes, Group]
    unread: list[tuple[Group, float, bool]]


class Rest:
    """What a topic at rest has of its partitions and groups.

    Args:
      topic: the topic, which is awake, and in which nothing is.
      stats: its statistics.
      packed: its partitions and groups.
      woken: called when it has woken.

    Attributes:
      stats: its statistics.
      lane_count: number of partitions, with those of all priorities.
      partition_count: the same, each counted once for each group.
      consumed_bytes: size of what was deleted on disk since space was last reclaimed.
      stored_bytes: size of the payloads and attributes that it retains.
      trim_at_ms: when the first of them is over the limits of its settings, in ms since 1970.
      unread_seconds: time since it was put to rest, as of the last check of all groups.
    """

    __slots__ = (
        "_packed",
        "_woken",
        "consumed_bytes",
        "lane_count",
        "partition_count",
        "stats",
        "stored_bytes",
        "trim_at_ms",
        "unread_seconds",
    )

    def __init__(self, topic: Topic, stats: TopicStats, packed: bytes, woken: Callable[[Topic], None]) -> None:
        self.stats = stats
        self.unread_seconds = 0.0
        self._woken = woken
        self.consumed_bytes = topic.consumed_bytes
        self.stored_bytes = topic.stored_bytes
        self.trim_at_ms = min(_trim_at_ms(topic, partition) for partition in topic.partitions.values())
        self.lane_count = topic.lane_count
        self.partition_count, _ = topic.measure()
        self._packed = packed

    @property
    def is_wide(self) -> bool:
        """Whether the topic has more cursors than one event-loop iteration may make."""
        return self.partition_count > MAX_CURSORS_AT_ONCE

    @property
    def size_bytes(self) -> int:
        """The memory of the topic, about."""
        return REST_BYTES + len(self._packed)

    def wake(self, topic: Topic) -> None:
        """Give a topic its partitions and groups again, all at once."""
        self.attach(topic, at_once(self.waking(topic, {} if topic.at_rest is self else topic.groups)))

    def coming_back(self, topic: Topic) -> Work[None]:
        """Give a topic its partitions and groups again, unless anything else has woken or changed it meanwhile."""
        awake = yield from self.waking(topic, {})
        yield
        if topic.at_rest is self:
            self.attach(topic, awake)

    def waking(self, topic: Topic, known: Mapping[bytes, Group]) -> Work[Awake]:
        """Make the partitions and groups of a topic again, apart from it; `known` groups are used again."""
        awake, count = Awake(0, {}, {}, []), 0
        for plain_number, partitions, groups in _unpacked(self._packed):
            awake = awake._replace(plain_number=plain_number)
            for number, ends, delays, states, retained in partitions:
                cursors: dict[int, GroupCursor] = {}
                for id_, state in states.items():
                    cursors[id_] = _cursor(number, id_, state, ends[0])
                    count += 1
                    if count % CURSORS_IN_TURN == 0:
                        yield
                awake.partitions[number] = _partition(number, ends, delays, cursors, retained)
            for name, group_id, was_read, unread_seconds, receipts in groups:
                group = awake.groups[name] = known.get(name) or Group(topic, name)
                group.resume(receipts)
                awake.unread.append((group, unread_seconds, was_read))
                if group_id is not None:
                    group.begin(group_id, [cursors[group_id] for cursors in map(_cursors, awake.partitions.values())])
                count += len(awake.partitions)
                if count >= CURSORS_IN_TURN:
                    count = 0
                    yield
        return awake

    def attach(self, topic: Topic, awake: Awake) -> None:
        """Give a topic the partitions and groups that `waking` has made."""
        for group, unread_seconds, was_read in awake.unread:
            group.unread_seconds = unread_seconds + self.unread_seconds
            group.was_read = was_read and not self.unread_seconds
        topic.come_back(awake.partitions, awake.groups, awake.plain_number)
        self._woken(topic)


def is_wide(topic: Topic) -> bool:
    """Whether a topic has more cursors than one event-loop iteration may make."""
    return topic.measure()[0] > MAX_CURSORS_AT_ONCE


def resting(topic: Topic, woken: Callable[[Topic], None]) -> Work[Rest | None]:
    """Return what an awake topic has at rest; None if something is in it, or has been meanwhile.

    `woken` is called when it wakes.
    """
    if not _may_rest(topic):
        return None
    moment, deflate, packed = _moment(topic), zlib.compressobj(1), b""
    partitions = [*_cut([*topic.partitions.values()], len(topic.existing_groups))]
    groups = [*_cut([*topic.groups.values()], len(topic.partitions))]
    pieces: Iterable[tuple[Sequence[Partition], Sequence[Group]]] = zip(partitions, groups, strict=True)
    if len(partitions) + len(groups) > 2:  # otherwise, all of a small topic is one piece
        pieces = chain(zip(partitions, repeat(())), zip(repeat(()), groups))
    for some, members in pieces:
        if not all(map(_is_empty, some)):
            return None
        piece = marshal.dumps((topic.plain.number, [*map(_plain_partition, some)], [*map(_plain_group, members)]))
        packed += deflate.compress(len(piece).to_bytes(LENGTH_BYTES, "big") + piece)
        yield
    stats = stats_of(topic)
    yield
    if topic.at_rest is not None or not _may_rest(topic) or _moment(topic) != moment:
        return None
    return Rest(topic, stats, packed + deflate.flush(), woken)


def put_to_rest(topic: Topic, woken: Callable[[Topic], None]) -> bool:
    """Put a topic to rest if nothing is in it; return whether it is at rest. `woken` is called when it wakes."""
    if topic.at_rest is None and (at_rest := at_once(resting(topic, woken))) is not None:
        topic.rest(at_rest)
    return topic.at_rest is not None


def _may_rest(topic: Topic) -> bool:
    """Whether a topic has no consumer, and nothing besides its partitions that is more than a number."""
    return (
        topic.id is not None
        and topic.fault is None
        and topic.dedup is None
        and not (topic.settings.trace or (topic.settings.ends_groups and len(topic.existing_groups) > 1))
        and not topic.growths
        and not topic.unique_keys.is_used
        and (topic.pulse is None or topic.pulse.activity is None)
        and all(map(_is_unread, topic.groups.values()))
    )


def _moment(topic: Topic) -> object:
    """Return what is equal at two moments if nothing has happened between them to a topic in which nothing is."""
    groups = [(group, group.id, group.cursors, group.was_read) for group in topic.groups.values()]
    partitions = topic.partitions.values()
    retained = [_retained_numbers(partition.retained) for partition in partitions]
    return topic.id, topic.settings, topic.plain.number, groups, [*map(_marks, partitions)], retained


def _is_unread(group: Group) -> bool:
    return not (
        group.consumer_count
        or group.waiters
        or group.membership is not None
        or group.book is not None
        or group.is_loading
        or group.is_postponed
    )


def _is_empty(partition: Partition) -> bool:
    delays = partition.delays
    return not (
        delays.state.message_count
        or delays.changes
        or delays.state is not delays.committed
        or (partition.retained is not None and partition.retained.stop_seq is not None)  # it is being deleted
        or partition.pins
        or partition.is_head_due
    ) and all(cursor.tail_seq == partition.next_seq and view.is_idle(cursor) for cursor in partition.cursors.values())


def _trim_at_ms(topic: Topic, partition: Partition) -> float:
    if partition.retained is None:
        return math.inf
    return due_at_ms_of(partition.retained, topic.settings, partition.log_bytes, partition.next_seq)


def _cut(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield things in pieces that have as many cursors as one event-loop iteration packs; each thing has `size`."""
    step = max(1, PACKED_IN_TURN // size)
    return (things[start : start + step] for start in range(0, len(things), step))


def _unpacked(packed: bytes) -> Iterator[tuple[int, list[_PlainPartition], list[_PlainGroup]]]:
    inflate = zlib.decompressobj()
    length = inflate.decompress(packed, LENGTH_BYTES)
    while length:
        piece = inflate.decompress(inflate.unconsumed_tail, int.from_bytes(length, "big"))
        plain_number, partitions, groups = marshal.loads(piece)
        yield plain_number, partitions, groups
        length = inflate.decompress(inflate.unconsumed_tail, LENGTH_BYTES)


def _plain_group(group: Group) -> _PlainGroup:
    return group.name, group.id, group.was_read, group.unread_seconds, group.receipts()


def _plain_partition(partition: Partition) -> _PlainPartition:
    return (
        partition.number,
        (partition.next_seq, partition.log_bytes, partition.consumed_bytes),
        tuple(partition.delays.state),
        {group_id: tuple(cursor.state) for group_id, cursor in partition.cursors.items()},
        _retained_numbers(partition.retained),
    )


def _retained_numbers(retained: Retained | None) -> _PlainRetained | None:
    if retained is None:
        return None
    return retained.start_seq, None if retained.first is None else tuple(retained.first)


def _cursor(number: int, group_id: int, state: tuple[Any, ...], next_seq: int) -> GroupCursor:
    return GroupCursor(CursorState(*state), next_seq, {}, is_new=True, partition=number, group=group_id)


def _partition(
    number: int,
    ends: tuple[int, int, int],
    delays: tuple[int, ...],
    cursors: dict[int, GroupCursor],
    retained: _PlainRetained | None,
) -> Partition:
    next_seq, log_bytes, consumed_bytes = ends
    partition = Partition(next_seq, cursors, log_bytes, number, DelaysState(*delays))
    partition.consumed_bytes = consumed_bytes
    if retained is not None:
        start_seq, first = retained
        partition.retained = Retained(start_seq)
        partition.retained.first = None if first is None else ChunkExtent(*first)
    return partition
