"""Topics at rest: what a topic in which nothing is needs of its partitions and groups, in a few bytes.

    awake ──in_which_nothing_is, for a while──▶ at rest: name, settings, counts, `packed`
      ▲                                            │
      └── an attribute that is missing is used ◀───┘  `fill`, then `Events.changed`

A partition with a group uses 3 KB while it is awake. At rest, partitions and groups are numbers: where logs end, what
the groups have done, the next receipts, and where the messages begin that are retained; everything else is as in a
topic that was just read from the store. Equal numbers compress well, so a partition uses about 30 bytes, and one that
was never used about 10.
"""

import marshal
import math
import zlib
from collections.abc import Callable
from typing import Final

from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import stats_of
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group import view
from miniqueue.core.log.delayed import DelaysState
from miniqueue.core.log.partition import Partition
from miniqueue.core.log.retention import Retained, due_at_ms_of
from miniqueue.core.message.message import ChunkExtent

#: The memory of a topic at rest besides its packed content, about.
REST_BYTES: Final = 800


class Rest:
    """What a topic at rest has of its partitions and groups.

    Args:
      topic: the topic, which is awake, and in which nothing is.
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

    def __init__(self, topic: Topic, woken: Callable[[Topic], None]) -> None:
        self.stats: TopicStats = stats_of(topic)
        self.unread_seconds = 0.0
        self._woken = woken
        self.consumed_bytes = topic.consumed_bytes
        self.stored_bytes = topic.stored_bytes
        self.trim_at_ms = min(_trim_at_ms(topic, partition) for partition in topic.partitions.values())
        self.lane_count = topic.lane_count
        self.partition_count, _ = topic.measure()
        self._packed = zlib.compress(marshal.dumps(_content_of(topic)), 1)

    @property
    def size_bytes(self) -> int:
        """The memory of the topic, about."""
        return REST_BYTES + len(self._packed)

    def wake(self, topic: Topic) -> None:
        """Give a topic its partitions and groups again."""
        plain_number, groups, partitions = marshal.loads(zlib.decompress(self._packed))
        for name, _, was_read, unread_seconds, receipts in groups:
            was_just_read = was_read and not self.unread_seconds
            topic.group(name).resume(receipts, unread_seconds + self.unread_seconds, was_read=was_just_read)
        topic.come_back(
            {partition[0]: _partition(*partition) for partition in partitions},
            {name: group_id for name, group_id, *_ in groups if group_id is not None},
            plain_number,
        )
        self._woken(topic)


def in_which_nothing_is(topic: Topic) -> bool:
    """Whether an awake topic has no unsettled message, no consumer, and nothing else that is more than a number."""
    return (
        topic.id is not None
        and topic.fault is None
        and topic.dedup is None
        and not (topic.settings.trace or (topic.settings.ends_groups and len(topic.existing_groups) > 1))
        and not topic.growths
        and not topic.unique_keys.is_used
        and (topic.pulse is None or topic.pulse.activity is None)
        and all(map(_is_unread, topic.groups.values()))
        and all(map(_is_empty, topic.partitions.values()))
    )


def put_to_rest(topic: Topic, woken: Callable[[Topic], None]) -> bool:
    """Put a topic to rest if nothing is in it; return whether it is at rest. `woken` is called when it wakes."""
    if topic.at_rest is None and in_which_nothing_is(topic):
        topic.rest(Rest(topic, woken))
    return topic.at_rest is not None


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


#: The number of the plain partition; groups; partitions, each with its cursors: plain values that `marshal` can pack.
_Content = tuple[int, list[tuple[object, ...]], list[tuple[object, ...]]]


def _content_of(topic: Topic) -> _Content:
    groups: list[tuple[object, ...]] = [
        (group.name, group.id, group.was_read, group.unread_seconds, group.receipts())
        for group in topic.groups.values()
    ]
    partitions: list[tuple[object, ...]] = [
        (
            partition.number,
            (partition.next_seq, partition.log_bytes, partition.consumed_bytes),
            tuple(partition.delays.state),
            {group_id: tuple(cursor.state) for group_id, cursor in partition.cursors.items()},
            _retained_numbers(partition.retained),
        )
        for partition in topic.partitions.values()
    ]
    return topic.plain.number, groups, partitions


def _retained_numbers(retained: Retained | None) -> tuple[int, tuple[int, ...] | None] | None:
    if retained is None:
        return None
    return retained.start_seq, None if retained.first is None else tuple(retained.first)


def _partition(
    number: int,
    ends: tuple[int, int, int],
    delays: tuple[int, int, int, int],
    states: dict[int, tuple[int, ...]],
    retained: tuple[int, tuple[int, int, int, int, int] | None] | None,
) -> Partition:
    next_seq, log_bytes, consumed_bytes = ends
    cursors = {
        group_id: GroupCursor(CursorState(*state), next_seq, {}, is_new=True, partition=number, group=group_id)
        for group_id, state in states.items()
    }
    partition = Partition(next_seq, cursors, log_bytes, number, DelaysState(*delays))
    partition.consumed_bytes = consumed_bytes
    if retained is not None:
        start_seq, first = retained
        partition.retained = Retained(start_seq)
        partition.retained.first = None if first is None else ChunkExtent(*first)
    return partition
