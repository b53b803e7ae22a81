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
from miniqueue.broker.model.rest import put_to_rest
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.tasks import SingleTask

#: Topics that one event-loop iteration checks, so that it stays short.
TOPICS_IN_TURN: Final = 20


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
                    self.put(topic)
                if topic.at_rest is None:
                    awake.add(topic)
        self._awake = awake

    def put(self, topic: Topic) -> None:
        """Put a topic to rest if nothing is in it."""
        if self._engine.journal.is_dirty(topic):
            return
        if topic.growths:
            lanes.forget_growths(self._engine.journal, topic)
        if topic.unique_keys.is_used:
            self._engine.journal.touch(topic)  # the next commits write its claims, and then nothing of it is in memory
        elif put_to_rest(topic, self._engine.events.changed):
            self._engine.cache.touch(topic)
            self._engine.limits.measure(topic)

    def _is_used(self, topic: Topic) -> bool:
        unread_seconds = min((group.unread_seconds for group in topic.existing_groups), default=0.0)
        return unread_seconds < self._rest_seconds
