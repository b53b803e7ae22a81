"""Makes room in topics that are full, by dropping the messages that wait longest.

    publish ─▶ note ─▶ trim, right before the commit that takes the new messages:
                         take_oldest ─▶ drop ─▶ … until the topic is within its limits
                              └ not in memory ─▶ load a page, go on

So what goes and what comes are in one commit. What is leased is never dropped; what came back, only when nothing else
waits. The work goes with the chunks that are touched, not with the messages.
"""

from collections.abc import Callable

from miniqueue.broker import reading
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota, Room
from miniqueue.broker.topic import Topic
from miniqueue.core import purging
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.errors import MiniqueueError

#: So much a commit drops of a topic beyond what it adds: a limit that was lowered is reached over several commits.
MAX_BYTES_PER_COMMIT = 8 << 20


class Trimmer:
    """Drops what is over the limits.

    Args:
      journal: has the store, and commits what was dropped.
      quota: knows the limits.
      loaded: called for each topic that may have new messages to hand out.
    """

    def __init__(self, journal: Journal, quota: Quota, loaded: Callable[[Topic], None]) -> None:
        self._journal = journal
        self._quota = quota
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
        if self._quota.drops_oldest and topic.id is not None and self._quota.excess(topic).is_over:
            self.note(topic)
            self._journal.committer.request()

    async def _trim(self, topic: Topic) -> bool:
        """Return whether something is left for the next commit."""
        left_bytes = MAX_BYTES_PER_COMMIT + topic.uncommitted_bytes
        while topic.id is not None and (excess := self._quota.excess(topic)).is_over:
            if left_bytes <= 0:
                return True
            dropped_bytes = self._drop(topic, excess)
            if dropped_bytes is not None:
                left_bytes -= dropped_bytes
                continue
            cursor = next((cursor for cursor in topic.cursors if cursor.blocked_on is not None), None)
            if cursor is None or topic.default.is_loading:
                break  # nothing waits; or it does when it is loaded, and then `loaded` is called
            if cursor.blocked_on is not Range.LOG and cursor.changes.records:
                return True  # these must be in the store before the rest of their range is loaded
            if not await self._load(topic, topic.id, cursor):
                break
        return False

    def _drop(self, topic: Topic, excess: Room) -> int | None:
        """Drop the next of what waits in memory, `excess` or a part of it; return its bytes, None when nothing does.

        What has the lowest priority goes first.
        """
        for cursor in reversed(topic.default.cursors):
            lease = purging.take_oldest(cursor, *excess)
            if lease is not None:
                cursor.drop(lease)
                self._journal.touch(topic)
                return lease.size_bytes + lease.count
            if cursor.blocked_on is not None:
                break
        return None

    async def _load(self, topic: Topic, topic_id: int, cursor: GroupCursor) -> bool:
        """Load the page that a cursor lacks; return whether that could be done."""
        assert cursor.blocked_on is not None
        topic.default.is_loading = True
        try:
            await reading.load(self._journal.store, cursor.blocked_on, cursor, topic_id, _nothing_to_flush)
        except MiniqueueError:
            return False  # whoever reads it next will say so
        finally:
            if cursor in topic.cursors:  # else it was deleted meanwhile
                topic.default.is_loading = False
                self._loaded(topic)
        return True


async def _nothing_to_flush() -> None:
    """Do nothing: no commit is under way, and nothing waits for one that belongs to the range."""
