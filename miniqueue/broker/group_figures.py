"""How far a group is: counts that are there anyway."""

from typing import NamedTuple

from miniqueue.broker.group import Group
from miniqueue.core import cursor_view


class GroupFigures(NamedTuple):
    """How far a group is; in messages, but `consumers` and `waiting`.

    Attributes:
      lag: not acknowledged.
      position: of each partition, by number, the first sequence number of the log that it has not settled.
      lags: of each partition, what is not acknowledged there.
      members: the partitions that each member reads, by name; none where consumers compete for all.
      moving: the partitions that wait for leases of their last member, and who will read them.
      unread_seconds: for how long nobody has read with it, to a minute; since the start of the broker at most.
      held_back: the partitions of which something waits for what is older in others, since some were added.
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


def figures_of(group: Group) -> GroupFigures:
    """Return how far a group is."""
    cursors, membership = group.cursors, group.membership
    depth = sum(cursor.depth for cursor in cursors)
    leased = sum(cursor.leased_count for cursor in cursors)
    delayed = sum(cursor.waiting_delayed_count for cursor in cursors)
    moved = sum(cursor.moved_count for cursor in cursors)
    skipped = sum(cursor.skipped_count for cursor in cursors)
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
        position={cursor.partition: cursor_view.position(cursor) for cursor in cursors},
        lags={cursor.partition: cursor.depth for cursor in cursors},
        members={} if membership is None else {one.name: one.partitions for one in membership.members.values()},
        moving={} if membership is None else membership.moving,
        held_back=[] if group.old_first is None else sorted(group.old_first.held),
        unread_seconds=round(group.unread_seconds),
    )
