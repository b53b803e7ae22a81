"""Puts topics to rest in which nothing is, so that they use little memory; `model.rest` says what is left of them.

    tick ─▶ check, once a minute ─▶ empty, awake since the last check, and not used for a minute ─▶ at rest
    a topic at rest was only inspected ─▶ at rest again

The time, which is that without a consumer, spares topics that are used now and then. An act that waits in the middle
must find partitions and groups again, by number and by name: the topic may have been at rest meanwhile.
"""

from contextlib import aclosing
from typing import Final

from miniqueue.broker.engine import lanes
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.rest import is_wide, put_to_rest, resting
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.share import Work
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.core.log.partition import Partition

#: Topics that one event-loop iteration checks, so that it stays short.
TOPICS_IN_TURN: Final = 20
#: Partitions of a wide topic that one iteration frees: even that takes time, as each has many objects.
FREED_IN_TURN: Final = 50


class TopicRest:
    """Puts topics to rest.

    Args:
      engine: provides the topics and the clock.
      rest_seconds: the interval between two checks of all topics, and the time without a consumer before a rest.
    """

    def __init__(self, engine: Engine, *, rest_seconds: float) -> None:
        self._engine = engine
        self._topics = engine.topics.by_name
        self._rest_seconds = rest_seconds
        self._next_look_at = engine.clock.monotonic() + rest_seconds
        self._looking = SingleTask(engine.spawn)
        self._awake: set[Topic] = set()  # topics that were awake at the last check

    def tick(self) -> None:
        """Check all topics if it is time and no check is in progress."""
        now = self._engine.clock.monotonic()
        if now >= self._next_look_at and not self._looking.is_running:
            self._next_look_at = now + self._rest_seconds
            self._looking.start(self._look())

    async def _look(self) -> None:
        awake: set[Topic] = set()
        if not self._rest_seconds:
            self._awake = {*self._topics.values()}
        async with aclosing(self._engine.share.in_turns(list(self._topics.values()), TOPICS_IN_TURN)) as topics:
            async for topic in topics:
                if topic.id is None or topic.at_rest is not None:
                    continue
                if topic in self._awake and not self._is_used(topic):
                    await self.put(topic)
                if topic.at_rest is None:
                    awake.add(topic)
        self._awake = awake

    async def put(self, topic: Topic) -> None:
        """Put an awake topic to rest if nothing is in it; in turns if it is wide."""
        if not self._is_ready(topic):
            return
        if not is_wide(topic):
            if put_to_rest(topic, self._engine.events.woken):
                self._note(topic)
            return
        share, partitions = self._engine.share, [*topic.partitions.values()]
        at_rest = await share.finish(resting(topic, self._engine.events.woken))
        if at_rest is not None and not self._engine.journal.is_dirty(topic):
            topic.rest(at_rest)
            self._note(topic)
            await share.finish(_freed(partitions))

    def _is_ready(self, topic: Topic) -> bool:
        """Whether the store has all of a topic; if it lacks unique keys, the next commits write them."""
        if self._engine.journal.is_dirty(topic):
            return False
        if topic.growths:
            lanes.forget_growths(self._engine.journal, topic)
        if topic.unique_keys.is_used:
            self._engine.journal.touch(topic)  # the next commits write its claims, and then nothing of it is in memory
            return False
        return True

    def _note(self, topic: Topic) -> None:
        self._engine.cache.touch(topic)
        self._engine.limits.measure(topic)
        self._engine.waking.changed(topic)

    def _is_used(self, topic: Topic) -> bool:
        unread_seconds = min((group.unread_seconds for group in topic.existing_groups), default=0.0)
        return unread_seconds < self._rest_seconds


def _freed(partitions: list[Partition]) -> Work[None]:
    """Free the memory of partitions that belong to no topic anymore, some in each turn."""
    while partitions:
        del partitions[-FREED_IN_TURN:]
        yield
