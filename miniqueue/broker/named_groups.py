"""Which group of a topic somebody means who looks into it, and from which of its lanes on."""

from operator import attrgetter

from miniqueue.broker.group import Group
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.group_errors import UnknownGroupError
from miniqueue.core.look_errors import UnknownMessageError


def group_named(topic: Topic, name: bytes | None) -> Group:
    """Return a group of a topic that exists; for None the default group, or the first by name where it is not there."""
    groups = topic.existing_groups
    if name is None:
        return topic.default if topic.default.id is not None else min(groups, key=attrgetter("name"))
    found = next((group for group in groups if group.name == name), None)
    if found is None:
        raise UnknownGroupError
    return found


def lanes_from(cursors: list[GroupCursor], after: tuple[int, int] | DelayedId | None) -> list[GroupCursor]:
    """Return the lanes from that of `after` on; raises UnknownMessageError."""
    if after is None:
        return list(cursors)
    index = next((index for index, cursor in enumerate(cursors) if cursor.partition == after[0]), None)
    if index is None:
        raise UnknownMessageError
    return cursors[index:]
