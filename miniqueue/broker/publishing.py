"""Publishing: the way of messages into a topic, up to the commit that makes them durable.

publish       ─▶ may anything be added? ─▶ is there room? ─▶ appended, with a number each ─▶ the open commit
publish_with  ─▶ is it there already? ─▶ is it to wait? ─▶ in its lane ─▶ published, with attributes

Many messages at a time without any options are the usual case; one with options goes the longer way.
"""

from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Accepted, Published
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.registry import Registry
from miniqueue.broker.trimming import Trimmer
from miniqueue.core import lanes
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
      clock: tells when a message expires.
      max_message_bytes: the largest payload accepted.
    """

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        quota: Quota,
        trimmer: Trimmer,
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
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            topic = self._registry.create(name, payloads, size_bytes, attributes)
        elif topic.is_paused_in:
            raise PausedError
        elif self._quota.admit(topic, payloads, size_bytes, attributes):
            self._trimmer.note(topic)
        partition = self._lanes.of(topic, lane) if lane else topic.partitions[0]
        first_seq = partition.append(payloads, size_bytes)
        if attributes is not None:
            partition.describe(first_seq, attributes)
        self._journal.touch(topic)
        self._committer.request()
        commit = self._committer.open
        commit.size_bytes += size_bytes
        return Published(commit, lane, first_seq, size_bytes)

    def publish_with(self, name: bytes, payload: bytes, options: PublishOptions) -> Accepted:
        """Add one message to a topic, as its options say.

        Raises, beside what `publish` does:
          InvalidAttributesError: headers and key are too long together.
          InvalidOptionError: an option cannot be used. Nothing was added.
        """
        self._admission.check()
        attributes = options.attributes(self._clock.now_ms()).encode()
        first = self._first_of(name, options)
        if first is not None:
            return first
        if options.is_delayed:
            return self._delay(name, payload, attributes, options)
        return self._append(name, payload, attributes, options.priority)

    def _first_of(self, name: bytes, options: PublishOptions) -> Accepted | None:
        """Return what became of the message that makes this one a duplicate, if there is one."""
        if options.dedup_id or options.unique_key:
            raise InvalidOptionError("dedup and unique cannot be used yet")
        return None

    def _delay(self, name: bytes, payload: bytes, attributes: bytes, options: PublishOptions) -> Accepted:
        """Have the message wait for its time."""
        raise InvalidOptionError("delay and at cannot be used yet")

    def _append(self, name: bytes, payload: bytes, attributes: bytes, priority: Priority) -> Accepted:
        """Add the message to the log of its priority."""
        published = self.publish(name, [payload], [attributes], lanes.lane(0, priority))
        message_id = format_message_id(published.partition, published.first_seq)
        return Accepted(published.commit, message_id, size_bytes=published.size_bytes)
