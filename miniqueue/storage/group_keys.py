"""Keys of groups: which there are in a topic, and which are deleted; `keys` has their grammar.

The group `default` has no entry while its id is 0: then its cursors say that it is there.
"""

import struct

from miniqueue.core.lease import Range
from miniqueue.storage import keys
from miniqueue.storage.keys import KeyRange, Space

_topic = struct.Struct(">BQ")
_purge = struct.Struct(">BQII")


def group(topic_id: int, name: bytes) -> bytes:
    """Key of a group's entry among those of its topic."""
    return _topic.pack(Space.GROUP, topic_id) + name


def group_name(key: bytes) -> bytes:
    """Parse `group`."""
    return key[_topic.size :]


def groups(topic_id: int) -> KeyRange:
    """Range of the entries of a topic's groups."""
    return _of_topic(Space.GROUP, topic_id)


def purge(topic_id: int, group_id: int) -> bytes:
    """Key that says: this group is deleted, its keys not yet all, nor the messages that only it needed."""
    return _purge.pack(Space.GROUP_PURGE, topic_id, 0, group_id)


def purge_group_id(key: bytes) -> int:
    """Parse `purge`."""
    group_id: int = _purge.unpack(key)[3]
    return group_id


def purges(topic_id: int) -> KeyRange:
    """Range of the groups of a topic that are still to be purged."""
    return _of_topic(Space.GROUP_PURGE, topic_id)


def cursors(topic_id: int) -> KeyRange:
    """Range of the states of all groups in all partitions of a topic."""
    return _of_topic(Space.CURSOR, topic_id)


def of_group(topic_id: int, partition: int, group_id: int) -> list[KeyRange]:
    """Every range that holds keys of a group in one partition."""
    cursor = keys.cursor(topic_id, partition, group_id)
    places = [keys.records(topic_id, partition, group_id, place, 0) for place in Range]
    return [
        (cursor, cursor + b"\x00"),
        keys.bitmaps(topic_id, partition, group_id),
        keys.gaps(topic_id, partition, group_id),
        *places,
    ]


def _of_topic(space: Space, topic_id: int) -> KeyRange:
    return _topic.pack(space, topic_id), _topic.pack(space, topic_id + 1)
