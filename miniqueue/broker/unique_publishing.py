"""Publishes messages with unique keys, of which a topic has one at a time.

    publish ─▶ is there room? ─▶ nobody else holds the key ─▶ who has it? ─▶ published, or a duplicate ─▶ let go
                                                                 └ not known: the store is asked

The store is asked at most once for each publish, and by one after the other for each key: so of two that come together
the second sees the first. Between the answer and the publish nobody else has a turn.
"""

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from miniqueue.broker.commit import Accepted
from miniqueue.broker.crowd import Crowd
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.errors import StorageError
from miniqueue.storage import dedup_keys, dedup_records

#: Of one key, with those whose message had expired before it was due and so was due after another one had the key.
MAX_CLAIMS = 100


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
        self._held: WeakValueDictionary[tuple[bytes, bytes], asyncio.Lock] = WeakValueDictionary()

    async def publish(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add a message to a topic, as its options say, when it is known who has its unique key.

        Raises as `Publisher.publish_with`, and StorageError when the store cannot say who has it.
        """
        key = options.unique_key
        await self._crowd.admit(_nothing)
        async with self._lock(name, key):
            topic = await self._known(name, key)
            try:
                return self._publish(name, payload, options)
            finally:
                if topic is not None:
                    topic.unique_keys.unnote(key)

    def _lock(self, name: bytes, key: bytes) -> asyncio.Lock:
        """Return what those have in turn who publish with a key: first come, first served; it goes with the last."""
        lock = self._held.get((name, key))
        if lock is None:
            lock = self._held[name, key] = asyncio.Lock()
        return lock

    async def _known(self, name: bytes, key: bytes) -> Topic | None:
        """Return the topic, where it is known now who has the key; None when it does not exist."""
        while True:
            topic = self._topics.get(name)
            if topic is None or topic.id is None:
                return None
            keys = topic.unique_keys
            recent = keys.find(key)
            if recent and not all(recent.values()):  # else, when these have expired, another may have it
                return topic
            keys.look(key)
            try:
                stored = await self._ask(topic.id, key)
            except BaseException:
                keys.unnote(key)
                raise
            if topic.unique_keys is keys:  # else the topic was deleted, or is read anew
                keys.note(key, stored)
                return topic

    async def _ask(self, topic_id: int, key: bytes) -> dict[bytes, int]:
        """Return the messages that have a key, and when each expires; hardly ever more than one."""
        self._journal.admission.check()
        try:
            start, stop = dedup_keys.claims(topic_id, key)
            pairs = await self._journal.store.scan(start, stop, max_items=MAX_CLAIMS, max_bytes=MAX_CLAIMS * 64)
        except StorageError:
            self._journal.admission.check()  # it is being reopened
            raise
        return {
            dedup_keys.unique_key_and_message_id(stored)[1]: dedup_records.decode_unique(value)
            for stored, value in pairs
        }


def _nothing() -> None:
    """Only wait for room."""
