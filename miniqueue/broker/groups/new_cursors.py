"""The cursors with which a group begins: made and encoded in turns, as there can be thousands, and complete at the end.

    start positions ─▶ cursors and their stored form, some in each event-loop iteration ─┐
    chunks that are committed meanwhile, partitions that are added ──────────────────────┴▶ complete ─▶ the group begins

No group has the cursors until then, so commits do not pass them their chunks: `complete` does, for the partitions that
have grown.
"""

import asyncio
from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from miniqueue.broker.groups.start_positions import StartPosition
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored import encode_commit
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.errors.requests import UnknownTopicError

#: Number of cursors that are made in one event-loop iteration.
CURSORS_IN_TURN: Final = 64

_partition, _tail = attrgetter("partition"), attrgetter("tail_seq", "tail_bytes")


class NewCursors:
    """The cursors of a group that does not exist yet.

    Args:
      topic: the topic, which must be pinned until the group begins.
      group_id: the id of the group.

    Attributes:
      by_partition: the cursors.
      batch: what the commit stores in which the group begins.
      depth: number of messages that the group gets, of those that there were when its positions were determined.
    """

    def __init__(self, topic: Topic, group_id: int) -> None:
        self.depth = 0
        self.by_partition: dict[int, GroupCursor] = {}
        self.batch: dict[bytes, bytes | None] = {}
        self._topic = topic
        self._topic_id = topic.id
        self._group_id = group_id

    async def make(self, positions: Mapping[int, StartPosition]) -> None:
        """Make the cursors; raises UnknownTopicError if the topic has been deleted since this object was created."""
        for count, (number, position) in enumerate(positions.items(), start=1):
            if self._topic.id != self._topic_id:
                raise UnknownTopicError
            self.depth += position.depth
            self._add(position.cursor(self._topic.partitions[number], self._group_id))
            if count % CURSORS_IN_TURN == 0:
                await asyncio.sleep(0)

    def complete(self) -> None:
        """Pass the cursors what was committed meanwhile, and add those of new partitions; the group begins at once."""
        cursors = self.by_partition.values()
        made = dict(zip(map(_partition, cursors), map(_tail, cursors), strict=True))
        for number, (tail_seq, tail_bytes) in _tails(self._topic).items() - made.items():
            cursor = self.by_partition.get(number)
            if cursor is None:
                self._add(GroupCursor(CursorState(), tail_seq, {}, is_new=True, partition=number, group=self._group_id))
            else:  # what is stored has the former size of the log; the same commit stores the present one with the head
                cursor.catch_up(tail_seq, tail_bytes)

    def _add(self, cursor: GroupCursor) -> None:
        assert self._topic_id is not None
        self.by_partition[cursor.partition] = cursor
        self.batch |= encode_commit.new_cursor(self._topic_id, cursor)


def _tails(topic: Topic) -> dict[int, tuple[int, int]]:
    """Return the ends of the logs of a topic, in messages and in bytes, by partition."""
    cursors = topic.existing_groups[0].cursors
    return dict(zip(map(_partition, cursors), map(_tail, cursors), strict=True))
