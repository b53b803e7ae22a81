"""Publishing: the way of messages into a topic, up to the commit that makes them durable.

publish       ─▶ may anything be added? ─▶ is there room? ─▶ appended, with a number each ─▶ the open commit
publish_with  ─▶ is it there already? ─▶ is it to wait? ─▶ in its lane ─▶ published, with attributes

Many messages at a time without any options are the usual case; one with options goes the longer way.
"""

from collections.abc import Sequence

from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Accepted, Published
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.duplicates import Duplicates
from miniqueue.broker.journal import Journal
from miniqueue.broker.registry import Registry
from miniqueue.broker.topic import Topic
from miniqueue.broker.trimming import Trimmer
from miniqueue.core import lanes
from miniqueue.core.batch_options import NO_BATCH_OPTIONS, BatchOptions
from miniqueue.core.delayed import Delayed
from miniqueue.core.message_id import first_id, format_message_id, joined_ids
from miniqueue.core.partition import Partition
from miniqueue.core.partitioning import partitions_for, places_by_number
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.topic_errors import PausedError
from miniqueue.errors import PayloadTooLargeError


class Publisher:
    """Adds messages to topics.

    Args:
      registry: has the topics, and makes those that are missing.
      journal: commits what is added.
      trimmer: makes room in topics that drop what is oldest, and knows what there is room for.
      delayer: keeps messages that wait for their time.
      duplicates: knows what was published already.
      clock: tells when a message is due, and when it expires.
      max_bytes: the largest payload accepted.
    """

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        trimmer: Trimmer,
        delayer: Delayer,
        duplicates: Duplicates,
        clock: Clock,
        *,
        max_bytes: int,
    ) -> None:
        self._registry = registry
        self._topics = registry.topics
        self._journal = journal
        self._admission = journal.admission
        self._committer = journal.committer
        self._quota = trimmer.quota
        self._trimmer = trimmer
        self._lanes = registry.lanes
        self._delayer = delayer
        self._duplicates = duplicates
        self._clock = clock
        self._max_message_bytes = max_bytes

    def publish(
        self, name: bytes, payloads: list[bytes], attributes: list[bytes] | None = None, number: int | None = None
    ) -> Published:
        """Add messages to a topic, which is created when there is none.

        There is at least one of `payloads`; they are stored as they are, in this order, in one commit. So are their
        `attributes`, if given: those of each, as `core.attributes` encodes them. `number` is that of the
        partition, or of its lane, that they go to; None for the one that plain messages go to now.

        Raises:
          InvalidTopicError, PayloadTooLargeError: nothing was added.
          PausedError: the topic takes none now.
          LimitReachedError: there are too many topics; TopicFullError: the topic is full. Nothing was added.
          FullError, ReadOnlyError, DrainingError: nothing can be added now.
        """
        self._admission.check()
        if len(payloads) == 1:  # as a rule, of who waits for each reply
            size_bytes = longest_bytes = len(payloads[0])
        else:
            size_bytes, longest_bytes = sum(map(len, payloads)), max(map(len, payloads))
            self._committer.open.has_many = True
        if longest_bytes > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        if attributes is not None:
            size_bytes += sum(map(len, attributes))
        topic = self._room(name, payloads, size_bytes, attributes)
        partition = topic.plain if number is None else self._lanes.of(topic, number)
        first_seq = _add(topic, partition, payloads, size_bytes, attributes)
        self._journal.touch(topic)
        commit = self._committer.add(size_bytes)
        return tuple.__new__(Published, (commit, partition.number, first_seq, size_bytes))  # in a quarter of the time

    def _room(self, name: bytes, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None) -> Topic:
        """Return the topic, made if there is none, when it has room for these."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            return self._registry.create(name, payloads, size_bytes, attributes)
        if topic.is_paused_in:
            raise PausedError
        if topic.is_limited and self._quota.admit(topic, payloads, size_bytes, attributes):
            self._trimmer.note(topic)
        return topic

    def publish_with(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add one message to a topic, as its options say; one with a unique key, `UniquePublisher` does.

        Raises, beside what `publish` does:
          InvalidAttributesError: headers and key are too long together.
          InvalidOptionError: an option cannot be used.
          LimitReachedError: there are too many dedup ids. Nothing was added.
          DedupMismatchError: other content was published under the dedup id. Nothing was added.
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
        self._duplicates.note(self._topics[name], options, accepted, described.expires_at_ms)
        return accepted

    def publish_batch(
        self, name: bytes, payloads: list[bytes], dedup_id: bytes, each: BatchOptions = NO_BATCH_OPTIONS
    ) -> Accepted:
        """Add messages to a topic under one dedup id, all or, when it is a duplicate, none; raises as `publish_with`.

        A duplicate has the ids of the first batch, whatever it was made of, unless digests show that it differs. `each`
        has the options of each message, if there are any: headers, key and time to live.
        """
        self._admission.check()
        attributes = each.attributes(self._clock.next_ms())
        options = PublishOptions(dedup_id=dedup_id)
        first = self._first_of(name, options)
        if first is not None:
            return first
        topic = self._topics.get(name)
        if attributes is not None and topic is not None and topic.partition_count > 1:
            accepted = self._add_by_key(name, payloads, attributes, each.keys)
        else:
            commit, partition, first_seq, size_bytes = self.publish(name, payloads, attributes)
            message_id = format_message_id(partition, first_seq)
            accepted = Accepted(commit, message_id, size_bytes=size_bytes, message_count=len(payloads))
        self._duplicates.note(self._topics[name], options, accepted)
        return accepted

    def _add_by_key(
        self, name: bytes, payloads: list[bytes], attributes: list[bytes], keys: Sequence[bytes]
    ) -> Accepted:
        """Add messages with one commit, each to the partition of its key."""
        if (longest_bytes := max(map(len, payloads))) > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        size_bytes = sum(map(len, payloads)) + sum(map(len, attributes))
        topic = self._room(name, payloads, size_bytes, attributes)
        numbers = partitions_for(keys, topic.partition_count, topic.plain.number)
        seqs = self._add_each(topic, payloads, attributes, numbers)
        self._journal.touch(topic)
        commit = self._committer.add(size_bytes)
        message_id = joined_ids(zip(numbers, seqs, strict=True))
        return Accepted(commit, message_id, size_bytes=size_bytes, message_count=len(payloads))

    def _add_each(self, topic: Topic, payloads: list[bytes], attributes: list[bytes], numbers: list[int]) -> list[int]:
        """Append messages to the partitions of these numbers; return the sequence number of each."""
        seqs = [0] * len(numbers)
        for number, places in places_by_number(numbers).items():
            added, described = [payloads[place] for place in places], [attributes[place] for place in places]
            added_bytes = sum(map(len, added)) + sum(map(len, described))
            first_seq = _add(topic, self._lanes.of(topic, number), added, added_bytes, described)
            for seq, place in enumerate(places, first_seq):
                seqs[place] = seq
        return seqs

    def _first_of(self, name: bytes, options: PublishOptions) -> Accepted | None:
        """Return what became of the message that makes this one a duplicate, if there is one."""
        if not (options.dedup_id or options.unique_key):
            return None
        return self._duplicates.first_of(self._topics.get(name) or Topic(name), options)

    def _delay(self, name: bytes, message: Delayed, due_at_ms: int) -> Accepted:
        """Have the message wait for its time."""
        payload, attributes, size_bytes = message.payload, message.attributes, message.content_bytes
        if len(payload) > self._max_message_bytes:
            raise PayloadTooLargeError(len(payload), self._max_message_bytes)
        topic = self._room(name, [payload], size_bytes, [attributes])
        delayed_id = self._delayer.add(topic, due_at_ms, message)
        commit = self._committer.add(size_bytes)
        return Accepted(commit, bytes(delayed_id), size_bytes=size_bytes)

    def _append(self, name: bytes, payload: bytes, attributes: bytes, options: PublishOptions) -> Accepted:
        """Add the message to the log that its key and its priority choose."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            number = lanes.lane(0, options.priority)
        else:
            number = topic.number_for(options.key, options.priority)
        published = self.publish(name, [payload], [attributes], number)
        message_id = format_message_id(published.partition, published.first_seq)
        return Accepted(published.commit, message_id, size_bytes=published.size_bytes)


def _add(
    topic: Topic, partition: Partition, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None
) -> int:
    """Append messages to a partition of a topic that has room for them; return the number of the first."""
    first_seq = partition.append(payloads, size_bytes)
    if attributes is not None:
        partition.describe(first_seq, attributes)
    if topic.trace is not None:
        topic.trace.published(partition.number, first_seq, len(payloads))
    return first_seq
