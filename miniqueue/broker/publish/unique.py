"""Publishes messages with unique keys; a topic has at most one message with each key.

    publish ─▶ wait for room ─▶ lock the keys ─▶ which messages have them? ─▶ published, or a duplicate ─▶ unlock
                                                    └ unknown: look up all keys in the store

A lock serializes the lookups of each key: if two publishes have the same key, the second one sees the first. The event
loop runs nothing else between a lookup's result and its publish. Several messages are published in their order, and in
one commit if nothing comes in between. A publish of several keys locks them in sorted order, which prevents deadlocks.

A message that replaces one that waits is published by itself: the other one is found first, in every group.

    replace ─▶ who has the key? ─▶ find: where does it wait? ─▶ still there ─▶ published, and the other one removed
                 └ no message        └ leased                     └ no: again
                   published           a duplicate
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.commit.journal import Accepted
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.new_partitions import PartitionsDueError
from miniqueue.broker.model.topic import Topic
from miniqueue.core.log.unique_keys import UniqueKeys
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import MessageStateError, MiniqueueError, StorageError
from miniqueue.errors.requests import UnknownTopicError
from miniqueue.storage.format import dedup

#: Maximum number of stored messages that are read for one key. There can be several: a delayed message that expired
#: before it was due may be due after another message has taken its key.
MAX_CLAIMS = 100
#: Maximum number of searches for a message to replace, which may become due or be delivered during each.
MAX_LOOKS = 4

T = TypeVar("T")

_Key = tuple[bytes, bytes]


class Replaceable(NamedTuple):
    """A message that waits, as it was found; what is called here does not wait.

    Attributes:
      is_there: returns whether it waits where it was found, if it has its key still.
      check: raises LimitReachedError if it cannot be removed now.
      remove: removes it in all groups.
    """

    is_there: Callable[[], bool]
    check: Callable[[], None]
    remove: Callable[[], None]


#: Finds a message of a topic by its id; see `Replacing.find`.
Find: TypeAlias = Callable[[bytes, bytes, ExitStack], Coroutine[Any, Any, Replaceable | None]]


class Asked(NamedTuple):
    """A request to publish a message to the topic `name`, with a unique key or without."""

    name: bytes
    payload: bytes
    options: PublishOptions

    @property
    def as_plain(self) -> "Asked":
        """The same without REPLACE."""
        return self._replace(options=self.options._replace(is_replacing=False))

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
      owner: returns the message that has a key; see `Duplicates.owner`.
      find: finds messages that wait, to replace them.

    Attributes:
      owner: returns the message that has a key, without a wait.
      publish_now: adds a message, without a wait.
      make_spare: makes the partitions that a message lacks whose topic is new.
    """

    def __init__(
        self,
        engine: Engine,
        backpressure: Backpressure,
        publish: Callable[[bytes, bytes, PublishOptions], Accepted],
        owner: Callable[[Topic, bytes], Accepted | None],
        find: Find,
    ) -> None:
        self._topics = engine.topics
        self._journal = engine.journal
        self._backpressure = backpressure
        self.make_spare = engine.maker.make_spare
        self.publish_now = publish
        self.owner = owner
        self._find = find
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
        async with self._holding({request.key for request in asked if request.options.unique_key}) as run:
            return await run.publish(asked)

    async def act(self, keys: Collection[_Key], replaced: Collection[_Key], act: Callable[["KnownKeys"], T]) -> T:
        """Wait for room, then call `act` while the messages that have these keys are known; return its result.

        `replaced` are those of the keys whose messages `act` may replace. Raises what `act` raises, and StorageError or
        UnavailableError if a key cannot be looked up.
        """
        async with self._holding(keys) as run:
            while True:
                await run.prepare(keys, replaced)
                try:
                    return act(run)
                except PartitionsDueError as due:
                    await self.make_spare(due)

    async def is_taken(self, name: bytes, key: bytes) -> bool:
        """Return whether a message of a topic has a unique key.

        Raises StorageError or UnavailableError if that cannot be looked up.
        """
        async with self._lock((name, key)):
            run = KnownKeys(self)
            try:
                await run.know([(name, key)])
                return bool(run.owner((name, key)))
            finally:
                run.forget()

    @asynccontextmanager
    async def _holding(self, keys: Collection[_Key]) -> AsyncIterator["KnownKeys"]:
        """Wait for room, and lock the keys while the block runs; what it looks up is forgotten at its end."""
        await self._backpressure.admit(_nothing)
        locks = [self._lock(key) for key in sorted(keys)]
        run, held = KnownKeys(self), 0
        try:
            for lock in locks:
                await lock.acquire()
                held += 1
            yield run
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
            return self.publish_now(*request)
        except MiniqueueError as exc:
            return exc

    async def find(self, name: bytes, message_id: bytes, watches: ExitStack) -> Replaceable | None:
        """Find a message that waits, see `Replacing.find`; raises also BrokenOffError."""
        return await self._journal.epoch.once(self._find(name, message_id, watches))

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


class KnownKeys:
    """What is known of unique keys while all of them are locked."""

    def __init__(self, publisher: UniquePublisher) -> None:
        self._publisher = publisher
        self._looked: list[tuple[UniqueKeys, bytes]] = []
        self._errors: dict[_Key, MiniqueueError] = {}
        self._waiting: dict[_Key, tuple[bytes, Replaceable | None]] = {}  # what was found, with its id
        self._watches = ExitStack()

    async def publish(self, asked: Sequence[Asked]) -> list[Accepted | MiniqueueError]:
        """Publish messages, each as soon as its key and the keys before it are known."""
        results: list[Accepted | MiniqueueError] = []
        remaining = list(asked)
        while remaining:
            await self._learn({request.key for request in remaining})
            if not remaining[0].options.is_replacing:
                try:
                    results.extend(self._publish_known(remaining))  # up to the message that must wait
                except PartitionsDueError as due:
                    await self._publisher.make_spare(due)
            elif (result := await self._replace(remaining[0])) is not None:
                results.append(result)
            else:
                remaining[0] = remaining[0].as_plain
            del remaining[: len(remaining) - len(asked) + len(results)]
        return results

    async def _replace(self, request: Asked) -> Accepted | MiniqueueError | None:
        """Publish a message in place of the one that waits with its key; None if none waits, or if it is leased."""
        try:
            for _ in range(MAX_LOOKS):
                await self._learn({request.key})
                if await self._find({request.key}):
                    break
            if self._found(request.key) is None:
                return None
            self.check(request.key)
            return self.replace(*request)
        except MiniqueueError as exc:
            return exc

    def check(self, key: _Key) -> None:
        """Raise LimitReachedError if `replace` could not remove the message that has a key."""
        if (waiting := self._found(key)) is not None:
            waiting.check()

    def replace(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Publish a message in place of the one that was found to have its key; if that has left, as any message.

        The caller has called `check`. Raises as `Publisher.publish_with`.
        """
        request = Asked(name, payload, options)
        waiting = self._found(request.key)
        if waiting is None:
            return self._publisher.publish_now(*request.as_plain)
        accepted = self._publisher.publish_now(*request)
        if not accepted.is_duplicate:
            waiting.remove()
        return accepted

    async def prepare(self, keys: Collection[_Key], replaced: Collection[_Key]) -> None:
        """Look up keys, as `know` does, and find the messages that have those in `replaced`, for `replace`."""
        for _ in range(MAX_LOOKS):
            await self.know(keys)
            if await self._find(replaced) and all(map(self._is_read, keys)):
                return
        await self.know(keys)

    async def _find(self, keys: Collection[_Key]) -> bool:
        """Find the messages that have these keys and wait; return whether all that were found are there still."""
        for key in sorted(keys):
            self._waiting.pop(key, None)
            if owner := self.owner(key):
                with suppress(MessageStateError, UnknownTopicError):
                    self._waiting[key] = owner, await self._publisher.find(key[0], owner, self._watches)
        return all(self._found(key) is not None for key in keys if key in self._waiting)

    def _found(self, key: _Key) -> Replaceable | None:
        """Return the message that was found to have a key, if it has the key still, and waits where it was found."""
        owner, waiting = self._waiting.get(key, (b"", None))
        return waiting if waiting is not None and self.owner(key) == owner and waiting.is_there() else None

    def owner(self, key: _Key) -> bytes:
        """Return the id of the message that has a key; b"" if there is none, or if it is not known."""
        topic = self._publisher.known(key[0])
        if topic is None or topic.id is None or not topic.unique_keys.is_known(key[1]):
            return b""
        owner = self._publisher.owner(topic, key[1])
        return b"" if owner is None else owner.message_id

    async def know(self, keys: Collection[_Key]) -> None:
        """Look up keys until the messages that have them are known, whatever the caller settles before it publishes.

        Raises the error of a failed lookup.
        """
        while unread := [key for key in sorted(keys) if not self._is_read(key)]:
            await asyncio.gather(*map(self._learn_one, unread))
            for error in self._errors.values():
                raise error

    def _publish_known(self, asked: Sequence[Asked]) -> Iterator[Accepted | MiniqueueError]:
        """Publish messages up to the first that replaces another, or whose key is not known.

        A key is no longer known if, for example, the topic was just deleted.
        """
        made: set[Topic] = set()
        for request in asked:
            topic = self._publisher.known(request.name)
            if topic is not None and topic in made:
                self.note_unclaimed(topic, request.options.unique_key)
            if request.options.is_replacing or not self._is_known(request.key):
                return
            yield self._errors.get(request.key) or self._publisher.add(request)
            if topic is None and (topic := self._publisher.known(request.name)) is not None:
                made.add(topic)

    def note_unclaimed(self, topic: Topic, key: bytes) -> None:
        """Record that the store has no message with a key, because the caller has just created the topic."""
        keys = topic.unique_keys
        if not keys.is_known(key):
            keys.look(key)
            self._looked.append((keys, key))
            keys.note(key, {})

    def _is_read(self, key: _Key) -> bool:
        topic = self._publisher.known(key[0])
        return topic is None or topic.unique_keys.is_read(key[1])

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
        self._watches.close()
        for keys, key in self._looked:
            keys.unnote(key)


def _nothing() -> None:
    """Do nothing: only the wait for room is needed."""
