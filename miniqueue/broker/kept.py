"""How much a topic keeps of its log for who reads it again, and since when.

Of each partition one value of the store is read at most, the first chunk, and that is remembered.
"""

from typing import NamedTuple

from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.topic import Topic
from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.storage.port import Store


class Kept(NamedTuple):
    """What can be read of a topic that retains; nothing where it does not.

    Attributes:
      message_count: from the earliest on, also those that are not settled.
      size_bytes: of their payloads and attributes.
      earliest_at_ms: when the earliest was committed; None when there is none.
    """

    message_count: int = 0
    size_bytes: int = 0
    earliest_at_ms: int | None = None

    def plus(self, first: ChunkExtent, end_seq: int, log_bytes: int) -> "Kept":
        """Return this with a log that begins with a chunk and ends at `end_seq`, where it has so many bytes."""
        at_ms = min(first.committed_at_ms, self.earliest_at_ms or first.committed_at_ms)
        size_bytes = max(0, log_bytes - first.log_bytes + first.content_bytes)
        return Kept(self.message_count + end_seq - first.first_seq, self.size_bytes + size_bytes, at_ms)


async def kept_of(store: Store, topic: Topic) -> Kept:
    """Return how much a topic keeps; raises StorageError."""
    kept = Kept()
    for partition in list(topic.partitions.values()):
        if partition.retained is not None and topic.id is not None:
            log = PartitionLog(store, topic, topic.id, partition)
            first = await log.first()
            if first is not None:
                cursors = partition.cursors.values()
                end_seq, log_bytes = max((cursor.tail_seq, cursor.tail_bytes) for cursor in cursors)
                kept = kept.plus(first, end_seq, log_bytes)
    return kept
