"""The registry of topics by name: topics are made when first needed, each with an id that no other topic ever had."""

from collections.abc import Sequence

from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.model.limits import Limits
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.stored import encode_commit
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.message.names import check_new_topic, check_topic
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import LimitReachedError
from miniqueue.storage.format import keys


class Topics:
    """Creates and removes topics.

    Args:
      by_name: the topics, including those that do not exist but have waiting consumers.
      journal: commits the creation and removal of topics.
      limits: limits the number of topics.
      clock: returns the creation time of a topic.
    """

    def __init__(
        self,
        by_name: dict[bytes, Topic],
        journal: Journal,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self.by_name = by_name
        self._journal = journal
        self._limits = limits
        self._clock = clock
        self._next_id, self._count = 1, 0
        self._names: list[bytes] | None = None  # sorted; None: the topics have changed

    def topic(self, name: bytes) -> Topic:
        """Return the topic `name`, which need not exist; raises InvalidTopicError."""
        topic = self.by_name.get(name)
        if topic is None:
            topic = self.by_name[name] = Topic(check_topic(name))
        return topic

    def find(self, name: bytes) -> Topic | None:
        """Return the topic `name` if it exists, else None."""
        topic = self.by_name.get(name)
        return None if topic is None or topic.id is None else topic

    def existing(self) -> list[bytes]:
        """Return the names of the existing topics, sorted; the caller must not change the list."""
        if self._names is None:
            self._names = sorted(name for name, topic in self.by_name.items() if topic.id is not None)
        return self._names

    def create(
        self,
        name: bytes,
        payloads: Sequence[bytes] = (),
        size_bytes: int = 0,
        attributes: Sequence[bytes] | None = None,
        groups: Sequence[bytes] = (),
        *,
        settings: TopicSettings = DEFAULT_SETTINGS,
    ) -> Topic:
        """Create a topic that does not exist, with `groups`, if there is room for it and for these messages.

        `settings` only determine the groups that it begins with; the caller must set the settings of the topic. Raises
        InvalidTopicError or LimitReachedError.
        """
        topic = self.topic(check_new_topic(name))
        try:
            self._limits.admit_topic(topic, self._count, payloads, size_bytes, attributes)
        except LimitReachedError:
            self.drop_idle(topic)
            raise
        self._count += 1
        self._names = None
        topic.begin(self._next_id, groups, settings)
        self._journal.events.changed(topic)
        self._next_id += 1
        self._journal.change(encode_commit.new_topic(topic, self._clock.now_ms()))
        return topic

    def remove(self, topic: Topic) -> None:
        """Remove a topic, durably with the next commit; its waiting consumers continue to wait."""
        assert topic.id is not None
        self._journal.change({keys.topic(topic.name): None, keys.purge(topic.id): b""})
        self._count -= 1
        self._names = None
        topic.clear()
        self._limits.measure(topic)
        self.drop_idle(topic)

    def drop_idle(self, topic: Topic) -> None:
        """Forget a topic that does not exist and has no waiting consumers."""
        if topic.is_idle:
            del self.by_name[topic.name]
            topic.dissolve()

    def restored(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._next_id = content.next_topic_id
        self._count = len(content.topics)
        self._names = None
        self.by_name.update({topic.name: topic for topic in content.topics})
