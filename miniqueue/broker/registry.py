"""The topics there are, by name: made when first needed, each with an id that no other has or had."""

from collections.abc import Callable, Sequence

from miniqueue.broker import batching
from miniqueue.broker.clock import Clock
from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Lanes
from miniqueue.broker.limits import Quota
from miniqueue.broker.opening import StoreContent
from miniqueue.broker.topic import Topic
from miniqueue.core.names import check_new_topic, check_topic
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.storage import keys


class Registry:
    """Makes and removes topics.

    Args:
      topics: by name; also those that do not exist, but are waited for.
      journal: registers them with the next commit.
      quota: says how many there may be.
      lanes: has those of the topics.
      clock: tells when a topic was made.
      made: called with every topic that comes to exist.
    """

    def __init__(
        self,
        topics: dict[bytes, Topic],
        journal: Journal,
        quota: Quota,
        lanes: Lanes,
        clock: Clock,
        *,
        made: Callable[[Topic], None],
    ) -> None:
        self.topics = topics
        self.lanes = lanes
        self._journal = journal
        self._quota = quota
        self._clock = clock
        self._made = made
        self._next_id, self._count = 1, 0

    def topic(self, name: bytes) -> Topic:
        """Return the topic of a name, which need not exist; raises InvalidTopicError."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(check_topic(name))
        return topic

    def existing(self) -> list[bytes]:
        """Return the names of the topics that exist, sorted."""
        return sorted(name for name, topic in self.topics.items() if topic.id is not None)

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
        """Make a topic that does not exist, when it has room for these messages, with these groups.

        The caller gives it its settings; here they say which groups it begins with. Raises InvalidTopicError or
        LimitReachedError.
        """
        self._quota.admit_topic(Topic(check_new_topic(name)), self._count, payloads, size_bytes, attributes)
        self._count += 1
        topic = self.topic(name)
        self._quota.apply_settings(topic)
        self._made(topic)
        topic.begin(self._next_id, groups, settings)
        self._next_id += 1
        self._journal.change(batching.new_topic(topic, self._clock.now_ms()))
        return topic

    def remove(self, topic: Topic) -> None:
        """Have a topic exist no more, from the next commit on; who waits for it goes on waiting."""
        assert topic.id is not None
        self._journal.change({keys.topic(topic.name): None, keys.purge(topic.id): b""})
        self._count -= 1
        topic.clear()
        self.drop_idle(topic)

    def drop_idle(self, topic: Topic) -> None:
        """Forget a topic that does not exist and that nobody waits for."""
        if topic.is_idle:
            del self.topics[topic.name]

    def install(self, content: StoreContent) -> None:
        """Take over what the store holds, at the start and after a fault."""
        self._next_id = content.next_topic_id
        self._count = len(content.topics)
        self.topics.update({topic.name: topic for topic in content.topics})
