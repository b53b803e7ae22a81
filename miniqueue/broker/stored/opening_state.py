"""The stored state of topics, without their messages: read at startup, one topic after the other.

    HEAD     a a a b b c …         one topic after the other, in the order of their ids: each space is read once,
    CURSOR   a a b c c c …         a page at a time, and only the state of one topic is in memory
    …

`held_bytes` counts the size of a group's messages, if a store of an earlier version does not contain it.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Iterator

from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.delayed import NO_DELAYS, DelaysState
from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.storage.format import delays as delay_keys
from miniqueue.storage.format import delays as delay_records
from miniqueue.storage.format import groups as group_keys
from miniqueue.storage.format import keys, values
from miniqueue.storage.format.keys import Space


class State:
    """Some stored pairs, in key order."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._keys = [key for key, _ in pairs]
        self._values = dict(pairs)

    def value(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        return self._values.get(key)

    def number(self, key: bytes, default: int) -> int:
        """Return the value of a key as a number; `default` if there is none."""
        value = self.value(key)
        return default if value is None else values.decode_number(value)

    def partitions(self, topic_id: int, first: int) -> list[int]:
        """Return the numbers of a topic's partitions in ascending order, including the first."""
        numbers = {keys.parse(key).partition for key, _ in self.between(group_keys.cursors(topic_id))}
        return sorted({first, *numbers})

    def groups(self, topic_id: int, first: int) -> dict[bytes, int]:
        """Return the ids of a topic's groups by their names; `first` is the number of its first partition."""
        entries = self.between(group_keys.groups(topic_id))
        ids = {group_keys.group_name(key): values.decode_topic(value)[0] for key, value in entries}
        if DEFAULT_GROUP_NAME not in ids and self.value(keys.cursor(topic_id, first, DEFAULT_GROUP)) is not None:
            ids[DEFAULT_GROUP_NAME] = DEFAULT_GROUP
        return ids

    def head(self, topic_id: int, partition: int) -> tuple[int, int]:
        """Return the head of a partition, as a sequence number and in bytes."""
        value = self.value(keys.head(topic_id, partition))
        return (0, 0) if value is None else values.decode_head(value)

    def delays(self, topic_id: int, partition: int) -> DelaysState:
        """Return the state of the delayed messages of a partition."""
        value = self.value(delay_keys.delays(topic_id, partition))
        return NO_DELAYS if value is None else delay_records.decode_delays(value)

    def between(self, key_range: keys.KeyRange) -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs of a range."""
        start, stop = (bisect_left(self._keys, bound) for bound in key_range)
        return ((key, self._values[key]) for key in self._keys[start:stop])


Pairs = AsyncIterator[tuple[bytes, bytes]]


class StateReader:
    """Reads the states of topics in the order of their ids.

    With a few reads per topic, 10,000 topics took 4 s; a page of a space has the keys of many.

    Args:
      spaces: the pairs of each space of `keys.STATE_OF_TOPICS`.
    """

    def __init__(self, spaces: Iterable[Pairs]) -> None:
        self._spaces = [*zip(keys.STATE_OF_TOPICS, spaces, strict=True)]
        self._next: dict[Space, tuple[bytes, bytes]] = {}  # read, and of a later topic

    async def of_topic(self, topic_id: int) -> State:
        """Return the state of a topic, whose id must be higher than those before."""
        state: list[tuple[bytes, bytes]] = []
        for space, pairs in self._spaces:
            start, stop = keys.topic_range(space, topic_id)
            pair = self._next.pop(space, None) or await anext(pairs, None)
            while pair is not None and pair[0] < stop:
                if pair[0] >= start:  # otherwise its topic was deleted, and its keys will be
                    state.append(pair)
                pair = await anext(pairs, None)
            if pair is not None:
                self._next[space] = pair
        return State(state)


def records_of(topic_id: int, partition: int, group: int) -> keys.KeyRange:
    """Return the key range of all returned messages of a group."""
    first, last = (keys.records(topic_id, partition, group, range_, 0) for range_ in (Range.FRONT, Range.BACK))
    return first[0], last[1]


async def held_bytes(chunks: Pairs, returned: Pairs, bitmaps: dict[int, int]) -> int:
    """Return the total size of unsettled payloads and attributes; reads every message."""
    total_bytes = 0
    async for key, value in chunks:
        first_seq = keys.chunk_first_seq(key)
        settled = bitmaps.get(first_seq, 0)
        sizes = values.decode_chunk(first_seq, value).sizes()
        total_bytes += sum(size for index, size in enumerate(sizes) if not settled >> index & 1)
    async for _, value in returned:
        total_bytes += values.decode_record(value).content_bytes
    return total_bytes
