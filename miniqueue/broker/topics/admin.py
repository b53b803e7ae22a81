"""Creates, changes, pauses, and deletes topics; each act is one commit.

    create, replace, change ─▶ checked ─▶ Topic.settings at once ─▶ SETTINGS with the next commit
                                  └ InvalidSettingError: nothing has changed
    delete ─▶ gone from memory at once, durably with the next commit, and from the disk some time later

A topic whose settings are all at their default has no settings in the store, and shares one object in memory.

Publishes to a topic, deliveries from it, or both can be paused, for a time or until they are resumed:

              publish              deliver              settle, inspect, delete
    in        PausedError          continues            continue
    out       continues            nothing; waiting     continue
                                   consumers still wait

A pause is a setting of the topic, which contains the time at which it ends, so it survives a restart. The topic itself
has only two flags, which publishes and deliveries check; ticks clear them when the pause ends.

The first part of a stop pauses all topics: nothing is published or delivered, and consumers can still settle what
they have leased.

    rest ─▶ publishes, receives: DrainingError; waiting consumers get nothing ─▶ leased_count falls ─▶ the broker stops

This pause is not stored: after a restart all topics are as before the stop.
"""

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from miniqueue.broker.cleanup.disk_space import DiskReclaimer
from miniqueue.broker.commit.journal import Commit
from miniqueue.broker.engine import lanes
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Topic
from miniqueue.core.message.names import check_new_topic, check_topic
from miniqueue.core.settings.fields import Side, ends_at_ms
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors.requests import InvalidSettingError, TopicExistsError, UnknownTopicError
from miniqueue.storage.format import keys, values

#: Settings by name, as in JSON; None means the default.
Changes = Mapping[str, object]


class TopicAdmin:
    """Creates, changes, pauses, and deletes topics.

    Args:
      engine: has the topics, and commits what changes.
      disk: removes the content of deleted topics from the store.
    """

    def __init__(self, engine: Engine, disk: DiskReclaimer) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._admission = engine.journal.admission
        self._topics = engine.topics
        self._clock = engine.clock
        self._disk = disk
        self._paused: dict[Topic, None] = {}

    def create(self, name: bytes, settings: Changes) -> Commit:
        """Create a topic; return the commit that makes it durable.

        Raises:
          TopicExistsError: the topic exists.
          InvalidTopicError, InvalidSettingError, LimitReachedError: it was not created.
          FullError, ReadOnlyError, DrainingError: the broker accepts no new topics or messages now.
        """
        if self._topics.find(name) is not None:
            raise TopicExistsError
        return self.replace(name, settings)[0]

    def replace(self, name: bytes, settings: Changes) -> tuple[Commit, bool]:
        """Set the settings of a topic, and all others to their default; create the topic if it does not exist.

        Returns the commit that makes this durable, and whether the topic is new. If `settings` omits them, an existing
        topic keeps its number of partitions, its `default_group`, and its `owner`.

        Raises as `create`, except TopicExistsError.
        """
        self._journal.admission.check()
        topic = self._topics.find(check_topic(name))
        is_new = topic is None
        if topic is not None:
            kept = {
                "partitions": topic.partition_count,
                "default_group": topic.settings.default_group,
                "owner": topic.settings.owner,
            }
            settings = {**settings, **{key: kept[key] for key in kept if settings.get(key) is None}}
        wanted = DEFAULT_SETTINGS.with_changes(settings, name)
        self._check_partitions(name, topic, wanted)
        self._check_default_group(name, wanted)
        _check_dead_letter_topic(DEFAULT_SETTINGS if topic is None else topic.settings, wanted)
        if topic is None:
            topic = self._topics.create(name, settings=wanted, owner=wanted.owner)
            wanted = wanted._replace(owner=topic.settings.owner)
        return self._set(topic, wanted), is_new

    def change(self, name: bytes, settings: Changes) -> Commit:
        """Change settings of a topic; return the commit that makes the change durable.

        Raises:
          UnknownTopicError: the topic does not exist.
          InvalidTopicError, InvalidSettingError: nothing was changed.
          UnavailableError: the broker accepts no changes now.
        """
        self._journal.admission.check_change()
        topic = self._known(name)
        wanted = topic.settings.with_changes(settings, name)
        self._check_partitions(name, topic, wanted)
        self._check_default_group(name, wanted)
        _check_dead_letter_topic(topic.settings, wanted)
        return self._set(topic, wanted)

    def settings_of(self, name: bytes) -> TopicSettings:
        """Return the settings of a topic; raises UnknownTopicError or InvalidTopicError."""
        return self._known(name).settings

    def _known(self, name: bytes) -> Topic:
        topic = self._topics.find(check_topic(name))
        if topic is None:
            raise UnknownTopicError
        return topic

    def _check_partitions(self, name: bytes, topic: Topic | None, wanted: TopicSettings) -> None:
        """Raise LimitReachedError if there would be too many partitions.

        Raises InvalidSettingError if there would be fewer than before: their messages would have no partition.
        """
        if topic is not None and wanted.partitions < topic.partition_count:
            raise InvalidSettingError("partitions", f"at least the {topic.partition_count} that there are")
        added_count = wanted.partitions - (0 if topic is None else topic.partition_count)
        if added_count > 0:
            if topic is None:
                waiting = self._topics.by_name.get(name)
                group_count = 1 if waiting is None else len(waiting.first_groups((), wanted))
                owner = self._topics.owner_of_new(wanted.owner)
            else:
                group_count, owner = len(topic.existing_groups), topic.settings.owner or ""
            self._engine.limits.admit_partitions(added_count * group_count, owner)

    def _check_default_group(self, name: bytes, wanted: TopicSettings) -> None:
        """Raise InvalidSettingError if the group `default` would end, because it may have or get consumers."""
        topic = self._topics.by_name.get(name)
        if topic is None or wanted.default_group or not topic.settings.default_group:
            return
        if topic.id is not None:
            raise InvalidSettingError("default_group", "true: the topic is there; only a new one can be without it")
        if topic.default.consumer_count:
            raise InvalidSettingError("default_group", "true while consumers wait in the group default of the topic")

    def _set(self, topic: Topic, settings: TopicSettings) -> Commit:
        assert topic.id is not None  # it exists
        self._topics.check_owner(topic, settings.owner)
        is_default = settings == DEFAULT_SETTINGS
        if topic.settings != settings:
            self._topics.count_for(topic, settings.owner)
            value = None if is_default else values.encode_settings(settings)
            self._journal.change({keys.settings(topic.id): value})
            topic.settings = DEFAULT_SETTINGS if is_default else settings
            lanes.grow(self._journal, topic, settings.partitions)
            self._journal.events.changed(topic)
            self._journal.events.readable(topic)
        self._journal.committer.request()
        return self._journal.committer.open

    # --- pausing ----------------------------------------------------------------------------------------------

    def pause(self, name: bytes, side: Side = Side.BOTH, seconds: float | None = None) -> Commit:
        """Pause a topic at once; return the commit that makes the pause durable.

        Args:
          name: name of the topic.
          side: publishes, deliveries, or both; the other side is unchanged.
          seconds: duration of the pause; None means until `resume`.

        Raises:
          InvalidDelayError: the time is negative, not a number or too long.
          InvalidTopicError, UnknownTopicError, UnavailableError: nothing was changed.
        """
        return self._end_at(name, side, ends_at_ms(self._clock.next_ms(), seconds))

    def resume(self, name: bytes, side: Side = Side.BOTH) -> Commit:
        """End the pause of a topic; no error if it is not paused. Returns and raises as `pause`."""
        return self._end_at(name, side, 0)

    def _end_at(self, name: bytes, side: Side, at_ms: int) -> Commit:
        return self.change(name, dict.fromkeys(side.settings, at_ms))

    def changed(self, topic: Topic) -> None:
        """Apply the settings of a topic: its time to live and its pauses."""
        topic.ttl_ms = topic.settings.ttl_ms
        self.apply([topic])

    def apply(self, topics: Iterable[Topic]) -> None:
        """Set the pause flags of topics from their settings; while the broker stops, deliveries are always paused."""
        now_ms = self._clock.now_ms()
        for topic in topics:
            topic.is_paused_in = topic.settings.paused_in_until_ms > now_ms
            topic.is_paused_out = topic.settings.paused_out_until_ms > now_ms or self._admission.is_stopping
            if topic.is_paused_in or topic.is_paused_out:
                self._paused[topic] = None
            else:
                self._paused.pop(topic, None)

    def tick(self) -> None:
        """End the pauses whose time has elapsed, and forget deleted topics."""
        paused = list(self._paused)
        paused_out = [topic for topic in paused if topic.is_paused_out]
        self.apply(paused)
        for topic in paused_out:
            if not topic.is_paused_out:
                self._engine.events.readable(topic)

    def rest(self) -> None:
        """Refuse publishes and pause all deliveries, before the broker stops."""
        self._admission.rest()
        self.apply(list(self._topics.by_name.values()))

    @property
    def leased_count(self) -> int:
        """Number of leased messages, all topics together."""
        awake = [topic for topic in self._topics.by_name.values() if topic.at_rest is None]
        return sum(cursor.leased_count for topic in awake for cursor in topic.cursors)

    # --- deleting ---------------------------------------------------------------------------------------------

    def delete(self, name: bytes) -> Coroutine[Any, Any, bool]:
        """Delete a topic with all its messages; its consumers wait for what is published to that name next.

        The topic is gone when this returns. The returned coroutine waits until that is durable, and returns whether
        the topic existed.

        Raises:
          InvalidTopicError: no topic can have this name.
          UnavailableError, also from the coroutine: the store failed or the broker is stopping.
        """
        self._journal.admission.check_change()
        topic = self._topics.find(check_topic(name))
        committer = self._journal.committer
        commit = committer.open
        if topic is not None and topic.id is not None:
            self._disk.purge_after(commit, topic.id, topic.consumed_bytes)
            self._topics.remove(topic)
            self._engine.cache.touch(topic)
        committer.request()
        return _durable(commit, existed=topic is not None)


def _check_dead_letter_topic(current: TopicSettings, wanted: TopicSettings) -> None:
    """Raise InvalidTopicError if the dead-letter topic is changed to a name that cannot be created."""
    name = wanted.dead_letter_topic
    if name is not None and name != current.dead_letter_topic:
        check_new_topic(name.encode())


async def _durable(commit: Commit, *, existed: bool) -> bool:
    await commit.wait()
    return existed
