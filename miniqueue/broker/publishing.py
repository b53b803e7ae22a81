"""Publishing: the way of messages into a topic, up to the commit that makes them durable.

publish       ─▶ may anything be added? ─▶ is there room? ─▶ appended, with a number each ─▶ the open commit
publish_with  ─▶ is it there already? ─▶ is it to wait? ─▶ in its lane ─▶ published, with attributes

Many messages at a time without any options are the usual case; one with options goes the longer way.
"""

from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Accepted, Published
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.registry import Registry
from miniqueue.broker.topic import Topic
from miniqueue.broker.trimming import Trimmer
from miniqueue.core import lanes
from miniqueue.core.delayed import Delayed
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import format_message_id
from miniqueue.core.publish_options import Priority, PublishOptions
from miniqueue.core.topic_errors import PausedError
from miniqueue.errors import PayloadTooLargeError


class Publisher:
    """Adds messages to topics.

    Args:
      registry: has the topics, and makes those that are missing.
      journal: commits what is added.
      quota: says what there is room for.
      trimmer: makes room in topics that drop what is oldest.
      delayer: keeps messages that wait for their time.
      clock: tells when a message is due, and when it expires.
      max_message_bytes: the largest payload accepted.
    """

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        quota: Quota,
        trimmer: Trimmer,
        delayer: Delayer,
        clock: Clock,
        *,
        max_message_bytes: int,
    ) -> None:
        self._registry = registry
        self._topics = registry.topics
        self._journal = journal
        self._admission = journal.admission
        self._committer = journal.committer
        self._quota = quota
        self._trimmer = trimmer
        self._lanes = registry.lanes
        self._delayer = delayer
        self._clock = clock
        self._max_message_bytes = max_message_bytes

    def publish(
        self, name: bytes, payloads: list[bytes], attributes: list[bytes] | None = None, lane: int = 0
    ) -> Published:
        """Add messages to a topic, which is created when there is none.

        There is at least one of `payloads`; they are stored as they are, in this order, in one commit. So are their
        `attributes`, if given: those of each, as `core.attributes` encodes them. `lane` is the number of the lane that
        they go to.

        Raises:
          InvalidTopicError, PayloadTooLargeError: nothing was added.
          PausedError: the topic takes none now.
          LimitReachedError: there are too many topics; TopicFullError: the topic is full. Nothing was added.
          FullError, ReadOnlyError, DrainingError: nothing can be added now.
        """
        self._admission.check()
        if (longest_bytes := max(map(len, payloads))) > self._max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, self._max_message_bytes)
        size_bytes = sum(map(len, payloads))
        if attributes is not None:
            size_bytes += sum(map(len, attributes))
        topic = self._room(name, payloads, size_bytes, attributes)
        partition = self._lanes.of(topic, lane) if lane else topic.partitions[0]
        first_seq = partition.append(payloads, size_bytes)
        if attributes is not None:
            partition.describe(first_seq, attributes)
        self._journal.touch(topic)
        self._committer.request()
        commit = self._committer.open
        commit.size_bytes += size_bytes
        return Published(commit, lane, first_seq, size_bytes)

    def _room(self, name: bytes, payloads: list[bytes], size_bytes: int, attributes: list[bytes] | None) -> Topic:
        """Return the topic, made if there is none, when it has room for these."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            return self._registry.create(name, payloads, size_bytes, attributes)
        if topic.is_paused_in:
            raise PausedError
        if self._quota.admit(topic, payloads, size_bytes, attributes):
            self._trimmer.note(topic)
        return topic

    def publish_with(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add one message to a topic, as its options say.

        Raises, beside what `publish` does:
          InvalidAttributesError: headers and key are too long together.
          InvalidOptionError: an option cannot be used. Nothing was added.
        """
        self._admission.check()
        now_ms = self._clock.next_ms()
        due_at_ms = options.due_at_ms(now_ms)
        attributes = options.attributes(due_at_ms).encode()
        first = self._first_of(name, options)
        if first is not None:
            return first
        if due_at_ms > now_ms:
            message = Delayed(now_ms, lanes.number_of(options.priority), payload, attributes)
            return self._delay(name, message, due_at_ms)
        return self._append(name, payload, attributes, options.priority)

    def _first_of(self, name: bytes, options: PublishOptions) -> Accepted | None:
        """Return what became of the message that makes this one a duplicate, if there is one."""
        if options.dedup_id or options.unique_key:
            raise InvalidOptionError("dedup and unique cannot be used yet")
        return None

    def _delay(self, name: bytes, message: Delayed, due_at_ms: int) -> Accepted:
        """Have the message wait for its time."""
        payload, attributes, size_bytes = message.payload, message.attributes, message.content_bytes
        if len(payload) > self._max_message_bytes:
            raise PayloadTooLargeError(len(payload), self._max_message_bytes)
        topic = self._room(name, [payload], size_bytes, [attributes])
        delayed_id = self._delayer.add(topic, due_at_ms, message)
        self._committer.request()
        commit = self._committer.open
        commit.size_bytes += size_bytes
        return Accepted(commit, bytes(delayed_id), size_bytes=size_bytes)

    def _append(self, name: bytes, payload: bytes, attributes: bytes, priority: Priority) -> Accepted:
        """Add the message to the log of its priority."""
        published = self.publish(name, [payload], [attributes], lanes.lane(0, priority))
        message_id = format_message_id(published.partition, published.first_seq)
        return Accepted(published.commit, message_id, size_bytes=published.size_bytes)
