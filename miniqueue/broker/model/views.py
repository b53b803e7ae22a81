"""Read-only views of topics and groups, computed from counts that are kept anyway.

`stats_of` and `figures_of` return statistics of a topic and of a group. `group_named` and `lanes_from` return the group
and the lanes that an inspecting client selects. `ends_of` returns the end of a topic at one moment: long work on the
topic stops there, and so does not follow messages that are published in the meantime.
"""

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group import view
from miniqueue.core.log.partition import Partition
from miniqueue.errors.requests import UnknownGroupError, UnknownMessageError


def stats_of(topic: Topic) -> TopicStats:
    """Return the statistics of a topic: what the slowest group holds, and what all groups have done."""
    if topic.at_rest is not None:
        return topic.at_rest.stats
    last = topic.last_group
    cursors = [] if last is None else last.cursors
    all_cursors = topic.cursors
    depth, leased = sum(c.depth for c in cursors), sum(c.leased_count for c in cursors)
    unpublished = [partition.delays.committed for partition in topic.partitions.values()]
    returned = sum(c.waiting_delayed_count for c in cursors)
    return TopicStats(
        published=sum(c.tail_seq for c in cursors),
        acknowledged=sum(c.acked_count for c in all_cursors),
        dropped=sum(c.dropped_count - c.moved_count - c.skipped_count for c in all_cursors),
        moved=sum(c.moved_count for c in all_cursors),
        ready=depth - leased - returned,
        leased=leased,
        delayed=returned + sum(state.message_count for state in unpublished),
        size_bytes=sum(c.tail_bytes - c.gone_bytes for c in cursors) + sum(state.size_bytes for state in unpublished),
        consumers=sum(group.consumer_count for group in topic.groups.values()),
        waiting=sum(len(group.waiters) for group in topic.groups.values()),
        expired=topic.expired_count,
        duplicates=topic.duplicate_count,
        dedup_ids=0 if topic.dedup is None else len(topic.dedup),
    )


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
    depth = sum(cursor.depth for cursor in cursors)
    leased = sum(cursor.leased_count for cursor in cursors)
    delayed = sum(cursor.waiting_delayed_count for cursor in cursors)
    moved = sum(cursor.moved_count for cursor in cursors)
    skipped = sum(cursor.skipped_count for cursor in cursors)
    end = end_of(group)
    return GroupFigures(
        group.name,
        lag=depth,
        ready=depth - leased - delayed,
        leased=leased,
        delayed=delayed,
        acknowledged=sum(cursor.acked_count for cursor in cursors),
        dropped=sum(cursor.dropped_count for cursor in cursors) - moved - skipped,
        moved=moved,
        missed=sum(cursor.missed_count for cursor in cursors),
        consumers=group.consumer_count,
        waiting=len(group.waiters),
        position={cursor.partition: view.position(cursor) for cursor in cursors},
        lags={cursor.partition: cursor.depth for cursor in cursors},
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
