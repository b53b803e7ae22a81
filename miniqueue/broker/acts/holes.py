"""Holes: chunks that are settled, partly or as a whole, ahead of reading; each uses memory until reading passes it.

    an act on a chosen message, a publish that replaces one ─▶ check ─▶ settled ─▶ charge
    the topic has changed; every few seconds ─▶ count: what reading has passed is given back

A cursor has a limited number of them. Their memory is charged to the owner of the topic, or else to the process:
administrators make holes, and so do publishers whose messages replace others.
"""

from contextlib import aclosing
from typing import Final

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group import view
from miniqueue.errors import LimitReachedError, MemoryLimitError

#: Maximum number of holes of a cursor.
MAX_HOLES = 100_000
#: The memory of a hole without its bitmap, about.
HOLE_BYTES: Final = 200
#: Interval between two counts of the holes of all topics that have some.
COUNT_SECONDS: Final = 10.0


class Holes:
    """The holes of all topics.

    Args:
      engine: has the accounts of memory.
    """

    def __init__(self, engine: Engine) -> None:
        self._memory = engine.memory
        self._clock = engine.clock
        self._share = engine.share
        self._charged: dict[Topic, tuple[str, int]] = {}  # each topic that has holes: who is charged, and the size
        self._next_count_at = 0.0
        self._counting = SingleTask(engine.spawn)

    def check(self, cursor: GroupCursor) -> None:
        """Raise LimitReachedError if a cursor may not have one more hole."""
        if view.hole_count(cursor) >= MAX_HOLES:
            text = f"{MAX_HOLES} chunks of the topic are partly settled; consume or purge older messages first"
            raise LimitReachedError(text)

    def check_memory(self, topic: Topic) -> None:
        """Raise MemoryLimitError if the owner of a topic may not use more memory."""
        owner = topic.settings.owner or ""
        if self._memory.over_count and self._account(owner).first_over() is not None:
            self.changed(topic)  # reading may have passed holes since the last count
            if (over := self._account(owner).first_over()) is not None:
                raise MemoryLimitError(over.name, over.limit_bytes, over.setting)

    def charge(self, topic: Topic, count: int) -> None:
        """Charge the memory of `count` more holes of a topic, without bitmaps; a negative count gives it back."""
        owner, size_bytes = self._charged.get(topic, (topic.settings.owner or "", 0))
        self._put(topic, owner, max(0, size_bytes + count * HOLE_BYTES))

    def changed(self, topic: Topic) -> None:
        """Count the holes of a topic, and charge their memory: it was read, changed, or deleted."""
        cursors = [] if topic.id is None or topic.at_rest is not None else topic.cursors
        holed = view.with_holes(cursors)
        size_bytes = sum(HOLE_BYTES * view.hole_count(cursor) + view.bitmap_bytes(cursor) for cursor in holed)
        self._put(topic, topic.settings.owner or "", size_bytes)

    def tick(self) -> None:
        """Begin to count holes if it is time; nothing else gives back the memory of those that reading has passed."""
        now = self._clock.monotonic()
        if self._charged and now >= self._next_count_at and not self._counting.is_running:
            self._next_count_at = now + COUNT_SECONDS
            self._counting.start(self._count())

    async def _count(self) -> None:
        async with aclosing(self._share.in_turns(list(self._charged), 1)) as topics:
            async for topic in topics:
                self.changed(topic)

    def _put(self, topic: Topic, owner: str, size_bytes: int) -> None:
        before_owner, before_bytes = self._charged.pop(topic, ("", 0))
        if size_bytes:
            self._charged[topic] = owner, size_bytes
        if before_owner != owner and before_bytes:
            self._account(before_owner).add(Purpose.TOPICS, -before_bytes)
            before_bytes = 0
        if size_bytes != before_bytes:
            self._account(owner).add(Purpose.TOPICS, size_bytes - before_bytes)

    def _account(self, owner: str) -> MemoryAccount:
        return self._memory.of_user(owner) if owner else self._memory
