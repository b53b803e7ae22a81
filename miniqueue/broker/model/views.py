"""Read-only views of topics and groups, computed from counts that are kept anyway.

`stats_of` and `figures_of` return statistics of a topic and of a group. `group_named` and `lanes_from` return the group
and the lanes that an inspecting client selects. `ends_of` returns the end of a topic at one moment: long work on the
topic stops there, and so does not follow messages that are published in the meantime.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import add, attrgetter, itemgetter, sub
from typing import NamedTuple, TypeAlias

from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.topic import Group, Topic, total
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group import view
from miniqueue.core.log.partition import Partition
from miniqueue.errors.requests import UnknownGroupError, UnknownMessageError

_unpublished, _delayed_count = attrgetter("delays.committed"), attrgetter("delayed_count")
_partition, _tail_seq = attrgetter("partition"), attrgetter("tail_seq")
_acked_count, _dropped_count = attrgetter("acked_count"), attrgetter("dropped_count")


def stats_of(topic: Topic) -> TopicStats:
    """Return the statistics of a topic: what the slowest group holds, and what all groups have done."""
    if topic.at_rest is not None:
        return topic.at_rest.stats
    last = topic.last_group
    cursors = [] if last is None else last.cursors
    all_cursors = topic.cursors
    # There may be thousands of cursors, so that no line of Python runs for one of them.
    depth, leased = 0 if last is None else last.depth, total("leased_count", cursors)
    unpublished = [*map(_unpublished, topic.partitions.values())]
    returned, moved = waiting_delayed_count(cursors), total("moved_count", all_cursors)
    return TopicStats(
        published=total("tail_seq", cursors),
        acknowledged=total("acked_count", all_cursors),
        dropped=total("dropped_count", all_cursors) - moved - total("skipped_count", all_cursors),
        moved=moved,
        ready=depth - leased - returned,
        leased=leased,
        delayed=returned + total("message_count", unpublished),
        size_bytes=total("tail_bytes", cursors) - total("gone_bytes", cursors) + total("size_bytes", unpublished),
        consumers=sum(group.consumer_count for group in topic.groups.values()),
        waiting=sum(group.waiting_count for group in topic.groups.values()),
        expired=topic.expired_count,
        duplicates=topic.duplicate_count,
        dedup_ids=0 if topic.dedup is None else len(topic.dedup),
    )


def waiting_delayed_count(cursors: Sequence[GroupCursor]) -> int:
    """Return the number of delayed messages of many cursors that are neither leased nor known to be due."""
    return total("waiting_delayed_count", compress(cursors, map(_delayed_count, cursors)))


class GroupFigures(NamedTuple):
    """Statistics of a group, in messages, except `consumers` and `waiting`, which count consumers.

    Attributes:
      lag: number of unacknowledged messages.
      position: first unsettled sequence number of the log of each partition, by number.
      lags: number of unacknowledged messages of each partition, by number.
      members: the partitions that each member reads, by name; empty if consumers compete for all partitions.
      moving: the partitions that wait for leases of their last member, with the name of their next member.
      unread_seconds: time for which no consumer has used the group, to a minute; at most since startup.
      held_back: the partitions in which messages wait for older ones in others, since partitions were added.
      paused: whether deliveries to its consumers are paused, other than by a pause of the topic.
      ephemeral: whether it ends with its last consumer.
      idle_seconds: after this time without a reader it ends, by its own setting or that of the topic; 0: never.
      ack_rate_10s: messages that it acknowledged per second, in the last 10 s; None if that is not measured.
    """

    name: bytes
    lag: int
    ready: int
    leased: int
    delayed: int
    acknowledged: int
    dropped: int
    moved: int
    missed: int
    consumers: int
    waiting: int
    position: dict[int, int]
    lags: dict[int, int]
    members: dict[bytes, list[int]]
    moving: dict[int, bytes]
    held_back: list[int]
    unread_seconds: int
    paused: bool
    ephemeral: bool
    idle_seconds: float
    ack_rate_10s: float | None = None


def figures_of(group: Group) -> GroupFigures:
    """Return the statistics of a group."""
    cursors, membership = group.cursors, group.membership
    depth, leased, delayed = group.depth, total("leased_count", cursors), waiting_delayed_count(cursors)
    moved, skipped = total("moved_count", cursors), total("skipped_count", cursors)
    end = end_of(group)
    dones = map(add, map(_acked_count, cursors), map(_dropped_count, cursors))
    return GroupFigures(
        group.name,
        lag=depth,
        ready=depth - leased - delayed,
        leased=leased,
        delayed=delayed,
        acknowledged=total("acked_count", cursors),
        dropped=total("dropped_count", cursors) - moved - skipped,
        moved=moved,
        missed=total("missed_count", cursors),
        consumers=group.consumer_count,
        waiting=group.waiting_count,
        position=view.positions(cursors),
        lags=dict(zip(map(_partition, cursors), map(sub, map(_tail_seq, cursors), dones), strict=True)),
        members={}
        if membership is None
        else {member.name: member.partitions for member in membership.members.values()},
        moving={} if membership is None else membership.moving,
        held_back=[] if group.old_first is None else sorted(group.old_first.held),
        unread_seconds=round(group.unread_seconds),
        paused=group.is_paused,
        ephemeral=end.setting == "ephemeral_groups",
        idle_seconds=end.idle_seconds,
    )


class GroupEnd(NamedTuple):
    """After which time without a reader a group ends, 0 for never, and the setting of the topic that says so."""

    idle_seconds: float
    setting: str


def end_of(group: Group) -> GroupEnd:
    """Return when a group ends: by its own setting, or by that of its topic."""
    settings, name = group.topic.settings, group.name.decode()
    for setting, own in (("ephemeral_groups", settings.ephemeral_groups), ("idle_groups", settings.idle_groups)):
        index = bisect_left(own, name, key=itemgetter(0))  # sorted by name
        if index < len(own) and own[index][0] == name:
            return GroupEnd(own[index][1], setting)
    return GroupEnd(settings.group_idle_seconds, "group_idle_seconds")


def group_named(topic: Topic, name: bytes | None) -> Group:
    """Return a group of an existing topic; None: the default group, or the first by name if there is no default."""
    groups = topic.existing_groups
    if name is None:
        return topic.default if topic.default.id is not None else min(groups, key=attrgetter("name"))
    named = next((group for group in groups if group.name == name), None)
    if named is None:
        raise UnknownGroupError
    return named


def lanes_from(cursors: list[GroupCursor], number: int | None) -> list[GroupCursor]:
    """Return the lanes from the one with a number on, all with None; raises UnknownMessageError."""
    if number is None:
        return list(cursors)
    index = next((index for index, cursor in enumerate(cursors) if cursor.partition == number), None)
    if index is None:
        raise UnknownMessageError
    return cursors[index:]


class End(NamedTuple):
    """The end of a partition: its next sequence number, and the serial number of its last delayed message."""

    seq: int
    serial: int


#: The ends of all partitions that existed at one moment.
Ends: TypeAlias = Mapping[Partition | None, End]


def ends_of(topic: Topic | None) -> Ends:
    """Return the current ends of a topic's partitions, including uncommitted messages."""
    partitions = [] if topic is None else topic.partitions.values()
    return {partition: End(partition.next_seq, partition.delays.state.serial) for partition in partitions}
