"""Publishing: adds messages to a topic, as part of the commit that makes them durable.

    publish       ─▶ are publishes accepted? ─▶ is there room? ─▶ appended, with a number each ─▶ the open commit
    publish_with  ─▶ is it a duplicate? ─▶ is it delayed? ─▶ in its lane ─▶ publish, with attributes

Messages without options are the usual case and take the short path of `publish`; a message with options takes the
longer path of `publish_with`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.commit.journal import Accepted, Published
from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import lane_of
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.publish.duplicates import Duplicates
from miniqueue.broker.publish.unique import Find, UniquePublisher
from miniqueue.core.log.delayed import Delayed
from miniqueue.core.log.partition import Partition
from miniqueue.core.message import lanes
from miniqueue.core.message.ids import first_id, format_message_id, joined_ids
from miniqueue.core.message.partitioning import indexes_by_number, partition_for, partitions_for
from miniqueue.core.message.parts import first_partition_of
from miniqueue.core.options.batch import NO_BATCH_OPTIONS, BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.defaults import NO_DEFAULTS
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import PayloadTooLargeError
from miniqueue.errors.requests import PausedError, SpreadTopicError

#: Stands for any topic that does not exist.
_NO_TOPIC = Topic(b"")

#: Returns the topic with a name if it has room for payloads, with their total size and their attributes.
FindRoom: TypeAlias = Callable[[bytes, list[bytes], int, list[bytes] | None], Topic]


class Publisher:
    """Adds messages to topics.

    Args:
      engine: has the topics, and commits what is added.
      delayed: keeps delayed messages until they are due.
      backpressure: makes publishers of messages with unique keys wait for room.
      find: finds messages that wait, to replace them.
      max_bytes: maximum size of a payload.

    Attributes:
      duplicates: remembers what was published.
      unique: publishes messages with unique keys.
    """

    def __init__(
        self,
        engine: Engine,
        delayed: DelayedMessages,
        backpressure: Backpressure,
        find: Find,
        *,
        max_bytes: int,
    ) -> None:
        self.duplicates = Duplicates(engine)
        self.unique = UniquePublisher(engine, backpressure, self.publish_with, self.duplicates.owner, find)
        self._topics = engine.topics.by_name
        self._registry, self._schemas = engine.topics, engine.schemas
        self._journal = engine.journal
        self._admission, self._memory, self._shares = engine.journal.admission, engine.memory, engine.shares
        self._committer, self._limits = engine.journal.committer, engine.limits
        self._admit = partial(engine.limits.admit, may_dead_letter=partial(dead_letters.may_dead_letter, engine))
        self._delayed = delayed
        self._clock = engine.clock
        self._max_message_bytes = max_bytes
        self._room: FindRoom = self._checked_room
        self._checks_limits = True

    def publish(
        self, name: bytes, payloads: list[bytes], attributes: list[bytes] | None = None, number: int | None = None
    ) -> Published:
        """Add messages to a topic, which is created if it does not exist.

        Args:
          name: name of the topic.
          payloads: one or more payloads; they are stored unchanged, in this order, in one commit.
          attributes: the attributes of each message, as `core.message.attributes` encodes them; None if there are none.
          number: number of the partition, or of its lane, to which the messages are added; None for the partition to
            which messages without options are added now.

        Raises; nothing was added then:
          InvalidTopicError, PayloadTooLargeError: the topic cannot exist, or a payload is too large.
          SchemaError, NoValidatorError: a message does not fit the schema of the topic, or that cannot be known.
          PausedError: the topic accepts no messages now.
          LimitReachedError: the maximum number of topics is reached.
          TopicFullError: the topic is full.
          FullError, ReadOnlyError, DrainingError: the broker accepts no messages now.
          MemoryLimitError: the client uses all the memory it may.
          ShareLimitError, RateLimitError: so does its user, or the owner of the topic, of another resource.
          PartitionsDueError: the topic would begin with many partitions; `PartitionMaker.make_spare` makes them.
        """
        if self._admission.refusal is not None or self._memory.over_count:
            self._admission.check()
        if len(payloads) == 1:  # fast path: a client that waits for each reply sends one message at a time
            size_bytes = longest_bytes = len(payloads[0])
        else:
            size_bytes, longest_bytes = sum(map(len, payloads)), max(map(len, payloads))
            self._committer.open.has_many = True
        if longest_bytes > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        if attributes is not None:
            size_bytes += sum(map(len, attributes))
        topic = self._room(name, payloads, size_bytes, attributes)
        partition = topic.plain if number is None else lane_of(self._journal, topic, number)
        first_seq = _add(topic, partition, payloads, size_bytes, attributes)
        self._journal.touch(topic)
        commit = self._committer.add(size_bytes)
        # Takes a quarter of the time of `Published(…)`.
        return tuple.__new__(Published, (commit, partition.number, first_seq, size_bytes))

    def _checked_room(
        self, name: bytes, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None
    ) -> Topic:
        """Return the topic if it has room for these messages; create it if it does not exist."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            return self._created(name, payloads, attributes)
        if self._shares.rates:
            self._shares.spend(len(payloads))
        if topic.is_paused_in:
            raise PausedError
        if topic.is_limited:
            _check_whole(topic)
            if topic.settings.max_message_bytes:
                _check_size(topic.settings, payloads)
            if topic.settings.schema is not None:
                self._schemas.check(topic.settings.schema, payloads)
            self._shares.admit_bytes(topic.settings.owner, size_bytes)
            if self._admit(topic, payloads, size_bytes, attributes):
                self._journal.trim_soon(topic)
        return topic

    def _created(self, name: bytes, payloads: list[bytes], attributes: list[bytes] | None) -> Topic:
        """Create a topic for messages, unless many partitions have to be made first: then nothing was spent."""
        settings = None
        if self._registry.defaults is not NO_DEFAULTS:
            settings = self._registry.settings_of_new(self._registry.check_name(name))
            self._registry.check_spare(name, settings)
        if self._shares.rates:
            self._shares.spend(len(payloads))
        if settings is not None:
            _check_size(settings, payloads)
            if settings.schema is not None:
                self._schemas.check(settings.schema, payloads)
        return self._registry.create(name, payloads, attributes)

    def publish_with(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add one message to a topic, as its options say.

        If it has a unique key, only `UniquePublisher` may call this: it looks up the key first, and removes the message
        that this one replaces.

        Raises what `publish` raises, and the following; nothing was added then:
          InvalidAttributesError: headers and key are too long together.
          InvalidOptionError: an option cannot be used.
          LimitReachedError: the maximum number of dedup ids, or of partitions with their lanes, is reached.
          DedupMismatchError: other content was published under the dedup id.
        """
        self._admission.check()
        now_ms = self._clock.next_ms()
        due_at_ms = options.due_at_ms(now_ms)
        described = options.attributes(due_at_ms)
        attributes = described.encode()
        first = self._first_of(name, options)
        if first is not None:
            return first._replace(message_id=first_id(first.message_id))
        if due_at_ms > now_ms:
            message = Delayed(now_ms, lanes.number_of(options.priority), payload, attributes)
            accepted = self._delay(name, message, due_at_ms)
        else:
            accepted = self._append(name, payload, attributes, options)
        self.duplicates.note(self._topics[name], options, accepted, described.expires_at_ms)
        return accepted

    def publish_batch(
        self, name: bytes, payloads: list[bytes], dedup_id: bytes, each: BatchOptions = NO_BATCH_OPTIONS
    ) -> Accepted:
        """Add messages to a topic under one dedup id; add none if the batch is a duplicate. Raises as `publish_with`.

        The result of a duplicate has the ids of the first batch, whatever the duplicate contains, unless digests show
        that it differs. `each` contains the options of each message, if any: headers, key, and time to live.
        """
        self._admission.check()
        attributes = each.attributes(self._clock.next_ms())
        options = PublishOptions(dedup_id=dedup_id)
        first = self._first_of(name, options)
        if first is not None:
            return first
        if attributes is not None and self._partition_count(name) > 1:
            accepted = self._add_by_key(name, payloads, attributes, each.keys)
        else:
            commit, partition, first_seq, size_bytes = self.publish(name, payloads, attributes)
            message_id = format_message_id(partition, first_seq)
            accepted = Accepted(commit, message_id, size_bytes=size_bytes, message_count=len(payloads))
        self.duplicates.note(self._topics[name], options, accepted)
        return accepted

    def _add_by_key(
        self, name: bytes, payloads: list[bytes], attributes: list[bytes], keys: Sequence[bytes]
    ) -> Accepted:
        """Add messages in one commit, each to the partition of its key."""
        if (longest_bytes := max(map(len, payloads))) > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        size_bytes = sum(map(len, payloads)) + sum(map(len, attributes))
        topic = self._room(name, payloads, size_bytes, attributes)
        numbers = partitions_for(keys, topic.partition_count, topic.plain.number, topic.first_partition)
        seqs = self._add_each(topic, payloads, attributes, numbers)
        self._journal.touch(topic)
        commit = self._committer.add(size_bytes)
        message_id = joined_ids(zip(numbers, seqs, strict=True))
        return Accepted(commit, message_id, size_bytes=size_bytes, message_count=len(payloads))

    def _add_each(self, topic: Topic, payloads: list[bytes], attributes: list[bytes], numbers: list[int]) -> list[int]:
        """Append each message to the partition with its number; return the sequence number of each."""
        seqs = [0] * len(numbers)
        for number, indexes in indexes_by_number(numbers).items():
            added, described = [payloads[index] for index in indexes], [attributes[index] for index in indexes]
            added_bytes = sum(map(len, added)) + sum(map(len, described))
            first_seq = _add(topic, lane_of(self._journal, topic, number), added, added_bytes, described)
            for seq, index in enumerate(indexes, first_seq):
                seqs[index] = seq
        return seqs

    # --- publishing several at once -----------------------------------------------------------------------------

    def check(self, name: bytes, payloads: Sequence[bytes]) -> Topic | None:
        """Return the topic, None if it does not exist, if it accepts these messages as soon as there is room for them.

        Raises as `publish` otherwise.
        """
        self._admission.check()
        if (longest_bytes := max(map(len, payloads))) > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            _check_size(self._registry.settings_of_new(self._registry.check_name(name)), payloads)
            return None
        if topic.is_paused_in:
            raise PausedError
        _check_whole(topic)
        _check_size(topic.settings, payloads)
        return topic

    def check_room(self, topic: Topic, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None) -> bool:
        """Return whether older messages must be evicted for these, which the caller adds now, or does not add at all.

        Raises as `publish` if there is no room.
        """
        self._shares.admit_bytes(topic.settings.owner, size_bytes)
        has_to_evict = self._admit(topic, payloads, size_bytes, attributes)
        self._limits.count_again(topic)
        return has_to_evict

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Add messages without a check of limits while the block runs, which does not wait: all of them were admitted.

        The topics exist. What a settle among them adds, such as a dead letter, may have used the room meanwhile.
        """
        self._room, self._checks_limits = self._existing, False
        try:
            yield
        finally:
            self._room, self._checks_limits = self._checked_room, True

    def _existing(
        self, name: bytes, _payloads: list[bytes], _size_bytes: int, _attributes: list[bytes] | None
    ) -> Topic:
        return self._topics[name]

    async def knows(self, name: bytes, dedup_id: bytes, unique_key: bytes) -> bool:
        """Return whether a publish to a topic with this id or this unique key, b"" for none, is known there.

        Raises StorageError or UnavailableError if the key cannot be looked up.
        """
        topic = self._registry.find(name)
        if topic is None:
            return False
        if dedup_id and self.duplicates.remembers(topic, dedup_id):
            return True
        return bool(unique_key) and await self.unique.is_taken(name, unique_key)

    def _first_of(self, name: bytes, options: PublishOptions) -> Accepted | None:
        """Return the result of the first publish if this publish is a duplicate of it, else None."""
        if not (options.dedup_id or options.unique_key):
            return None
        topic = self._topics.get(name) or _NO_TOPIC
        if topic.id is None and options.dedup_id and self._registry.defaults is not NO_DEFAULTS:
            with self._registry.like_new(name) as new:  # its settings can refuse the id
                return self.duplicates.published(new, options.dedup_id)
        return self.duplicates.first_of(topic, options)

    def _partition_count(self, name: bytes) -> int:
        """Return the number of partitions of a topic, or those that it has if it is created now."""
        topic = self._topics.get(name)
        if topic is not None and topic.id is not None:
            return topic.partition_count
        if self._registry.defaults is NO_DEFAULTS:
            return 1
        return self._registry.settings_of_new(self._registry.check_name(name)).partitions

    def _delay(self, name: bytes, message: Delayed, due_at_ms: int) -> Accepted:
        """Add a message that waits until it is due."""
        payload, attributes, size_bytes = message.payload, message.attributes, message.content_bytes
        if len(payload) > self._max_message_bytes:
            raise PayloadTooLargeError(len(payload), self._max_message_bytes)
        topic = self._room(name, [payload], size_bytes, [attributes])
        delayed_id = self._delayed.add(topic, due_at_ms, message)
        commit = self._committer.add(size_bytes)
        return Accepted(commit, bytes(delayed_id), size_bytes=size_bytes)

    def _append(self, name: bytes, payload: bytes, attributes: bytes, options: PublishOptions) -> Accepted:
        """Add a message to the lane that its key and its priority determine."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            count = self._partition_count(name)
            of_key = partition_for(options.key, count) if options.key else 0
            number = lanes.lane(first_partition_of(name) + of_key, options.priority)
        else:
            number = topic.number_for(options.key, options.priority)
            if self._checks_limits and number not in topic.partitions:  # the first message of this priority there
                self._limits.admit_partitions(len(topic.existing_groups), topic.settings.owner or "")
        published = self.publish(name, [payload], [attributes], number)
        message_id = format_message_id(published.partition, published.first_seq)
        return Accepted(published.commit, message_id, size_bytes=published.size_bytes)


def _check_whole(topic: Topic) -> None:
    """Raise SpreadTopicError for a spread topic: messages are published to its parts."""
    if topic.settings.spread:
        raise SpreadTopicError(topic.name, "a publish without the parts")


def _check_size(settings: TopicSettings, payloads: Sequence[bytes]) -> None:
    """Raise PayloadTooLargeError if a payload is larger than a topic with these settings accepts."""
    longest_bytes, max_bytes = max(map(len, payloads)), settings.max_message_bytes
    if max_bytes and longest_bytes > max_bytes:
        raise PayloadTooLargeError(longest_bytes, max_bytes, "max_message_bytes of the topic")


def _add(
    topic: Topic, partition: Partition, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None
) -> int:
    """Append messages to a partition of a topic that has room for them; return the first sequence number."""
    first_seq = partition.append(payloads, size_bytes)
    if attributes is not None:
        partition.describe(first_seq, attributes)
    if topic.trace is not None:
        topic.trace.published(partition.number, first_seq, len(payloads))
    return first_seq
