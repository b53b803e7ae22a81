"""Keys of what keeps duplicates away: ids of publishes, and unique keys of messages; `keys` has their grammar.

Ids are ordered by the time of their commit, so that those whose time is over come first.
"""

import struct

from miniqueue.storage.keys import KeyRange, Space

_dedup = struct.Struct(">BQQQ")
_topic = struct.Struct(">BQ")
_unique = struct.Struct(">BQH")


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


def unique(topic_id: int, key: bytes, message_id: bytes) -> bytes:
    """Key that says that a message has a unique key."""
    return _unique.pack(Space.UNIQUE, topic_id, len(key)) + key + message_id


def unique_range(topic_id: int) -> KeyRange:
    """Range of the unique keys of a topic."""
    return _topic.pack(Space.UNIQUE, topic_id), _topic.pack(Space.UNIQUE, topic_id + 1)


def unique_key_and_message_id(key: bytes) -> tuple[bytes, bytes]:
    """Parse `unique`."""
    start = _unique.size
    stop = start + _unique.unpack_from(key)[2]
    return key[start:stop], key[stop:]


def claims(topic_id: int, key: bytes) -> KeyRange:
    """Range of the messages that have a unique key; ids are ASCII."""
    start = unique(topic_id, key, b"")
    return start, start + b"\xff"
