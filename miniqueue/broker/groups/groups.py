"""Creates, moves and deletes groups; each of these acts is one commit.

    first use ─┐
    create ────┼─▶ pin ─▶ find the start position in each partition ─▶ cursors under a new id ─▶ commit
    seek ──────┘                                                         └ seek: the commit deletes the old id
    delete ──────────────────────────────────────────────────────────────▶ the commit deletes the id

When an id is deleted, its keys and the chunks that only its group needed remain at first. They are deleted later, page
by page; a purge entry in the store exists until then.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.groups import start_positions
from miniqueue.broker.groups.cleanup import PINNED, GroupCleanup, finished_by
from miniqueue.broker.groups.idle import IdleGroups
from miniqueue.broker.groups.new_cursors import NewCursors
from miniqueue.broker.groups.start_positions import StartPosition, check_start, pinned
from miniqueue.broker.inspect.due_counting import count_due
from miniqueue.broker.inspect.log import LogReader
from miniqueue.broker.inspect.rates import RateMeter
from miniqueue.broker.model.new_partitions import NewPartitions
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import GroupFigures, figures_of
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.stored import encode_commit
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkProgress
from miniqueue.core.group.holes import finished_in
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.names import DEFAULT_GROUP_NAME, check_group, check_new_group, check_topic
from miniqueue.core.message.parts import is_first
from miniqueue.core.options.start import Edge, Start
from miniqueue.core.settings.group_options import NOTHING_OWN
from miniqueue.core.settings.settings import BY_GROUP
from miniqueue.errors import CorruptionError, MiniqueueError
from miniqueue.errors.requests import (
    GroupExistsError,
    GroupInUseError,
    InvalidGroupError,
    UnknownGroupError,
    UnknownTopicError,
)
from miniqueue.storage.format import groups, keys

T = TypeVar("T")
#: The time over which the rate of a group is measured.
RATE_SECONDS: Final = 10


class Seek(NamedTuple):
    """The effect of a seek: the number of messages that the group has yet to settle, `before` and `after` it."""

    before: int
    after: int


class Groups:
    """Changes which groups read a topic, and from which position.

    Args:
      engine: provides the topics, and commits the changes.
      log_reader: finds messages by their time.
      rates: measures the groups.
      set_own: changes the settings that a group of a topic has of its own; see `TopicAdmin.set_own`.
      period_seconds: the time between two ticks.
    """

    def __init__(
        self,
        engine: Engine,
        log_reader: LogReader,
        rates: RateMeter,
        set_own: Callable[[Topic, bytes, Mapping[str, float | None]], object],
        *,
        period_seconds: float,
    ) -> None:
        self._engine = engine
        self._store_own = set_own
        self._topics = engine.topics
        self._journal = engine.journal
        self._clock = engine.clock
        self._log_reader = log_reader
        self._rates = rates
        self._remains = GroupCleanup(engine)
        self._idle = IdleGroups(engine, period_seconds=period_seconds)

    # --- inspecting -------------------------------------------------------------------------------------------

    async def figures(self, name: bytes) -> AsyncGenerator[GroupFigures, None]:
        """Yield the current statistics of each group of a topic, in order of the names, one per iteration of the loop.

        Groups that are deleted meanwhile are left out. Raises InvalidTopicError, UnknownTopicError or UnavailableError.
        """
        topic = await self._journal.epoch.repeat(partial(self._counted, name))
        listed = sorted(group.name for group in topic.existing_groups)
        async with aclosing(self._engine.share.in_turns(listed, 1)) as names:
            async for group_name in names:  # a topic that was at rest meanwhile has other objects
                group = topic.groups.get(group_name)
                if group is not None and group.id is not None:
                    yield self._figures_of(group)

    async def figures_of(self, name: bytes, group_name: bytes) -> GroupFigures:
        """Return the current statistics of one group; also raises UnknownGroupError."""
        topic = await self._journal.epoch.repeat(partial(self._counted, name))
        return self._figures_of(_existing(topic, group_name))

    def _figures_of(self, group: Group) -> GroupFigures:
        return figures_of(group)._replace(ack_rate_10s=self._rates.acked_per_second(group, RATE_SECONDS))

    async def _counted(self, name: bytes) -> Topic:
        async def count(topic: Topic) -> Topic:
            await self._engine.waking.wake_named([name])
            await count_due(self._engine, topic)
            return topic

        return await self._journal.look_at(name, count)

    # --- changing ---------------------------------------------------------------------------------------------

    async def create(
        self,
        name: bytes,
        group_name: bytes,
        start: Start = Edge.EARLIEST,
        own: Mapping[str, float | None] = NOTHING_OWN,
    ) -> None:
        """Create a group, and its topic if necessary; both are durable on return, with the group's own settings.

        `own` has the value of the group in settings of the topic that have values by group; see `GroupOptions`.

        Raises:
          InvalidTopicError, InvalidGroupError, GroupExistsError, LimitReachedError: the group was not created.
          InvalidOptionError, UnknownPartitionError: `start` is not a position in the topic; a new topic has only 0-0.
          InvalidSettingError: too many groups of the topic have settings of their own.
          UnavailableError, StorageError: the group cannot be created now.
        """
        await self._journal.epoch.repeat(partial(self._create, name, group_name, start, own))
        await self._journal.committer.flush()

    def names(self, name: bytes) -> list[bytes]:
        """Return the names of the groups of a topic; none if it does not exist."""
        topic = self._topics.find(name)
        return [] if topic is None else [group.name for group in topic.existing_groups]

    async def use(self, name: bytes, group_name: bytes) -> None:
        """Create a group of an existing topic as its first use does, unless it exists; raises as `create`.

        Raises UnknownGroupError if using a group does not create it.
        """
        topic = await self._journal.committed_topic(name)
        topic.check_use(group_name)
        if group_name not in self.names(name):
            with suppress(GroupExistsError):
                await self.create(name, group_name)

    async def _create(self, name: bytes, group_name: bytes, start: Start, own: Mapping[str, float | None]) -> None:
        self._journal.admission.check()
        check_new_group(group_name)
        if own and group_name == DEFAULT_GROUP_NAME:
            raise InvalidGroupError("group default: it does not end, so it cannot be EPHEMERAL or have an IDLE time")
        if self._topics.find(check_topic(name)) is None:
            check_start(start, {0: 0})
            if await self._engine.maker.carry_out(partial(self._create_with_topic, name, group_name, own)):
                return
        topic = self._topics.by_name[name]
        topic.settings.with_changes(topic.settings.of_group(group_name, own), name)  # raises if they are too many
        if group_name == DEFAULT_GROUP_NAME and not topic.settings.default_group:
            raise InvalidGroupError(
                "group default: this topic was made without it (default_group); choose another name"
            )
        if topic.group(group_name).id is not None:
            raise GroupExistsError
        try:
            await self._begin(topic.group(group_name), start)
            self._set_own(topic, group_name, own)
        finally:
            topic.drop_idle(topic.group(group_name))

    def _create_with_topic(
        self, name: bytes, group_name: bytes, own: Mapping[str, float | None], made: NewPartitions
    ) -> bool:
        """Create a topic with a group, unless it was created meanwhile; return whether it was created here."""
        self._journal.admission.check()
        if self._topics.find(name) is not None:
            return False
        topic = self._topics.create(name, groups=[group_name], made=made)
        self._set_own(topic, group_name, own)
        return True

    def _set_own(self, topic: Topic, group_name: bytes, own: Mapping[str, float | None]) -> None:
        """Change the settings of one group with the next commit, and watch it if it ends with its last consumer."""
        if own:
            self._store_own(topic, group_name, own)
        if own.get("ephemeral_groups") is not None:
            self._idle.expect_consumer(topic.group(group_name))

    async def seek(self, name: bytes, group_name: bytes, start: Start, *, is_dry: bool = False) -> Seek:
        """Move a group to `start`; the move is durable on return.

        The group loses its leases and the messages that were returned to it. A dry run changes nothing. Raises the
        errors of `create`, UnknownTopicError and UnknownGroupError.
        """
        if not is_dry:
            await self._remains.room()
        effect = await self._journal.epoch.repeat(partial(self._seek, name, group_name, start, is_dry=is_dry))
        if not is_dry:
            await self._journal.committer.flush()
        return effect

    async def _seek(self, name: bytes, group_name: bytes, start: Start, *, is_dry: bool) -> Seek:
        topic = await self._journal.committed_topic(name)
        group = _existing(topic, group_name)
        before = group.depth
        if is_dry:
            with self._pinned(topic):
                positions = await self._found(topic, partial(self._positions, topic, start))
            after = sum(position.depth for position in positions.values())
        else:
            after = (await self._begin(group, start)).depth
        return Seek(before, after)

    async def delete(self, name: bytes, group_name: bytes) -> None:
        """Delete a group with the messages that it has not settled; the deletion is durable on return.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError.
          GroupInUseError: the group has consumers, or is the only group of its topic.
          UnavailableError: no change is possible now.
        """
        await self._remains.room()
        topic = await self._journal.committed_topic(name)
        self._delete(_existing(topic, group_name))
        await self._journal.committer.flush()

    def _delete_soon(self, group: Group) -> None:
        """Delete a group with the next commit; raises GroupInUseError or UnavailableError."""
        self._journal.admission.check_change()
        self._delete(group)
        self._journal.committer.request()

    def _delete(self, group: Group) -> None:
        topic = group.topic
        if group.consumer_count or len(topic.existing_groups) == 1:
            raise GroupInUseError
        self._replace(group, None, {}, {})
        self._set_own(topic, group.name, dict.fromkeys(BY_GROUP))
        topic.drop_idle(group)

    # --- first use --------------------------------------------------------------------------------------------

    def begin_soon(self, group: Group) -> None:
        """Create a group in the background that a consumer uses for the first time; then serve its waiting consumers.

        If the settings of the topic do not let a group begin by being used, the waiting consumers get the error.
        """
        if group.topic.id is None or group.is_loading or group.topic.fault is not None:
            return
        try:
            group.topic.check_use(group.name)
        except UnknownGroupError as exc:
            group.fail(exc)
        else:
            group.begin_loading()
            self._engine.spawn(self._begin_for_waiters(group))

    async def _begin_for_waiters(self, group: Group) -> None:
        fault: MiniqueueError | None = None
        topic, topic_id = group.topic, group.topic.id
        try:
            self._journal.admission.check_change()
            await self._begin(group, Edge.EARLIEST)
        except MiniqueueError as exc:
            fault = exc
        if fault is not None and topic.id == topic_id and group.id is None:
            group.end_loading()
            group.fail(fault)

    def restored(self, content: StoreContent) -> None:
        """Delete the data of groups that have a purge entry in the store, at startup and after a fault."""
        self._remains.forget()
        self._idle.restored()
        for topic, group_id in content.unpurged_groups:
            if topic.id is not None:
                self._remains.delete(topic, group_id, dict.fromkeys(topic.partitions), frees_keys=True)

    def changed(self, topic: Topic) -> None:
        """Watch the groups of a topic more closely if they have settings of their own."""
        self._idle.changed(topic)

    def tick(self) -> None:
        """Delete groups that no client reads, if their topic says so; retry deletions of stored data that failed."""
        self._idle.tick(self._delete_soon)
        self._remains.tick()

    # --- the change itself ------------------------------------------------------------------------------------

    async def _begin(self, group: Group, start: Start) -> NewCursors:
        """Give a group a new id and cursors at `start`, with the next commit; call it only within an epoch.

        The pins keep only the chunks of this epoch, so a position from another epoch must never become a cursor.
        """
        topic, topic_id, is_new = group.topic, group.topic.id, group.id is None
        with self._pinned(topic), self._remains.reserved_id(topic) as new_id:
            cursors = await self._found(topic, partial(self._cursors, topic, start, new_id))
            self._journal.admission.check_change()
            if topic.id is None or topic.id != topic_id:
                raise UnknownTopicError
            # If all its consumers left meanwhile, the group was dropped, and another may have its name now.
            group = topic.group(group.name)
            if is_new != (group.id is None):  # another act created or deleted the group meanwhile
                raise GroupExistsError if is_new else UnknownGroupError
            if is_new:
                self._admit(group)
            cursors.complete()
            self._replace(group, new_id, cursors.by_partition, cursors.batch)
            self._drop_placeholder(topic)
        return cursors

    def _admit(self, group: Group) -> None:
        """Raise LimitReachedError unless the topic of a group that does not exist may have it."""
        topic, limits = group.topic, self._engine.limits
        if not group.consumer_count:
            limits.admit_group(topic)
        else:  # it counts since its first consumer entered, but its partitions do not
            limits.admit_partitions(topic.lane_count, topic.settings.owner or "")

    def _drop_placeholder(self, topic: Topic) -> None:
        """Delete the group default of a topic that was created without it.

        Until now, this group kept the messages for the topic's first other group.
        """
        default = topic.default
        is_alone = len(topic.existing_groups) == 1
        if default.id is not None and not (topic.settings.default_group or default.consumer_count or is_alone):
            self._replace(default, None, {}, {})

    async def _positions(self, topic: Topic, start: Start) -> dict[int, StartPosition]:
        return await start_positions.find(self._journal, self._log_reader, topic, start)

    async def _cursors(self, topic: Topic, start: Start, group_id: int) -> NewCursors:
        cursors = NewCursors(topic, group_id)
        await cursors.make(await self._positions(topic, start))
        return cursors

    async def _found(self, topic: Topic, find: Callable[[], Awaitable[T]]) -> T:
        """Return what `find` returns: the start positions of a group in a topic that is pinned, or its cursors there.

        Pins do not keep the chunks that only one group needed, if this group is deleted or moved meanwhile: then the
        search is repeated. Raises UnknownTopicError if the topic is deleted meanwhile.
        """
        topic_id = topic.id
        while True:
            ids = _ids(topic)
            try:
                result = await find()
            except MiniqueueError as exc:
                if topic.id == topic_id and (ids <= _ids(topic) or not isinstance(exc, CorruptionError)):
                    raise
            else:
                if topic.id == topic_id and ids <= _ids(topic):
                    return result
            if topic.id != topic_id:
                raise UnknownTopicError

    def _replace(
        self, group: Group, new_id: int | None, cursors: dict[int, GroupCursor], batch: dict[bytes, bytes | None]
    ) -> None:
        """Give a group another id and other cursors, or delete it if `new_id` is None, with the next commit.

        `batch` is what that commit stores of the cursors.
        """
        topic, old_id = group.topic, group.id
        assert topic.id is not None
        made = NoticeKind.GROUP_CREATED if old_id is None else NoticeKind.GROUP_MOVED
        kind = NoticeKind.GROUP_DELETED if new_id is None else made
        if is_first(topic.name):
            self._engine.notices.report(kind, topic.name, group=group.name.decode())
        if topic.trace is not None and old_id is not None:
            topic.trace.regrouped(group.name, group.cursors, cursors)
        finished_before, finished, key_group = finished_in(group.cursors), finished_by(group), topic.key_group
        if old_id is not None:
            # The group default exists if this cursor does; others are left.
            batch[keys.cursor(topic.id, topic.first_partition, old_id)] = None
            batch[groups.purge(topic.id, old_id)] = b""
            batch[groups.group(topic.id, group.name)] = None
        topic.set_cursors(group, new_id, cursors)
        for partition in topic.partitions.values():
            partition.is_head_due = True
        self._journal.touch(topic)
        if new_id is not None:
            batch |= encode_commit.new_group(topic.id, group, self._clock.now_ms())
        frees_keys = key_group in (group, None) or topic.key_group is not key_group
        if frees_keys and old_id is None and new_id is not None:  # an unused id, whose cleanup frees the keys
            old_id = self._remains.next_id(topic)
            batch[groups.purge(topic.id, old_id)] = b""
        self._journal.change(batch)
        for partition, progresses in finished:
            self._delete_unneeded(topic.id, partition, progresses)
        if old_id is not None:
            self._remains.delete(topic, old_id, finished_before, frees_keys=frees_keys)
        self._journal.events.changed(topic)
        self._journal.events.readable(topic)

    @contextmanager
    def _pinned(self, topic: Topic) -> Iterator[None]:
        """Keep the chunks of a topic until the block exits, then delete those that no group needs.

        A purge entry in the store exists meanwhile, so that a restart deletes them.
        """
        topic_id = topic.id
        if topic_id is not None:
            self._journal.change({groups.purge(topic_id, PINNED): b""})
        partitions = dict(topic.partitions)
        try:
            with pinned(topic) as pin:
                yield
        finally:
            # Otherwise the topic is being reloaded, which deletes the chunks, then the entry, as after a restart.
            if topic_id is not None and topic.id == topic_id and partitions.items() <= topic.partitions.items():
                for partition, progress in pin.kept:
                    self._delete_unneeded(topic_id, partition, [progress])
                self._remains.unpin(topic, topic_id)

    def _delete_unneeded(self, topic_id: int, partition: Partition, finished: list[ChunkProgress]) -> None:
        unneeded = [progress.chunk for progress in finished if partition.is_unneeded(progress)]
        if unneeded:
            self._journal.change({keys.chunk(topic_id, partition.number, chunk.first_seq): None for chunk in unneeded})
            partition.consumed_bytes += sum(chunk.size_bytes for chunk in unneeded)


def _ids(topic: Topic) -> set[int | None]:
    return {group.id for group in topic.existing_groups}


def _existing(topic: Topic, group_name: bytes) -> Group:
    group = topic.groups.get(check_group(group_name))
    if group is None or group.id is None:
        raise UnknownGroupError
    return group
