"""Publishes messages with unique keys, of which a topic has one at a time.

    publish ─▶ is there room? ─▶ nobody else holds the key ─▶ who has it? ─▶ published, or a duplicate ─▶ let go
                                                                 └ not known: the store is asked

The store is asked at most once for each publish, and by one after the other for each key: so of two that come together
the second sees the first. Between the answer and the publish nobody else has a turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from miniqueue.broker.commit import Accepted
from miniqueue.broker.crowd import Crowd
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.unique_keys import FREE
from miniqueue.errors import StorageError
from miniqueue.storage import dedup_keys, dedup_records


class UniquePublisher:
    """Publishes, one after the other for each key.

    Args:
      topics: by name.
      journal: has the store.
      crowd: says when there is room.
      publish: adds a message, as `Publisher.publish_with`.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        crowd: Crowd,
        publish: Callable[[bytes, bytes, PublishOptions], Accepted],
    ) -> None:
        self._topics = topics
        self._journal = journal
        self._crowd = crowd
        self._publish = publish
        self._held: dict[tuple[bytes, bytes], asyncio.Future[None]] = {}  # done when it is let go

    async def publish(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add a message to a topic, as its options say, when it is known who has its unique key.

        Raises as `Publisher.publish_with`, and StorageError when the store cannot say who has it.
        """
        key = options.unique_key
        await self._crowd.admit(_nothing)
        async with self._holding(name, key):
            topic = await self._known(name, key)
            try:
                return self._publish(name, payload, options)
            finally:
                if topic is not None:
                    topic.unique_keys.unnote(key)

    @asynccontextmanager
    async def _holding(self, name: bytes, key: bytes) -> AsyncIterator[None]:
        while (held := self._held.get((name, key))) is not None:
            await asyncio.shield(held)
        self._held[name, key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            self._held.pop((name, key)).set_result(None)

    async def _known(self, name: bytes, key: bytes) -> Topic | None:
        """Return the topic, where it is known now who has the key; None when it does not exist."""
        while True:
            topic = self._topics.get(name)
            if topic is None or topic.id is None:
                return None
            keys = topic.unique_keys
            if keys.find(key) is not None:
                return topic
            message_id = await self._ask(topic.id, key)
            if topic.unique_keys is keys:  # else the topic was deleted, or is read anew
                found = keys.find(key)
                keys.note(key, message_id if found is None else found)
                return topic

    async def _ask(self, topic_id: int, key: bytes) -> bytes:
        self._journal.admission.check()
        try:
            value = await self._journal.store.get(dedup_keys.unique(topic_id, key))
        except StorageError:
            self._journal.admission.check()  # it is being reopened
            raise
        return FREE if value is None else dedup_records.decode_unique(value)


def _nothing() -> None:
    """Only wait for room."""
