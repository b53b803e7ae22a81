"""Makes topics and changes their settings: each act is one commit.

    create, replace, change ─▶ checked ─▶ Topic.settings at once ─▶ SETTINGS with the next commit
                                  └ InvalidSettingError, nothing has changed

A topic whose settings are all at their default has none in the store, and shares one object in memory.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from miniqueue.broker.commit import Commit
from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Lanes
from miniqueue.broker.topic import Topic
from miniqueue.core.names import check_new_topic, check_topic
from miniqueue.core.topic_errors import InvalidSettingError, TopicExistsError, UnknownTopicError
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.storage import keys, records

#: Settings by name, as JSON has them; None for the default.
Changes = Mapping[str, object]


class MakeTopic(Protocol):
    """Makes a topic that does not exist and will have these settings."""

    def __call__(self, name: bytes, *, settings: TopicSettings) -> Topic:
        """Return it; raises InvalidTopicError or LimitReachedError."""
        ...


class Configurator:
    """Changes what topics there are, and how they work.

    Args:
      journal: commits it.
      topics: by name.
      lanes: makes the partitions that settings ask for.
      create: see `MakeTopic`.
      changed: called for each topic with new settings.
    """

    def __init__(
        self,
        journal: Journal,
        topics: Mapping[bytes, Topic],
        lanes: Lanes,
        *,
        create: MakeTopic,
        changed: Callable[[Topic], None],
    ) -> None:
        self._journal = journal
        self._topics = topics
        self._lanes = lanes
        self._make = create
        self._changed = changed

    def create(self, name: bytes, settings: Changes) -> Commit:
        """Make a topic; return the commit with which it is durable.

        Raises:
          TopicExistsError: there is one.
          InvalidTopicError, InvalidSettingError, LimitReachedError: it was not made.
          FullError, ReadOnlyError, DrainingError: nothing can be added now.
        """
        if self._existing(name) is not None:
            raise TopicExistsError
        return self.replace(name, settings)[0]

    def replace(self, name: bytes, settings: Changes) -> tuple[Commit, bool]:
        """Give a topic these settings and no others, and make it if there is none; return whether that was so.

        A topic that is there keeps its partitions, unless the settings say that there are more, and its
        `default_group`.

        Raises as `create`, but for TopicExistsError.
        """
        self._journal.admission.check()
        topic = self._existing(check_topic(name))
        is_new = topic is None
        if topic is not None:
            kept = {"partitions": topic.partition_count, "default_group": topic.settings.default_group}
            settings = {**settings, **{one: kept[one] for one in kept if settings.get(one) is None}}
        wanted = DEFAULT_SETTINGS.with_changes(settings, name)
        self._check_partitions(topic, wanted)
        self._check_default_group(name, wanted)
        _check_dead_letter_topic(DEFAULT_SETTINGS if topic is None else topic.settings, wanted)
        return self._set(self._make(name, settings=wanted) if topic is None else topic, wanted), is_new

    def change(self, name: bytes, settings: Changes) -> Commit:
        """Change settings of a topic; return the commit with which that is durable.

        Raises:
          UnknownTopicError: there is no such topic.
          InvalidTopicError, InvalidSettingError: nothing was changed.
          UnavailableError: nothing can be changed now.
        """
        self._journal.admission.check_change()
        topic = self._known(name)
        wanted = topic.settings.with_changes(settings, name)
        self._check_partitions(topic, wanted)
        self._check_default_group(name, wanted)
        _check_dead_letter_topic(topic.settings, wanted)
        return self._set(topic, wanted)

    def settings_of(self, name: bytes) -> TopicSettings:
        """Return the settings of a topic; raises UnknownTopicError or InvalidTopicError."""
        return self._known(name).settings

    def _existing(self, name: bytes) -> Topic | None:
        topic = self._topics.get(name)
        return None if topic is None or topic.id is None else topic

    def _known(self, name: bytes) -> Topic:
        topic = self._existing(check_topic(name))
        if topic is None:
            raise UnknownTopicError
        return topic

    def _check_partitions(self, topic: Topic | None, wanted: TopicSettings) -> None:
        """Raise InvalidSettingError when there would be fewer: their messages would have nowhere to be."""
        if topic is not None and wanted.partitions < topic.partition_count:
            raise InvalidSettingError("partitions", f"at least the {topic.partition_count} that there are")

    def _check_default_group(self, name: bytes, wanted: TopicSettings) -> None:
        """Raise InvalidSettingError when the group default would end: a consumer of it may come, or be there."""
        topic = self._topics.get(name)
        if topic is None or wanted.default_group or not topic.settings.default_group:
            return
        if topic.id is not None:
            raise InvalidSettingError("default_group", "true: the topic is there; only a new one can be without it")
        if topic.default.consumer_count:
            raise InvalidSettingError("default_group", "true while consumers wait in the group default of the topic")

    def _set(self, topic: Topic, settings: TopicSettings) -> Commit:
        assert topic.id is not None  # it exists
        is_default = settings == DEFAULT_SETTINGS
        if topic.settings != settings:
            value = None if is_default else records.encode_settings(settings)
            self._journal.change({keys.settings(topic.id): value})
            topic.settings = DEFAULT_SETTINGS if is_default else settings
            self._lanes.grow(topic, settings.partitions)
            self._changed(topic)
        self._journal.committer.request()
        return self._journal.committer.open


def _check_dead_letter_topic(current: TopicSettings, wanted: TopicSettings) -> None:
    """Raise InvalidTopicError for a topic of dead letters that cannot be made, unless it was set before."""
    name = wanted.dead_letter_topic
    if name is not None and name != current.dead_letter_topic:
        check_new_topic(name.encode())
