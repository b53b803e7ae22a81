"""Publishes messages with unique keys; a topic has at most one message with each key.

    publish ─▶ wait for room ─▶ lock the keys ─▶ which messages have them? ─▶ published, or a duplicate ─▶ unlock
                                                    └ unknown: look up all keys in the store

A lock serializes the lookups of each key: if two publishes have the same key, the second one sees the first. The event
loop runs nothing else between a lookup's result and its publish. Several messages are published in their order, and in
one commit if nothing comes in between. A publish of several keys locks them in sorted order, which prevents deadlocks.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.commit.journal import Accepted
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic
from miniqueue.core.log.unique_keys import UniqueKeys
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import MiniqueueError, StorageError
from miniqueue.storage.format import dedup

#: Maximum number of stored messages that are read for one key. There can be several: a delayed message that expired
#: before it was due may be due after another message has taken its key.
MAX_CLAIMS = 100

_Key = tuple[bytes, bytes]


class Asked(NamedTuple):
    """A request to publish a message to the topic `name`, with a unique key or without."""

    name: bytes
    payload: bytes
    options: PublishOptions

    @property
    def key(self) -> _Key:
        """The topic and the unique key; the key is b"" if there is none."""
        return self.name, self.options.unique_key


class UniquePublisher:
    """Publishes messages with unique keys; publishes with the same key run one after another.

    Args:
      engine: has the topics and the store.
      backpressure: makes publishers wait for room.
      publish: adds a message; see `Publisher.publish_with`.
    """

    def __init__(
        self,
        engine: Engine,
        backpressure: Backpressure,
        publish: Callable[[bytes, bytes, PublishOptions], Accepted],
    ) -> None:
        self._topics = engine.topics
        self._journal = engine.journal
        self._backpressure = backpressure
        self._publish = publish
        self._held: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    async def publish(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Look up the unique key of a message, then add the message to a topic, as its options say.

        Raises as `Publisher.publish_with`, and StorageError if the key cannot be looked up.
        """
        result = (await self.publish_several([Asked(name, payload, options)]))[0]
        if isinstance(result, MiniqueueError):
            raise result
        return result

    async def publish_several(self, asked: Sequence[Asked]) -> list[Accepted | MiniqueueError]:
        """Add messages in this order, each as `publish` does; return the result or the error of each.

        Waits for room only once, before the first message, so the caller must limit the number of messages.
        """
        await self._backpressure.admit(_nothing)
        locks = [self._lock(key) for key in sorted({request.key for request in asked if request.options.unique_key})]
        run, held = _Run(self, asked), 0
        try:
            for lock in locks:
                await lock.acquire()
                held += 1
            return await run.publish()
        finally:
            run.forget()
            for lock in locks[:held]:
                lock.release()

    def _lock(self, key: _Key) -> asyncio.Lock:
        """Return the lock of a key: first come, first served; it is dropped when no publish uses it."""
        lock = self._held.get(key)
        if lock is None:
            lock = self._held[key] = asyncio.Lock()
        return lock

    def known(self, name: bytes) -> Topic | None:
        """Return the topic if it exists."""
        return self._topics.find(name)

    def add(self, request: Asked) -> Accepted | MiniqueueError:
        """Add a message whose key was looked up; return the result or the error."""
        try:
            return self._publish(*request)
        except MiniqueueError as exc:
            return exc

    async def ask(self, topic_id: int, key: bytes) -> dict[bytes, int]:
        """Return the messages that have a key in the store, with their expiry times; usually at most one."""
        self._journal.admission.check()
        try:
            start, stop = dedup.claims(topic_id, key)
            pairs = await self._journal.store.scan(start, stop, max_items=MAX_CLAIMS, max_bytes=MAX_CLAIMS * 64)
        except StorageError:
            self._journal.admission.check()  # raises if the store is being reopened
            raise
        return {dedup.unique_key_and_message_id(stored)[1]: dedup.decode_unique(value) for stored, value in pairs}


class _Run:
    """Messages that are published together, while the locks of all their keys are held."""

    def __init__(self, publisher: UniquePublisher, asked: Sequence[Asked]) -> None:
        self._publisher = publisher
        self._asked = asked
        self._looked: list[tuple[UniqueKeys, bytes]] = []
        self._errors: dict[_Key, MiniqueueError] = {}

    async def publish(self) -> list[Accepted | MiniqueueError]:
        """Publish all messages, each as soon as its key and the keys before it are known."""
        results: list[Accepted | MiniqueueError] = []
        remaining = self._asked
        while remaining:
            await self._learn({request.key for request in remaining})
            results += self._publish_known(remaining)
            remaining = self._asked[len(results) :]
        return results

    def _publish_known(self, asked: Sequence[Asked]) -> Iterator[Accepted | MiniqueueError]:
        """Publish messages up to the first whose key is not known, for example because the topic was just deleted."""
        made: set[Topic] = set()
        for request in asked:
            topic = self._publisher.known(request.name)
            if topic is not None and topic in made:
                self._note_unclaimed(topic.unique_keys, request.options.unique_key)
            if not self._is_known(request.key):
                return
            yield self._errors.get(request.key) or self._publisher.add(request)
            if topic is None and (topic := self._publisher.known(request.name)) is not None:
                made.add(topic)

    def _note_unclaimed(self, keys: UniqueKeys, key: bytes) -> None:
        """Record that the store has no message with a key, because this run has just created the topic."""
        if not keys.is_known(key):
            keys.look(key)
            self._looked.append((keys, key))
            keys.note(key, {})

    def _is_known(self, key: _Key) -> bool:
        """Whether the messages that have a key are known, or their lookup has failed."""
        topic = self._publisher.known(key[0]) if key[1] else None
        return topic is None or key in self._errors or topic.unique_keys.is_known(key[1])

    async def _learn(self, keys: set[_Key]) -> None:
        unknown = [key for key in sorted(keys) if not self._is_known(key)]
        if len(unknown) == 1:
            await self._learn_one(unknown[0])
        elif unknown:
            await asyncio.gather(*map(self._learn_one, unknown))

    async def _learn_one(self, key: _Key) -> None:
        topic = self._publisher.known(key[0])
        if topic is None or topic.id is None:
            return
        keys = topic.unique_keys
        keys.look(key[1])
        self._looked.append((keys, key[1]))
        try:
            stored = await self._publisher.ask(topic.id, key[1])
        except MiniqueueError as exc:
            if topic.unique_keys is keys:  # if not, the topic was deleted or is read again; the key is looked up again
                self._errors[key] = exc
        else:
            if topic.unique_keys is keys:
                keys.note(key[1], stored)

    def forget(self) -> None:
        """Drop the results of all lookups."""
        for keys, key in self._looked:
            keys.unnote(key)


def _nothing() -> None:
    """Do nothing: only the wait for room is needed."""
