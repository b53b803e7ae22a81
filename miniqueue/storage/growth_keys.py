"""Keys of where logs ended when a topic was given more partitions; `keys` has their grammar."""

import struct

from miniqueue.storage.keys import KeyRange, Space

_growth = struct.Struct(">BQI")


def growth(topic_id: int, partition_count: int) -> bytes:
    """Key of where logs ended when there were no longer so many partitions."""
    return _growth.pack(Space.GROWTH, topic_id, partition_count)


def growths(topic_id: int) -> KeyRange:
    """Range of all of them that a topic has, the first one first."""
    return growth(topic_id, 0), growth(topic_id + 1, 0)


def partition_count(key: bytes) -> int:
    """Parse `growth`."""
    count: int = _growth.unpack(key)[2]
    return count
