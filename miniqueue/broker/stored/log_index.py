"""Finds the chunks of the log of one partition in the store."""

from typing import NamedTuple

from miniqueue.broker.model.topic import Topic
from miniqueue.core.log.partition import Partition, bounds_of
from miniqueue.core.message.message import ChunkExtent
from miniqueue.storage.format import keys, values
from miniqueue.storage.port import Store


class PartitionLog(NamedTuple):
    """The log of a partition; valid as long as its topic has this id.

    Attributes:
      store: the store that contains it.
      topic: the topic to which it belongs.
      topic_id: the id of the topic.
      partition: the partition of the topic.
    """

    store: Store
    topic: Topic
    topic_id: int
    partition: Partition

    @property
    def place(self) -> tuple[int, int]:
        """The id of the topic and the number of the partition, as in keys."""
        return self.topic_id, self.partition.number

    def key(self, first_seq: int) -> bytes:
        """Return the key of the chunk that begins with `first_seq`."""
        return keys.chunk(*self.place, first_seq)

    def _key_in_front(self) -> bytes:
        """Return a key before the log that normally exists, with a small value: searching backward also reads it."""
        return keys.cursor(*self.place, next(iter(self.partition.cursors)))

    async def first(self) -> ChunkExtent | None:
        """Return the extent of the first chunk that can be read; None if there is none. Raises StorageError."""
        retained, bounds = self.partition.retained, bounds_of(self.partition)
        if retained is not None and retained.first is not None and bounds.earliest_seq == retained.start_seq:
            return retained.first
        start, stop = self.key(bounds.earliest_seq), self.key(bounds.end_seq)
        pairs = await self.store.scan(start, stop, max_items=1, max_bytes=1) if start < stop else []
        extents = [values.decode_extent(keys.chunk_first_seq(key), value) for key, value in pairs]
        if extents and retained is not None and retained.start_seq == bounds.earliest_seq:
            retained.first = extents[0]
        return extents[0] if extents else None

    async def before(self, seq: int) -> tuple[int, bytes] | None:
        """Return the last chunk that begins at `seq` or before, with its first number; None if there is none.

        The search ends at the earliest chunk, or shortly before it. Raises StorageError.
        """
        while (earliest_seq := bounds_of(self.partition).earliest_seq) <= seq:
            start, stop = self.key(earliest_seq), self.key(seq + 1)
            (last,) = await self.store.last_of([(self._key_in_front(), stop)])
            if (
                last is None or last[0] < start
            ):  # The key before the log is not stored yet, or the log begins after a hole.
                firsts = await self.store.scan(start, stop, max_items=1, max_bytes=1)
                (last,) = await self.store.last_of([(key, stop) for key, _ in firsts]) if firsts else (None,)
            if last is not None:
                return keys.chunk_first_seq(last[0]), last[1]
            if bounds_of(self.partition).earliest_seq == earliest_seq:
                break  # If the start of the log has moved, its space was reclaimed meanwhile: search again.
        return None
