"""Keys of groups: the entries of existing groups (GROUP), and of deleted groups (GROUP_PURGE); see `keys`.

The group `default` has no entry while its id is 0; its cursors show that it exists.
"""

from miniqueue.core.cursor.lease import Range
from miniqueue.storage.format import keys
from miniqueue.storage.format.keys import GROUP_LAYOUT, TOPIC_LAYOUT, KeyRange, Space, topic_range


def group(topic_id: int, name: bytes) -> bytes:
    """Key of a group's entry in its topic."""
    return TOPIC_LAYOUT.pack(Space.GROUP, topic_id) + name


def group_name(key: bytes) -> bytes:
    """Parse `group`."""
    return key[TOPIC_LAYOUT.size :]


def groups(topic_id: int) -> KeyRange:
    """Range of the entries of a topic's groups."""
    return topic_range(Space.GROUP, topic_id)


def purge(topic_id: int, group_id: int) -> bytes:
    """Key that states that a group is deleted; some of its keys, or of the messages only it needed, remain."""
    return GROUP_LAYOUT.pack(Space.GROUP_PURGE, topic_id, 0, group_id)


def purge_group_id(key: bytes) -> int:
    """Parse `purge`."""
    group_id: int = GROUP_LAYOUT.unpack(key)[3]
    return group_id


def purges(topic_id: int) -> KeyRange:
    """Range of the deleted groups of a topic whose keys remain."""
    return topic_range(Space.GROUP_PURGE, topic_id)


def cursors(topic_id: int) -> KeyRange:
    """Range of the cursors of all groups in all partitions of a topic."""
    return topic_range(Space.CURSOR, topic_id)


def of_group(topic_id: int, partition: int, group_id: int) -> list[KeyRange]:
    """Every range that holds keys of a group in one partition."""
    cursor = keys.cursor(topic_id, partition, group_id)
    return [
        (cursor, cursor + b"\x00"),
        keys.bitmaps(topic_id, partition, group_id),
        keys.gaps(topic_id, partition, group_id),
        *(keys.records(topic_id, partition, group_id, range_, 0) for range_ in Range),
    ]
