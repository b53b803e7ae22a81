"""Adds messages to the lanes of topics; a lane is made for the first message of its priority.

    contents ─▶ by key and lane ─▶ topic.partitions[number] ─ missing ─▶ made, and registered with the same commit
                                        └──────────────────────────────────┴─▶ append

The key of a message determines its partition, its priority the lane of that partition.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.model.new_partitions import NewPartitions, new_partitions
from miniqueue.broker.model.recording import Source
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored import encode_commit
from miniqueue.core.cursor.lease import Range
from miniqueue.core.group import view
from miniqueue.core.group.growth import MAX_GROWTHS, Growth
from miniqueue.core.log.partition import Partition, bounds_of
from miniqueue.core.message.attributes import expires_at_ms, key_of, unique_key
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.lanes import priority_of
from miniqueue.storage.format import log_ends


class NewMessage(NamedTuple):
    """A message to be added to a topic; its key determines the partition.

    Attributes:
      payload: the payload.
      attributes: the encoded attributes.
      lane: the number of its lane in partition 0, which determines the priority.
      source: where the message comes from; None if it was just published.
    """

    payload: bytes
    attributes: bytes
    lane: int = 0
    source: Source | None = None

    @property
    def size_bytes(self) -> int:
        """Total size of payload and attributes."""
        return len(self.payload) + len(self.attributes)


def lane_of(journal: Journal, topic: Topic, number: int) -> Partition:
    """Return a lane of an existing topic; make the lane if it does not exist."""
    partition = topic.partitions.get(number)
    if partition is None:
        (partition,) = _add(journal, topic, new_partitions([number], topic.group_ids))
    return partition


def missing(topic: Topic, partition_count: int) -> range:
    """Return the numbers of the partitions that an existing topic lacks until it has `partition_count`."""
    first = topic.first_partition
    return range(first + topic.partition_count, first + partition_count)


def grow(journal: Journal, topic: Topic, partition_count: int, made: NewPartitions | None = None) -> bool:
    """Add partitions to an existing topic until it has `partition_count`, those in `made` or new ones.

    Returns whether any were added, and so `Events.changed` was raised.
    """
    numbers = missing(topic, partition_count)
    if numbers:
        _note_growth(journal, topic)
        _add(journal, topic, (made or NewPartitions()).take(numbers, topic.group_ids))
    return bool(numbers)


def _note_growth(journal: Journal, topic: Topic) -> None:
    """Record where all logs end now; drop growths that are no longer needed, and the oldest if there are too many."""
    assert topic.id is not None
    forget_growths(journal, topic)
    ends = {number: partition.next_seq for number, partition in topic.partitions.items() if partition.next_seq}
    growth = Growth(topic.partition_count, ends)
    if is_needed(topic, growth):
        for partition in topic.partitions.values():
            partition.end_chunk()
        topic.growths.append(growth)
        value = log_ends.encode_growth(ends)
        journal.change({log_ends.growth(topic.id, growth.partition_count): value})
    oldest, topic.growths = topic.growths[:-MAX_GROWTHS], topic.growths[-MAX_GROWTHS:]
    journal.change({log_ends.growth(topic.id, growth.partition_count): None for growth in oldest})


def forget_growths(journal: Journal, topic: Topic) -> None:
    """Drop the growths of an existing topic that are no longer needed: no older messages are left, see `is_needed`."""
    assert topic.id is not None
    dropped = [growth for growth in topic.growths if not is_needed(topic, growth)]
    if dropped:
        topic.growths = [growth for growth in topic.growths if growth not in dropped]
        journal.change({log_ends.growth(topic.id, growth.partition_count): None for growth in dropped})


def _add(journal: Journal, topic: Topic, added: list[Partition]) -> list[Partition]:
    assert topic.id is not None
    topic.add_partitions(added)
    journal.change(encode_commit.new_partitions(topic.id, added))
    journal.events.changed(topic)
    return added


def append(journal: Journal, topic: Topic, contents: Sequence[NewMessage]) -> list[tuple[int, int]]:
    """Add messages to a topic that has room for them, in the next commit, in order within each partition.

    Returns the lane number and the sequence number of each.
    """
    numbers = [_number_of(topic, content) for content in contents]
    by_lane: dict[int, list[NewMessage]] = {}
    for number, content in zip(numbers, contents, strict=True):
        by_lane.setdefault(number, []).append(content)
    first_seqs = {number: _append(journal, topic, number, added) for number, added in by_lane.items()}
    journal.touch(topic)
    following = {number: count(first_seq) for number, first_seq in first_seqs.items()}
    return [(number, next(following[number])) for number in numbers]


def _append(journal: Journal, topic: Topic, number: int, added: list[NewMessage]) -> int:
    partition, topic.held_at_most = lane_of(journal, topic, number), None  # not all messages were admitted
    size_bytes = sum(content.size_bytes for content in added)
    first_seq = partition.append([content.payload for content in added], size_bytes)
    partition.describe(first_seq, [content.attributes for content in added])
    if topic.trace is not None:
        topic.trace.began(number, first_seq, (content.source for content in added))
    for seq, content in enumerate(added, first_seq):
        if content.attributes and (key := unique_key(content.attributes)):
            topic.unique_keys.put(key, format_message_id(number, seq), expires_at_ms(content.attributes))
    return first_seq


def is_needed(topic: Topic, growth: Growth) -> bool:
    """Whether messages older than a growth may be left, in a log or returned from it."""
    return any(
        bounds_of(topic.partitions[number]).earliest_seq < end_seq or _has_returned(topic.partitions[number])
        for number, end_seq in growth.ends.items()
    )


def _has_returned(partition: Partition) -> bool:
    ranges = (Range.FRONT, Range.DELAYED, Range.BACK)
    return not all(view.is_empty(cursor, range_) for cursor in partition.cursors.values() for range_ in ranges)


def _number_of(topic: Topic, content: NewMessage) -> int:
    if topic.partition_count == 1:
        return topic.first_partition | content.lane
    return topic.number_for(key_of(content.attributes), priority_of(content.lane))
