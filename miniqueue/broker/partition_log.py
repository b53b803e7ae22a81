"""The log of one partition in the store: where its chunks are."""

from typing import NamedTuple

from miniqueue.broker.topic import Topic
from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.core.log_extent import bounds_of
from miniqueue.core.partition import Partition
from miniqueue.storage import keys, records
from miniqueue.storage.port import Store


class PartitionLog(NamedTuple):
    """A log, as long as its topic has this id.

    Attributes:
      store: that has it.
      topic: whose log it is.
      topic_id: of the topic.
      partition: of the topic.
    """

    store: Store
    topic: Topic
    topic_id: int
    partition: Partition

    @property
    def place(self) -> tuple[int, int]:
        """The topic and the number of the partition, as in keys."""
        return self.topic_id, self.partition.number

    def key(self, first_seq: int) -> bytes:
        """Return the key of the chunk that begins there."""
        return keys.chunk(*self.place, first_seq)

    def _key_in_front(self) -> bytes:
        """Return a key in front of the log that is there as a rule, with a small value: looking back reads it, too."""
        return keys.cursor(*self.place, next(iter(self.partition.cursors)))

    async def first(self) -> ChunkExtent | None:
        """Return how far the first chunk reaches that can be read; None when there is none. Raises StorageError."""
        retained, bounds = self.partition.retained, bounds_of(self.partition)
        if retained is not None and retained.first is not None and bounds.earliest_seq == retained.start_seq:
            return retained.first
        start, stop = self.key(bounds.earliest_seq), self.key(bounds.end_seq)
        pairs = await self.store.scan(start, stop, max_items=1, max_bytes=1) if start < stop else []
        extents = [records.decode_extent(keys.chunk_first_seq(key), value) for key, value in pairs]
        if extents and retained is not None and retained.start_seq == bounds.earliest_seq:
            retained.first = extents[0]
        return extents[0] if extents else None

    async def before(self, seq: int) -> tuple[int, bytes] | None:
        """Return the last chunk that begins at `seq` or before, with its first number; None when there is none.

        Looking back ends at the earliest chunk, and not far in front of it. Raises StorageError.
        """
        while (earliest_seq := bounds_of(self.partition).earliest_seq) <= seq:
            start, stop = self.key(earliest_seq), self.key(seq + 1)
            (last,) = await self.store.last_of([(self._key_in_front(), stop)])
            if last is None or last[0] < start:  # that key is not stored yet, or the log begins behind a hole
                firsts = await self.store.scan(start, stop, max_items=1, max_bytes=1)
                (last,) = await self.store.last_of([(key, stop) for key, _ in firsts]) if firsts else (None,)
            if last is not None:
                return keys.chunk_first_seq(last[0]), last[1]
            if bounds_of(self.partition).earliest_seq == earliest_seq:
                break  # else it was given back meanwhile
        return None
