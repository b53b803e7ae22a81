"""Finds messages that wait, for publishes that replace them in all groups, in one commit.

    id ─▶ where does it wait, in each group? ─▶ still there, in all? ─▶ published ─▶ removed
            └ leased in one: refused                └ no: the caller looks for its id again

All reads come first. What they found is checked again, used, and removed in one iteration of the event loop, so no
consumer can take the message in the middle.

A message of the log is removed from its chunk, so its commit must be done. A message that was published with a delay
can be removed while its commit is in progress, or before: the commit of the new message deletes it, if it was written.
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple

from miniqueue.broker.acts.holes import Holes
from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peek import Peek
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.publish.unique import Replaceable
from miniqueue.broker.stored.browse import CursorBrowser, Position
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Range
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.group import picking, view
from miniqueue.core.log.delayed import Place
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.ids import DelayedId, parse_any_id
from miniqueue.core.message.message import Chunk, Record
from miniqueue.errors import MessageStateError
from miniqueue.errors.requests import UnknownGroupError, UnknownMessageError
from miniqueue.storage.format import keys, values


class _MovedError(Exception):
    """The message was delivered, returned, or settled while it was searched for."""


class _InGroup(NamedTuple):
    """Where a message waits in one group, and what was read there.

    Attributes:
      cursor: the cursor of the group.
      seq: the sequence number of the message.
      position: its position.
      content: the chunk that contains the message, or its record if it was returned.
      removed: the orders that have been removed from the range of the record since it was read.
    """

    cursor: GroupCursor
    seq: int
    position: Position
    content: Chunk | Record
    removed: set[int]

    @property
    def is_in_log(self) -> bool:
        """Whether its removal settles a message of a chunk."""
        return isinstance(self.content, Chunk)

    def is_there(self) -> bool:
        """Whether the message waits there still."""
        if isinstance(self.content, Chunk):
            return self.seq in picking.waiting_in_log(self.cursor, self.content, {self.seq})
        range_, order = self.position
        return order not in self.removed and view.is_waiting(self.cursor, range_, order)

    def remove(self) -> None:
        """Drop the message, which waits there still."""
        drop = partial(self.cursor.drop, kind=Kind.PURGED)
        if isinstance(self.content, Chunk):
            picking.settle_in_log(self.cursor, self.content, [self.seq], drop)
        else:
            drop(picking.take_returned(self.cursor, *self.position, self.content))


class Replacing:
    """Finds messages to replace.

    Args:
      engine: has the topics and the store.
      dispatcher: learns what has left a group.
      delayed: the messages that were published with a delay.
      holes: limits what is settled ahead of reading.
    """

    def __init__(self, engine: Engine, dispatcher: Dispatcher, delayed: DelayedMessages, holes: Holes) -> None:
        self._journal = engine.journal
        self._dispatcher = dispatcher
        self._delayed = delayed
        self._holes = holes
        self._messages = Peek(engine)

    async def find(self, name: bytes, message_id: bytes, watches: ExitStack) -> Replaceable | None:
        """Return a message that waits in each group that has not settled it; None if it has moved, or is gone.

        Only acts that run within an epoch may call this. `watches` is closed when the result is no longer used.

        Raises:
          MessageStateError: a group has leased the message.
          InvalidTopicError, UnknownTopicError, UnavailableError, StorageError.
        """
        id_parts = parse_any_id(message_id)
        topic = self._journal.existing_topic(name)
        partition = topic.partitions.get(id_parts[0])
        if partition is None:
            return None
        if isinstance(id_parts, DelayedId):
            return await self._find_delayed(topic, partition, (id_parts.due_at_ms, id_parts.serial))
        with suppress(_MovedError, UnknownGroupError, UnknownMessageError):
            return await self._find_in_groups(topic, partition, id_parts[1], watches)
        return None

    async def _find_delayed(self, topic: Topic, partition: Partition, position: Place) -> Replaceable | None:
        message = await self._delayed.read(topic, partition, position)
        if message is None:
            return None

        def is_there() -> bool:
            # The message waits as long as it has its key, which the caller checks.
            return topic.partitions.get(partition.number) is partition

        def remove() -> None:
            self._delayed.remover(topic, Kind.CANCELLED)(partition, [(position, message)])
            self._journal.touch(topic)

        return Replaceable(is_there, _nothing, remove)

    async def _find_in_groups(
        self, topic: Topic, partition: Partition, seq: int, watches: ExitStack
    ) -> Replaceable | None:
        if seq >= partition.tail_seq:
            await self._journal.committer.flush()
        cursors = list(partition.cursors.values())
        looks = [await self._find(topic, cursor, seq, watches) for cursor in cursors]
        waiting = [each for each in looks if each is not None]
        if not waiting:
            return None

        def is_there() -> bool:
            is_same = topic.partitions.get(partition.number) is partition
            return is_same and [*partition.cursors.values()] == cursors and all(each.is_there() for each in waiting)

        return Replaceable(is_there, partial(self._check, topic, waiting), partial(self._remove, topic, waiting))

    def _check(self, topic: Topic, waiting: Sequence[_InGroup]) -> None:
        """Raise LimitReachedError if there is no room for the holes that the removal of a message may leave."""
        in_log = [each for each in waiting if each.is_in_log]
        for each in in_log:
            self._holes.check(each.cursor)
        if in_log:
            self._holes.check_memory(topic)

    def _remove(self, topic: Topic, waiting: Sequence[_InGroup]) -> None:
        hole_count = sum(view.hole_count(each.cursor) for each in waiting)
        for each in waiting:
            each.remove()
        self._holes.charge(topic, sum(view.hole_count(each.cursor) for each in waiting) - hole_count)
        for each in waiting:
            self._dispatcher.settled(topic.group_of(each.cursor))

    async def _find(self, topic: Topic, cursor: GroupCursor, seq: int, watches: ExitStack) -> _InGroup | None:
        """Return where a message waits in a group; None if the group has settled it."""
        topic_id, group = topic.id, _group_of(topic, cursor)
        if topic_id is None:
            raise _MovedError
        chunk = await CursorBrowser(self._journal.store, topic_id, cursor, group).waiting_in(seq)
        if chunk is not None:
            return _InGroup(cursor, seq, Position(Range.LOG, seq), chunk, set())
        if not cursor.leases and all(view.is_empty(cursor, range_) for range_ in RETURN_RANGES):
            return None
        seen, was_moved = await self._messages.look(topic.name, (cursor.partition, seq), group)
        if was_moved or topic.id != topic_id:
            raise _MovedError
        if seen is None:
            return None
        if seen.state is State.LEASED:
            raise MessageStateError("the message is leased; its consumer settles it, or its lease expires")
        position = seen.stored.position
        if position is None or position.range_ is Range.LOG:
            raise _MovedError
        return await self._returned(topic_id, cursor, seq, position, watches)

    async def _returned(
        self, topic_id: int, cursor: GroupCursor, seq: int, position: Position, watches: ExitStack
    ) -> _InGroup:
        """Return where a message waits that was returned, with its record."""
        removed = watches.enter_context(cursor.returned[position.range_].watch())
        await self._journal.committer.flush()  # so the store does not have records that were removed before
        key = keys.record(topic_id, cursor.partition, cursor.group, *position)
        value = await self._journal.store.get(key)
        if value is None:
            raise _MovedError
        return _InGroup(cursor, seq, position, values.decode_record(value), removed)


def _nothing() -> None:
    """Do nothing: the removal of a delayed message leaves no hole."""


def _group_of(topic: Topic, cursor: GroupCursor) -> bytes:
    """Return the name of the group of a cursor; raises _MovedError if the group was moved or deleted meanwhile."""
    for group in topic.existing_groups:
        if group.id == cursor.group:
            return group.name
    raise _MovedError
