"""Keys of what keeps duplicates away: ids of publishes, and unique keys of messages; `keys` has their grammar.

Ids are ordered by the time of their commit, so that those whose time is over come first.
"""

import struct

from miniqueue.storage.keys import KeyRange, Space

_dedup = struct.Struct(">BQQQ")
_topic = struct.Struct(">BQ")


def dedup(topic_id: int, committed_at_ms: int, serial: int) -> bytes:
    """Key of the ids of a commit."""
    return _dedup.pack(Space.DEDUP, topic_id, committed_at_ms, serial)


def committed_at_ms_and_serial(key: bytes) -> tuple[int, int]:
    """Parse `dedup`."""
    committed_at_ms, serial = _dedup.unpack(key)[2:]
    return committed_at_ms, serial


def dedups(topic_id: int) -> KeyRange:
    """Range of the ids of a topic."""
    return _topic.pack(Space.DEDUP, topic_id), _topic.pack(Space.DEDUP, topic_id + 1)


def unique(topic_id: int, key: bytes) -> bytes:
    """Key of the message that has a unique key."""
    return _topic.pack(Space.UNIQUE, topic_id) + key


def unique_range(topic_id: int) -> KeyRange:
    """Range of the unique keys of a topic."""
    return _topic.pack(Space.UNIQUE, topic_id), _topic.pack(Space.UNIQUE, topic_id + 1)


def unique_key(key: bytes) -> bytes:
    """Parse `unique`."""
    return key[_topic.size :]
