"""Publishes messages with unique keys, of which a topic has one at a time.

    publish ─▶ is there room? ─▶ nobody else holds the keys ─▶ who has them? ─▶ published, or a duplicate ─▶ let go
                                                                  └ not known: the store is asked, for all at once

The store is asked by one after the other for each key: so of two that come together the second sees the first. Between
the answer and the publish nobody else has a turn. Several are published in their order, and with one commit where
nothing comes between. Who publishes with several keys takes them in one order, so that no two wait for each other.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from miniqueue.broker.commit import Accepted
from miniqueue.broker.crowd import Crowd
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.unique_keys import UniqueKeys
from miniqueue.errors import MiniqueueError, StorageError
from miniqueue.storage import dedup_keys, dedup_records

#: Of one key, with those whose message had expired before it was due and so was due after another one had the key.
MAX_CLAIMS = 100

_Key = tuple[bytes, bytes]


class Asked(NamedTuple):
    """A message that somebody wants to publish to the topic `name`, with a unique key or without."""

    name: bytes
    payload: bytes
    options: PublishOptions

    @property
    def key(self) -> _Key:
        """Of the topic, its unique key; b"" for none."""
        return self.name, self.options.unique_key


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
        self._held: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    async def publish(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add a message to a topic, as its options say, when it is known who has its unique key.

        Raises as `Publisher.publish_with`, and StorageError when the store cannot say who has it.
        """
        result = (await self.publish_several([Asked(name, payload, options)]))[0]
        if isinstance(result, MiniqueueError):
            raise result
        return result

    async def publish_several(self, asked: Sequence[Asked]) -> list[Accepted | MiniqueueError]:
        """Add messages in this order, each as `publish` does; return what became of each, or what that would raise.

        There is room for all when there is any: who calls bounds how many they are.
        """
        await self._crowd.admit(_nothing)
        locks = [self._lock(key) for key in sorted({one.key for one in asked if one.options.unique_key})]
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
        """Return what those have in turn who publish with a key: first come, first served; it goes with the last."""
        lock = self._held.get(key)
        if lock is None:
            lock = self._held[key] = asyncio.Lock()
        return lock

    def known(self, name: bytes) -> Topic | None:
        """Return the topic, if there is one and it has been made."""
        topic = self._topics.get(name)
        return None if topic is None or topic.id is None else topic

    def add(self, one: Asked) -> Accepted | MiniqueueError:
        """Add a message of which it is known who has its key; return what became of it."""
        try:
            return self._publish(*one)
        except MiniqueueError as exc:
            return exc

    async def ask(self, topic_id: int, key: bytes) -> dict[bytes, int]:
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


class _Run:
    """Messages that are published together, by who has all their keys."""

    def __init__(self, publisher: UniquePublisher, asked: Sequence[Asked]) -> None:
        self._publisher = publisher
        self._asked = asked
        self._looked: list[tuple[UniqueKeys, bytes]] = []
        self._errors: dict[_Key, MiniqueueError] = {}

    async def publish(self) -> list[Accepted | MiniqueueError]:
        """Publish all, each as soon as it and those before it can be."""
        results: list[Accepted | MiniqueueError] = []
        left = self._asked
        while left:
            await self._learn({one.key for one in left})
            results += self._publish_known(left)
            left = self._asked[len(results) :]
        return results

    def _publish_known(self, asked: Sequence[Asked]) -> Iterator[Accepted | MiniqueueError]:
        """Publish up to the first of which it is not known who has its key, as where a topic has just been deleted."""
        made: set[Topic] = set()
        for one in asked:
            topic = self._publisher.known(one.name)
            if topic is not None and topic in made:
                self._note_nobody(topic.unique_keys, one.options.unique_key)
            if not self._is_known(one.key):
                return
            yield self._errors.get(one.key) or self._publisher.add(one)
            if topic is None and (topic := self._publisher.known(one.name)) is not None:
                made.add(topic)

    def _note_nobody(self, keys: UniqueKeys, key: bytes) -> None:
        """Note that the store has nothing of a key: its topic was made a moment ago."""
        if not keys.is_known(key):
            keys.look(key)
            self._looked.append((keys, key))
            keys.note(key, {})

    def _is_known(self, key: _Key) -> bool:
        """Whether it is known now who has a key; also where it cannot be."""
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
            self._errors[key] = exc
        else:
            if topic.unique_keys is keys:  # else the topic was deleted, or is read anew
                keys.note(key[1], stored)

    def forget(self) -> None:
        """Forget what the store has said."""
        for keys, key in self._looked:
            keys.unnote(key)


def _nothing() -> None:
    """Only wait for room."""
