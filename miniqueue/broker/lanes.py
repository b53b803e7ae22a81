"""Adds messages to the lanes of topics; a lane is made with the first message that is of its priority.

contents ─▶ by key and lane ─▶ topic.partitions[number] ─ there is none ─▶ made, and registered with the same commit
                                    └────────────────────────────────────────┴─▶ append
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from miniqueue.broker import batching
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace import Source
from miniqueue.core import cursor_view
from miniqueue.core.attributes import expires_at_ms, key_of, unique_key
from miniqueue.core.growth import MAX_GROWTHS, Growth
from miniqueue.core.lanes import priority_of
from miniqueue.core.lease import Range
from miniqueue.core.log_extent import bounds_of
from miniqueue.core.message_id import format_message_id
from miniqueue.core.partition import Partition
from miniqueue.storage import growth_keys, growth_records


class Content(NamedTuple):
    """A message that is put into a topic, and the number of its lane in partition 0; its key chooses the partition.

    `source` says where it comes from, if nobody has just published it.
    """

    payload: bytes
    attributes: bytes
    lane: int = 0
    source: Source | None = None

    @property
    def size_bytes(self) -> int:
        """How long payload and attributes are together."""
        return len(self.payload) + len(self.attributes)


class Lanes:
    """Knows the lanes of topics.

    Args:
      journal: registers those that are made.
      made: called for each topic that has one more.
    """

    def __init__(self, journal: Journal, *, made: Callable[[Topic], None]) -> None:
        self._journal = journal
        self._made = made

    def of(self, topic: Topic, number: int) -> Partition:
        """Return a lane of a topic that exists, made if there is none yet."""
        partition = topic.partitions.get(number)
        if partition is None:
            (partition,) = self._make(topic, [number])
        return partition

    def grow(self, topic: Topic, partition_count: int) -> None:
        """Give a topic that exists so many partitions, if it has fewer."""
        if missing := range(topic.partition_count, partition_count):
            self._note_growth(topic)
            self._make(topic, missing)

    def _note_growth(self, topic: Topic) -> None:
        """Note where logs end now; forget the growths of which nothing older is left, and the first of too many."""
        assert topic.id is not None
        gone = [growth for growth in topic.growths if not is_needed(topic, growth)]
        topic.growths = [growth for growth in topic.growths if growth not in gone]
        ends = {number: partition.next_seq for number, partition in topic.partitions.items() if partition.next_seq}
        growth = Growth(topic.partition_count, ends)
        if is_needed(topic, growth):
            for partition in topic.partitions.values():
                partition.end_chunk()
            topic.growths.append(growth)
            value = growth_records.encode_growth(ends)
            self._journal.change({growth_keys.growth(topic.id, growth.partition_count): value})
        while len(topic.growths) > MAX_GROWTHS:
            gone.append(topic.growths.pop(0))
        self._journal.change({growth_keys.growth(topic.id, one.partition_count): None for one in gone})

    def _make(self, topic: Topic, numbers: Iterable[int]) -> list[Partition]:
        assert topic.id is not None
        added = topic.add_partitions(numbers)
        for partition in added:
            self._journal.change(batching.new_partition(topic.id, partition))
        self._made(topic)
        return added

    def append(self, topic: Topic, contents: Sequence[Content]) -> list[tuple[int, int]]:
        """Add messages to a topic that has room for them, with the next commit, in order within each partition.

        Return the number of the lane of each, and its sequence number.
        """
        numbers = [_number_of(topic, content) for content in contents]
        by_lane: dict[int, list[Content]] = {}
        for number, content in zip(numbers, contents, strict=True):
            by_lane.setdefault(number, []).append(content)
        first_seqs = {number: self._append(topic, number, added) for number, added in by_lane.items()}
        self._journal.touch(topic)
        following = {number: count(first_seq) for number, first_seq in first_seqs.items()}
        return [(number, next(following[number])) for number in numbers]

    def _append(self, topic: Topic, number: int, added: list[Content]) -> int:
        partition, topic.held_at_most = self.of(topic, number), None  # not all of it was admitted
        size_bytes = sum(content.size_bytes for content in added)
        first_seq = partition.append([content.payload for content in added], size_bytes)
        partition.describe(first_seq, [content.attributes for content in added])
        if topic.trace is not None:
            topic.trace.began(number, first_seq, (content.source for content in added))
        for seq, content in enumerate(added, first_seq):
            if key := unique_key(content.attributes):
                topic.unique_keys.put(key, format_message_id(number, seq), expires_at_ms(content.attributes))
        return first_seq


def is_needed(topic: Topic, growth: Growth) -> bool:
    """Whether anything may be left that is older than a growth: in a log, or come back from it."""
    return any(
        bounds_of(topic.partitions[number]).earliest_seq < end_seq or _has_returned(topic.partitions[number])
        for number, end_seq in growth.ends.items()
    )


def _has_returned(partition: Partition) -> bool:
    places = (Range.FRONT, Range.DELAYED, Range.BACK)
    return not all(cursor_view.is_empty(cursor, place) for cursor in partition.cursors.values() for place in places)


def _number_of(topic: Topic, content: Content) -> int:
    if topic.partition_count == 1:
        return content.lane
    return topic.number_for(key_of(content.attributes), priority_of(content.lane))
