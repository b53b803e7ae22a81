"""Adds messages to the lanes of topics; a lane is made with the first message that is of its priority.

contents ─▶ by lane ─▶ topic.partitions[number] ─ there is none ─▶ made, and registered with the same commit
                            └────────────────────────────────────────┴─▶ append
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from miniqueue.broker import batching
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.attributes import unique_key
from miniqueue.core.message_id import format_message_id
from miniqueue.core.partition import Partition


class Content(NamedTuple):
    """A message that is put into a topic, and the number of its lane there."""

    payload: bytes
    attributes: bytes
    lane: int = 0

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
            assert topic.id is not None
            partition = topic.add_partition(number)
            self._journal.change(batching.new_partition(topic.id, partition))
            self._made(topic)
        return partition

    def append(self, topic: Topic, contents: Iterable[Content]) -> None:
        """Add messages to a topic that has room for them, with the next commit, in their order within each lane."""
        by_lane: dict[int, list[Content]] = {}
        for content in contents:
            by_lane.setdefault(content.lane, []).append(content)
        for number, added in by_lane.items():
            partition = self.of(topic, number)
            size_bytes = sum(content.size_bytes for content in added)
            first_seq = partition.append([content.payload for content in added], size_bytes)
            partition.describe(first_seq, [content.attributes for content in added])
            for seq, content in enumerate(added, first_seq):
                if key := unique_key(content.attributes):
                    topic.unique_keys.put(key, format_message_id(number, seq))
        self._journal.touch(topic)
