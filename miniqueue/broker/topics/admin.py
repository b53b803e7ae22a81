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

A single group can be paused, too, for deliveries. A pause is a setting of the topic, which contains the time at which
it ends, so it survives a restart. The topic itself has only two flags, and a group one, which publishes and deliveries
check; ticks clear them when the pause ends.

The first part of a stop pauses all topics: nothing is published or delivered, and consumers can still settle what
they have leased.

    rest ─▶ publishes, receives: DrainingError; waiting consumers get nothing ─▶ leased_count falls ─▶ the broker stops

This pause is not stored: after a restart all topics are as before the stop.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from miniqueue.broker.cleanup.disk_space import DiskReclaimer
from miniqueue.broker.commit.journal import Commit
from miniqueue.broker.engine import lanes
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.new_partitions import NewPartitions
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.model.views import group_named
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.core.message.names import check_group, check_topic
from miniqueue.core.message.parts import MAX_PARTS, SEPARATOR, is_first, part_name
from miniqueue.core.settings.fields import Side, ends_at_ms
from miniqueue.core.settings.settings import BY_GROUP, DEAD_LETTER_SUFFIX, DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidSettingError, TopicExistsError, UnknownTopicError
from miniqueue.storage.format import keys, values

T = TypeVar("T")

#: Settings by name, as in JSON; None means the default.
Changes = Mapping[str, object]
#: What is paused in a topic: ("side", "in"), ("side", "out"), or ("group", its name).
_Paused = frozenset[tuple[str, str]]
_IN: Final = ("side", "in")
_OUT: Final = ("side", "out")
_NOTHING: Final[_Paused] = frozenset()


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
        self._paused: dict[bytes, _Paused] = {}  # what is paused, by the name of the topic

    async def carry_out(self, act: Callable[[NewPartitions], T]) -> T:
        """Return the result of an act that may add many partitions: these are made before, in turns."""
        return await self._engine.maker.carry_out(act)

    def create(self, name: bytes, settings: Changes, made: NewPartitions | None = None) -> Commit:
        """Create a topic; return the commit that makes it durable.

        Raises:
          TopicExistsError: the topic exists.
          InvalidTopicError, InvalidSettingError, LimitReachedError: it was not created.
          FullError, ReadOnlyError, DrainingError: the broker accepts no new topics or messages now.
          PartitionsDueError: it would begin with many partitions that are not in `made`; see `carry_out`.
        """
        if self._topics.find(name) is not None:
            raise TopicExistsError
        return self.replace(name, settings, made)[0]

    def replace(self, name: bytes, settings: Changes, made: NewPartitions | None = None) -> tuple[Commit, bool]:
        """Set the settings of a topic, and all others as for a new topic; create the topic if it does not exist.

        Returns the commit that makes this durable, and whether the topic is new. If `settings` omits them, an existing
        topic keeps its number of partitions, its `default_group`, its `owner`, and the settings of its groups.

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
                "spread": topic.settings.spread,
                "spread_before": topic.settings.spread_before,
                **{setting: getattr(topic.settings, setting) for setting in BY_GROUP},
            }
            settings = {**settings, **{key: kept[key] for key in kept if settings.get(key) is None}}
        wanted = self._topics.defaults.settings_with(name, settings)
        if topic is not None:
            self._check_memory(topic, wanted)
            self._check_partitions(topic, wanted)
        wanted = self._spread_as(name, topic, wanted)
        self._check_default_group(name, wanted)
        self._check_values(DEFAULT_SETTINGS if topic is None else topic.settings, wanted)
        if topic is None:
            topic = self._topics.create(name, settings=wanted, owner=wanted.owner, made=made)
            wanted = topic.settings
        return self._set(topic, wanted, made), is_new

    def change(self, name: bytes, settings: Changes, made: NewPartitions | None = None) -> Commit:
        """Change settings of a topic; return the commit that makes the change durable.

        Raises:
          UnknownTopicError: the topic does not exist.
          InvalidTopicError, InvalidSettingError: nothing was changed.
          MemoryLimitError: there is no memory for more values by group.
          UnavailableError: the broker accepts no changes now.
          PartitionsDueError: it would get many partitions that are not in `made`; see `carry_out`.
        """
        self._journal.admission.check_change()
        topic = self._known(name)
        wanted = topic.settings.with_changes(settings, name)
        self._check_memory(topic, wanted)
        self._check_partitions(topic, wanted)
        wanted = self._spread_as(name, topic, wanted)
        self._check_default_group(name, wanted)
        self._check_values(topic.settings, wanted)
        return self._set(topic, wanted, made)

    def assume(self, name: bytes, settings: TopicSettings, made: NewPartitions | None = None) -> Commit:
        """Create a topic with these settings, or give it them; return the commit that makes them durable.

        For spread topics and their parts, whose home shard has checked the settings. An existing topic keeps the
        settings of its groups, unless there are others: groups belong to each part. Raises as `create`, except
        TopicExistsError.
        """
        self._journal.admission.check_change()
        topic = self._topics.find(check_topic(name))
        if topic is None:
            topic = self._topics.create(name, settings=settings, owner=settings.owner or "", made=made)
        kept = {own: getattr(topic.settings, own) for own in BY_GROUP if not getattr(settings, own)}
        settings = settings._replace(**kept)
        return self._set(topic, settings, made)

    def set_own(self, topic: Topic, group: bytes, own: Mapping[str, float | None]) -> Commit:
        """Set values that a group of an existing topic has of its own, None for none; return the commit.

        The memory is not checked: it was, when the group was created. Raises InvalidSettingError if too many groups
        have such a value.
        """
        return self._set(topic, topic.settings.with_changes(topic.settings.of_group(group, own), topic.name))

    def settings_of(self, name: bytes) -> TopicSettings:
        """Return the settings of a topic; raises UnknownTopicError or InvalidTopicError."""
        return self._known(name).settings

    def settings_of_new(self, name: bytes) -> TopicSettings:
        """Return the settings of a topic that is created now."""
        return self._topics.settings_of_new(name)

    def _known(self, name: bytes) -> Topic:
        topic = self._topics.find(check_topic(name))
        if topic is None:
            raise UnknownTopicError
        return topic

    def _check_memory(self, topic: Topic, wanted: TopicSettings) -> None:
        """Raise MemoryLimitError if there is no memory for more values by group."""
        if wanted.by_group_count > topic.settings.by_group_count:
            self._engine.memory.check()

    def _check_partitions(self, topic: Topic, wanted: TopicSettings) -> None:
        """Raise LimitReachedError if an existing topic would have too many partitions.

        Raises InvalidSettingError if there would be fewer than before: their messages would have no partition.
        """
        if wanted.partitions < topic.partition_count:
            raise InvalidSettingError("partitions", f"at least the {topic.partition_count} that there are")
        if added_count := wanted.partitions - topic.partition_count:
            owner = topic.settings.owner or ""
            self._engine.limits.admit_partitions(added_count * len(topic.existing_groups), owner)

    def _spread_as(self, name: bytes, topic: Topic | None, wanted: TopicSettings) -> TopicSettings:
        """Return wanted settings, with the time at which a topic gets more parts; raises InvalidSettingError."""
        current = DEFAULT_SETTINGS if topic is None else topic.settings
        if wanted.spread_before != current.spread_before:
            raise InvalidSettingError("spread_before", "left as it is: the broker sets it when `spread` grows")
        self._check_spread(name, topic, wanted)
        if not current.spread or wanted.spread == current.spread:
            return wanted
        return wanted._replace(spread_before=(*current.spread_before, (current.spread, self._clock.next_ms())))

    def _check_spread(self, name: bytes, topic: Topic | None, wanted: TopicSettings) -> None:
        """Raise InvalidSettingError if a topic cannot be spread as wanted: that is decided when it is created."""
        current = 0 if topic is None else topic.settings.spread
        if wanted.spread == current:
            return
        if self._topics.placing.shard_count == 1:
            raise InvalidSettingError("spread", "0 for a broker without -shards")
        if not current and wanted.spread == self._topics.spread_of(name):  # its dead letters have settings of their own
            return
        if SEPARATOR in name or name.endswith(DEAD_LETTER_SUFFIX):
            raise InvalidSettingError("spread", "0 for dead letters, which are spread like their topic")
        if topic is not None and not current:
            raise InvalidSettingError("spread", "0 for a topic that was created without it; create another one")
        if wanted.spread < current:
            raise InvalidSettingError("spread", f"at least the {current} parts that there are")
        if not current and self._topics.find(name + DEAD_LETTER_SUFFIX) is not None:
            raise InvalidSettingError("spread", f"0 while topic {name.decode()}{DEAD_LETTER_SUFFIX.decode()} exists")
        try:
            check_topic(part_name(name + DEAD_LETTER_SUFFIX, MAX_PARTS - 1))
        except InvalidTopicError as exc:
            raise InvalidSettingError("spread", "0: the name of the topic is too long for parts") from exc

    def _check_default_group(self, name: bytes, wanted: TopicSettings) -> None:
        """Raise InvalidSettingError if the group `default` would end, because it may have or get consumers."""
        topic = self._topics.by_name.get(name)
        if topic is None or wanted.default_group or not topic.settings.default_group:
            return
        if topic.id is not None:
            raise InvalidSettingError("default_group", "true: the topic is there; only a new one can be without it")
        if topic.default.consumer_count:
            raise InvalidSettingError("default_group", "true while consumers wait in the group default of the topic")

    def _check_values(self, current: TopicSettings, wanted: TopicSettings) -> None:
        """Raise an error if a setting is changed to a value that the broker could not obey.

        Raises InvalidTopicError for a dead-letter topic that cannot be created, and InvalidSettingError for a schema
        that cannot be checked.
        """
        name, schema = wanted.dead_letter_topic, wanted.schema
        if name is not None and name != current.dead_letter_topic:
            self._topics.check_destination(name.encode())
        if schema is not None and schema != current.schema:
            self._engine.schemas.check_setting(schema)

    def _set(self, topic: Topic, settings: TopicSettings, made: NewPartitions | None = None) -> Commit:
        assert topic.id is not None  # it exists
        self._topics.check_owner(topic, settings.owner)
        if made is not None:
            made.check(lanes.missing(topic, settings.partitions), topic.group_ids)
        is_default = settings == DEFAULT_SETTINGS
        if topic.settings != settings:
            self._report_changes(topic, settings)
            self._topics.count_for(topic, settings.owner)
            value = None if is_default else values.encode_settings(settings)
            self._journal.change({keys.settings(topic.id): value})
            topic.settings = DEFAULT_SETTINGS if is_default else settings
            self._topics.note_spread(topic)
            if not lanes.grow(self._journal, topic, settings.partitions, made):
                self._journal.events.changed(topic)
            self._journal.events.readable(topic)
        self._journal.committer.request()
        return self._journal.committer.open

    def _report_changes(self, topic: Topic, settings: TopicSettings) -> None:
        """Report which settings of a topic change, except pauses, which `apply` reports."""
        if self._engine.notices.is_heard and self._topics.is_reported(topic.name):
            pairs = zip(topic.settings._asdict().items(), settings, strict=True)
            names = [name for (name, before), after in pairs if before != after and not name.startswith("paused_")]
            if names:
                self._engine.notices.report(NoticeKind.TOPIC_CHANGED, topic.name, settings=names)

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

    def pause_group(self, name: bytes, group: bytes, seconds: float | None = None) -> Commit:
        """Pause deliveries to the consumers of one group at once, as `pause` does; also raises UnknownGroupError."""
        return self._end_group_at(name, group, ends_at_ms(self._clock.next_ms(), seconds))

    def resume_group(self, name: bytes, group: bytes) -> Commit:
        """End the pause of a group; no error if it is not paused. Returns and raises as `pause_group`."""
        return self._end_group_at(name, group, None)

    def _end_group_at(self, name: bytes, group: bytes, at_ms: int | None) -> Commit:
        self._journal.admission.check_change()
        topic = self._known(name)
        group_named(topic, check_group(group))
        return self.set_own(topic, group, {"paused_groups": at_ms})

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
            before, paused = self._paused.get(topic.name, _NOTHING), self._paused_at(topic, now_ms)
            topic.is_paused_in, topic.is_paused_out = _IN in paused, _OUT in paused
            if before or paused:
                for group in topic.groups.values() if topic.at_rest is None else ():
                    group.is_paused = ("group", group.name.decode()) in paused  # its cursors may be new
                self._report_pauses(topic, before, paused)
            if paused:
                self._paused[topic.name] = paused
            else:
                self._paused.pop(topic.name, None)

    def _paused_at(self, topic: Topic, now_ms: int) -> _Paused:
        """Return what is paused in a topic at a time."""
        settings = topic.settings
        ends = (_IN, settings.paused_in_until_ms), (_OUT, settings.paused_out_until_ms)
        paused = {side for side, until_ms in ends if until_ms > now_ms}
        if self._admission.is_stopping:
            paused.add(_OUT)
        return frozenset(paused | {("group", name) for name, until_ms in settings.paused_groups if until_ms > now_ms})

    def _report_pauses(self, topic: Topic, before: _Paused, paused: _Paused) -> None:
        """Report what is paused now, and what was paused until now."""
        is_reported = self._topics.is_reported(topic.name)
        for kind, changed in ((NoticeKind.PAUSED, paused - before), (NoticeKind.RESUMED, before - paused)):
            for scope, name in sorted(changed):
                if is_reported or (scope == "group" and is_first(topic.name)):
                    self._engine.notices.report(kind, topic.name, **{scope: name})

    def tick(self) -> None:
        """End the pauses whose time has elapsed."""
        if not self._admission.is_open:
            return  # the topics are being read again
        for name, paused in list(self._paused.items()):
            topic = self._topics.find(name)
            if topic is None:  # it was not committed when the store failed
                del self._paused[name]
                continue
            self.apply([topic])
            if paused - self._paused.get(name, _NOTHING) - {_IN}:
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
            self._paused.pop(name, None)
            self._engine.cache.touch(topic)
        committer.request()
        return _durable(commit, existed=topic is not None)

    def begin_erasure(self, name: bytes) -> Commit:
        """Delete a spread topic, which only has settings here, and store that its parts are to be deleted.

        Its name is among `erasures` until `end_erasure`. Returns the commit that makes this durable; raises
        UnavailableError.
        """
        self._journal.admission.check_change()
        if name in self._topics.spread:
            topic = self._topics.by_name[name]
            self._topics.remove(topic, has_parts=True)
            self._paused.pop(name, None)
            self._engine.cache.touch(topic)
        self._journal.committer.request()
        return self._journal.committer.open

    def end_erasure(self, name: bytes) -> Commit:
        """Note that the parts of a deleted spread topic are gone; return the commit that makes that durable."""
        self._journal.admission.check_change()
        commit = self._journal.committer.open
        for topic_id in [topic_id for topic_id, erased in self._topics.erasures.items() if erased == name]:
            self._topics.forget_erasure(topic_id)
            self._disk.purge_after(commit, topic_id, 0)
        self._journal.committer.request()
        return commit

    @property
    def erasures(self) -> set[bytes]:
        """The names of deleted spread topics whose parts may still be there."""
        return {*self._topics.erasures.values()}


async def _durable(commit: Commit, *, existed: bool) -> bool:
    await commit.wait()
    return existed
