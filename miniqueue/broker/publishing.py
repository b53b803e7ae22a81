"""Publishing: the way of messages into a topic, up to the commit that makes them durable.

publish ─▶ may anything be added? ─▶ is there room? ─▶ appended, with a number each ─▶ the open commit
"""

from miniqueue.broker.commit import Published
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.registry import Registry
from miniqueue.broker.trimming import Trimmer
from miniqueue.core.topic_errors import PausedError
from miniqueue.errors import PayloadTooLargeError


class Publisher:
    """Adds messages to topics.

    Args:
      registry: has the topics, and makes those that are missing.
      journal: commits what is added.
      quota: says what there is room for.
      trimmer: makes room in topics that drop what is oldest.
      max_message_bytes: the largest payload accepted.
    """

    def __init__(
        self, registry: Registry, journal: Journal, quota: Quota, trimmer: Trimmer, max_message_bytes: int
    ) -> None:
        self._registry = registry
        self._topics = registry.topics
        self._journal = journal
        self._admission = journal.admission
        self._committer = journal.committer
        self._quota = quota
        self._trimmer = trimmer
        self._max_message_bytes = max_message_bytes

    def publish(self, name: bytes, payloads: list[bytes], attributes: list[bytes] | None = None) -> Published:
        """Add messages to a topic, which is created when there is none.

        There is at least one of `payloads`; they are stored as they are, in this order, in one commit. So are their
        `attributes`, if given: those of each, as `core.attributes` encodes them.

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
            topic = self._registry.create(name, payloads, size_bytes)
        elif topic.is_paused_in:
            raise PausedError
        elif self._quota.admit(topic, payloads, size_bytes):
            self._trimmer.note(topic)
        first_seq = topic.partitions[0].append(payloads, size_bytes)
        if attributes is not None:
            topic.partitions[0].describe(first_seq, attributes)
        self._journal.touch(topic)
        self._committer.request()
        commit = self._committer.open
        commit.size_bytes += size_bytes
        return Published(commit, 0, first_seq, size_bytes)
