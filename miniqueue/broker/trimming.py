"""Makes room in topics that are full: the messages that wait longest are dropped, or become dead letters.

    publish ─▶ note ─▶ trim, right before the commit that takes the new messages:
                         take_oldest ─▶ drop, or bury ─▶ … until the topic is within its limits
                              └ not in memory ─▶ load a page, go on

So what goes and what comes are in one commit. What is leased is never dropped; what came back, only when nothing else
waits. The work of dropping goes with the chunks that are touched, that of burying with the messages; others go on in
between.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from miniqueue.broker import reading
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota, Room
from miniqueue.broker.topic import Topic
from miniqueue.core import purging
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Lease, Range
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.partition import MAX_CHUNK_MESSAGES
from miniqueue.errors import MiniqueueError

#: So much a commit drops of a topic beyond what it adds: a limit that was lowered is reached over several commits.
MAX_BYTES_PER_COMMIT = 8 << 20
#: What a run that is dropped, or a message that is buried, counts there beside its bytes, since it takes 10 to 30 µs.
WORK_BYTES = 1 << 10
#: So much of this is done in one turn of the loop, and so many messages are buried at a time.
MAX_BYTES_IN_TURN = 512 << 10
MAX_BURIED_AT_ONCE = 256


class Graveyard(Protocol):
    """Takes what is over the limits of topics whose policy is `dead-letter`."""

    def left(self, topic: Topic) -> Room:
        """Return what there is room for."""
        ...

    def bury_oldest(self, topic: Topic, cursor: GroupCursor, lease: Lease) -> None:
        """Take the messages of a lease."""
        ...


class Trimmer:
    """Drops what is over the limits.

    Args:
      journal: has the store, and commits what was dropped.
      quota: knows the limits.
      loaded: called for each topic that may have new messages to hand out.

    Attributes:
      quota: the same.
      graveyard: to be set before anything is noted.
    """

    graveyard: Graveyard

    def __init__(self, journal: Journal, quota: Quota, loaded: Callable[[Topic], None]) -> None:
        self._journal = journal
        self.quota = quota
        self._loaded = loaded
        self._over: dict[Topic, None] = {}

    def note(self, topic: Topic) -> None:
        """Trim `topic` before the next commit."""
        self._over[topic] = None
        self._journal.committer.prepare = self.trim

    async def trim(self) -> None:
        """Trim every topic that was noted."""
        over, self._over = self._over, {}
        for topic in over:
            if await self._trim(topic):
                self.note(topic)

    def loaded(self, topic: Topic) -> None:
        """Hand out what is in memory now, and trim `topic` if it still is over its limits."""
        self._loaded(topic)
        if topic.id is None or self.quota.policy_of(topic) is not LimitPolicy.DROP_OLDEST:
            return  # the next publish has dead letters made; a topic that has them may be a little over its limits
        if self.quota.excess(topic).is_over:
            self.note(topic)
            self._journal.committer.request()

    async def _trim(self, topic: Topic) -> bool:
        """Return whether something is left for the next commit."""
        if topic.id is None:
            return False  # it was deleted since it was noted
        left_bytes = MAX_BYTES_PER_COMMIT + topic.uncommitted_bytes + WORK_BYTES * topic.uncommitted_count
        turn_bytes = MAX_BYTES_IN_TURN
        while topic.id is not None and (excess := self._giving_way(topic)).is_over:
            if left_bytes <= 0:
                return True
            dropped_bytes = self._drop(topic, excess)
            if dropped_bytes is not None:
                left_bytes -= dropped_bytes
                turn_bytes -= dropped_bytes
                if turn_bytes <= 0:
                    turn_bytes = MAX_BYTES_IN_TURN
                    await asyncio.sleep(0)
                continue
            cursor = next((cursor for cursor in topic.cursors if cursor.blocked_on is not None), None)
            if cursor is None or topic.group_of(cursor).is_loading:
                break  # nothing waits; or it does when it is loaded, and then `loaded` is called
            if cursor.blocked_on is not Range.LOG and cursor.changes.records:
                return True  # these must be in the store before the rest of their range is loaded
            if not await self._load(topic, topic.id, cursor):
                break
        return False

    def _giving_way(self, topic: Topic) -> Room:
        """Return how much is to give way to what came: nothing where the topic refuses, as it may meanwhile."""
        is_refusing = self.quota.policy_of(topic) is LimitPolicy.REFUSE
        return Room(0, 0) if is_refusing else self.quota.excess(topic)

    def _drop(self, topic: Topic, excess: Room) -> int | None:
        """Drop the next of what waits in memory, `excess` or a part of it; return its bytes, None when nothing does.

        Its work counts with them. It is what the group has that is furthest behind; what has the lowest priority goes
        first, then what is oldest.
        """
        group = topic.last_group or topic.default
        is_buried = self.quota.policy_of(topic) is LimitPolicy.DEAD_LETTER
        wanted = _within(excess, self.graveyard.left(topic)) if is_buried else excess
        for cursor in purging.oldest_first(group.cursors) if wanted.is_over else ():
            lease = purging.take_oldest(cursor, *wanted, MAX_BURIED_AT_ONCE if is_buried else MAX_CHUNK_MESSAGES)
            if lease is not None:
                if is_buried:
                    self.graveyard.bury_oldest(topic, cursor, lease)
                else:
                    cursor.drop(lease)
                purging.hold_back(cursor)
                self._journal.touch(topic)
                return lease.size_bytes + WORK_BYTES * (lease.count if is_buried else 1)
            if cursor.blocked_on is not None:
                break
        return None

    async def _load(self, topic: Topic, topic_id: int, cursor: GroupCursor) -> bool:
        """Load the page that a cursor lacks; return whether that could be done."""
        assert cursor.blocked_on is not None
        group = topic.group_of(cursor)
        group.is_loading = True
        try:
            await reading.load(self._journal.store, cursor.blocked_on, cursor, topic_id, _nothing_to_flush)
        except MiniqueueError:
            return False  # whoever reads it next will say so
        finally:
            if cursor in topic.cursors:  # else it was deleted meanwhile
                group.end_loading()
                self._loaded(topic)
        return True


def _within(excess: Room, left: Room) -> Room:
    """Return what to take of `excess`, with room for so much `left` elsewhere; where that is little, by messages.

    Bytes do not stop it: what is over the limits was let in since there was room for it, and grows as a dead letter.
    """
    if left.messages <= 0:
        return Room(0, 0)
    if left.messages < MAX_CHUNK_MESSAGES:
        return Room(max(1, min(excess.messages, left.messages)), 0)
    return excess


async def _nothing_to_flush() -> None:
    """Do nothing: no commit is under way, and nothing waits for one that belongs to the range."""
