"""How much a topic holds, as counts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniqueue.broker.topic import Topic


@dataclass(frozen=True)
class TopicStats:
    """How much a topic holds; all in messages, but `consumers` and `waiting`, which count consumers, and `size_bytes`.

    `size_bytes` are those of the payloads of messages that are ready, leased or delayed. `expired` counts since the
    start of the broker, and each of them is among the `dropped` or the `moved`. `duplicates` counts publishes since
    then that were told the id of an earlier message, `dedup_ids` what is remembered of publishes.
    """

    published: int
    acknowledged: int
    dropped: int
    moved: int
    ready: int
    leased: int
    delayed: int
    size_bytes: int
    consumers: int
    waiting: int
    expired: int
    duplicates: int
    dedup_ids: int


def stats_of(topic: "Topic") -> TopicStats:
    """Count what there is: what the group holds that is furthest behind, and what all have done."""
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
