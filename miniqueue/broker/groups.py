"""Makes groups, moves them and deletes them: each act is one commit.

    first use ─┐
    create ────┼─▶ pin ─▶ find the place in each partition ─▶ cursors under a new id ─▶ commit
    seek ──────┘                                                └ of seek: the old id is deleted with it
    delete ─────────────────────────────────────────────────────▶ its id is deleted

An id that is deleted leaves keys behind, and chunks that only its group needed: they go later, page by page, and an
entry in the store says so until they are gone.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from miniqueue.broker import batching
from miniqueue.broker.clock import Clock
from miniqueue.broker.due_counting import DueCounter
from miniqueue.broker.group import Group
from miniqueue.broker.group_figures import GroupFigures, figures_of
from miniqueue.broker.group_places import Place, Places, check_start, holes_in, pinned
from miniqueue.broker.group_remains import PINNED, GroupRemains, finished_by
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.log_reading import LogReader
from miniqueue.broker.looking import committed_topic, existing_id
from miniqueue.broker.registry import Registry
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.group_errors import GroupExistsError, GroupInUseError, InvalidGroupError, UnknownGroupError
from miniqueue.core.group_start import DEFAULT_GROUP_NAME, Edge, Start, check_group, check_new_group
from miniqueue.core.holes import without
from miniqueue.core.lease import ChunkProgress
from miniqueue.core.names import check_topic
from miniqueue.core.partition import Partition, Pin
from miniqueue.core.topic_errors import UnknownTopicError
from miniqueue.errors import CorruptionError, MiniqueueError
from miniqueue.storage import group_keys, keys


class Seek(NamedTuple):
    """What a seek does, or would do: how many messages the group had to get before, and has behind it."""

    before: int
    after: int


class Groups:
    """Changes which groups read a topic, and from where.

    Args:
      registry: has the topics, and makes those that are missing.
      journal: commits it.
      log_reader: finds messages by their time.
      clock: tells when a group was made.
      quota: says how many there may be.
      spawn: runs something in the background.
      changed: called for each topic whose groups have changed.

    Attributes:
      due_counter: counts delayed messages that are due; set before anybody looks.
    """

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        log_reader: LogReader,
        clock: Clock,
        quota: Quota,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        changed: Callable[[Topic], None],
    ) -> None:
        self._registry = registry
        self._topics = registry.topics
        self._journal = journal
        self._places = Places(journal, log_reader)
        self._clock = clock
        self._quota = quota
        self._spawn = spawn
        self._changed = changed
        self._remains = GroupRemains(journal, spawn=spawn)
        self.due_counter: DueCounter

    # --- looking ----------------------------------------------------------------------------------------------

    async def figures(self, name: bytes) -> list[GroupFigures]:
        """Return how far each group of a topic is, as of now, by name.

        Raises InvalidTopicError, UnknownTopicError or UnavailableError.
        """
        topic = await self._journal.epoch.repeat(partial(self._counted, name))
        return [figures_of(group) for group in sorted(topic.existing_groups, key=lambda group: group.name)]

    async def figures_of(self, name: bytes, group_name: bytes) -> GroupFigures:
        """Return how far one group is; raises UnknownGroupError too."""
        topic = await self._journal.epoch.repeat(partial(self._counted, name))
        return figures_of(_existing(topic, group_name))

    async def _counted(self, name: bytes) -> Topic:
        topic = await committed_topic(self._topics, self._journal, name)
        await self.due_counter.count(topic)
        existing_id(topic)  # else it was deleted meanwhile
        return topic

    # --- changing ---------------------------------------------------------------------------------------------

    async def create(self, name: bytes, group_name: bytes, start: Start = Edge.EARLIEST) -> None:
        """Make a group, and the topic if there is none; it is durable on return.

        Raises:
          InvalidTopicError, InvalidGroupError, GroupExistsError, LimitReachedError: it was not made.
          InvalidOptionError, UnknownPartitionError: `start` is no place in the topic; a new one has only 0-0.
          UnavailableError, StorageError: it cannot be made now.
        """
        await self._journal.epoch.repeat(partial(self._create, name, group_name, start))
        await self._journal.committer.flush()

    async def _create(self, name: bytes, group_name: bytes, start: Start) -> None:
        self._journal.admission.check()
        check_new_group(group_name)
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            check_start(start, {0: 0})
            self._registry.create(name, groups=[group_name])
            return
        if group_name == DEFAULT_GROUP_NAME and not topic.settings.default_group:
            raise InvalidGroupError(
                "group default: this topic was made without it (default_group); choose another name"
            )
        if topic.group(group_name).id is not None:
            raise GroupExistsError
        try:
            await self._begin(topic.group(group_name), start)
        finally:
            topic.drop_idle(topic.group(group_name))

    async def seek(self, name: bytes, group_name: bytes, start: Start, *, is_dry: bool = False) -> Seek:
        """Have a group go on from `start`: what is leased or came back is forgotten; durable on return.

        A dry run changes nothing. Raises as `create`, and UnknownTopicError, UnknownGroupError.
        """
        found = await self._journal.epoch.repeat(partial(self._seek, name, group_name, start, is_dry=is_dry))
        if not is_dry:
            await self._journal.committer.flush()
        return found

    async def _seek(self, name: bytes, group_name: bytes, start: Start, *, is_dry: bool) -> Seek:
        topic = await committed_topic(self._topics, self._journal, name)
        group = _existing(topic, group_name)
        before = group.depth
        if is_dry:
            with self._pinned(topic):
                places = await self._find(topic, start)
        else:
            places = await self._begin(group, start)
        return Seek(before, sum(place.depth for place in places.values()))

    async def delete(self, name: bytes, group_name: bytes) -> None:
        """Delete a group with what it still had to get; it is gone, durably, on return.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError.
          GroupInUseError: it has consumers, or is the only one of its topic.
          UnavailableError: nothing can be changed now.
        """
        topic = await committed_topic(self._topics, self._journal, name)
        self._delete(_existing(topic, group_name))
        await self._journal.committer.flush()

    def delete_soon(self, group: Group) -> None:
        """Delete a group with the next commit; raises GroupInUseError or UnavailableError."""
        self._journal.admission.check_change()
        self._delete(group)
        self._journal.committer.request()

    def _delete(self, group: Group) -> None:
        topic = group.topic
        if group.consumer_count or len(topic.existing_groups) == 1:
            raise GroupInUseError
        self._replace(group, None, {})
        topic.drop_idle(group)

    # --- first use --------------------------------------------------------------------------------------------

    def begin_soon(self, group: Group) -> None:
        """Make a group that somebody reads with for the first time; who waits there is served then.

        They are told if the settings of the topic do not let the group begin so.
        """
        if group.topic.id is None or group.is_loading or group.topic.fault is not None:
            return
        try:
            group.topic.check_use(group.name)
        except UnknownGroupError as exc:
            group.fail(exc)
        else:
            group.is_loading = True
            self._spawn(self._begin_for_waiters(group))

    def begin_waiting(self, topic: Topic) -> None:
        """Begin the groups that somebody waits in."""
        for group in list(topic.groups.values()):
            if group.id is None and group.waiters:
                self.begin_soon(group)

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

    def installed(self, topics: list[Topic], unpurged: list[tuple[Topic, int]]) -> None:
        """Go on with what is in the store: delete what is left of groups, and begin those that somebody waits in."""
        self._remains.forget()
        for topic, group_id in unpurged:
            if topic.id is not None:
                runs = {number: holes_in(partition) for number, partition in topic.partitions.items()}
                self._remains.delete(topic, group_id, runs, frees_keys=True)
        for topic in topics:
            self.begin_waiting(topic)

    def tick(self) -> None:
        """Delete what groups have left and could not be deleted before."""
        self._remains.tick()

    # --- the change itself ------------------------------------------------------------------------------------

    async def _begin(self, group: Group, start: Start) -> dict[int, Place]:
        """Have a group begin at `start`, with the next commit; it is for acts that run within an epoch.

        Its pins hold only the chunks of this epoch: what was found in another must never become a cursor.
        """
        topic, topic_id, is_new = group.topic, group.topic.id, group.id is None
        with self._pinned(topic):
            places = await self._find(topic, start)
            self._journal.admission.check_change()
            if topic.id is None or topic.id != topic_id:
                raise UnknownTopicError
            group = topic.group(group.name)  # who waited there may have left meanwhile, and others have come
            if is_new != (group.id is None):  # somebody else was faster
                raise GroupExistsError if is_new else UnknownGroupError
            if is_new and not group.consumer_count:  # else it was admitted when somebody came to wait in it
                self._quota.admit_group(topic)
            new_id = self._remains.next_id(topic)
            cursors = {
                number: places[number].cursor(partition, new_id)
                if number in places
                else GroupCursor(CursorState(), partition.tail_seq, {}, is_new=True, partition=number, group=new_id)
                for number, partition in topic.partitions.items()
            }
            self._replace(group, new_id, cursors)
            self._drop_placeholder(topic)
        return places

    def _drop_placeholder(self, topic: Topic) -> None:
        """Delete the group default of a topic that was made without it: it kept the messages for the first other."""
        default = topic.default
        is_alone = len(topic.existing_groups) == 1
        if default.id is not None and not (topic.settings.default_group or default.consumer_count or is_alone):
            self._replace(default, None, {})

    async def _find(self, topic: Topic, start: Start) -> dict[int, Place]:
        """Return where a group begins in a topic that is pinned.

        Pins do not hold what a group alone needed that is deleted, or moved, meanwhile: it is looked for again then.
        """
        while True:
            ids = _ids(topic)
            try:
                places = await self._places.find(topic, start)
            except CorruptionError:
                if ids <= _ids(topic):
                    raise
            else:
                if ids <= _ids(topic):
                    return places

    def _replace(self, group: Group, new_id: int | None, cursors: dict[int, GroupCursor]) -> None:
        """Have a group go on under another id, or be no more, with the next commit."""
        topic, old_id = group.topic, group.id
        assert topic.id is not None
        if topic.trace is not None and old_id is not None:
            topic.trace.regrouped(group.name, group.cursors, cursors)
        holes = {number: holes_in(partition) for number, partition in topic.partitions.items()}
        finished, key_group = finished_by(topic, old_id), topic.key_group
        batch: dict[bytes, bytes | None] = {}
        if old_id is not None:
            batch = {keys.cursor(topic.id, number, old_id): None for number in topic.partitions}
            batch[group_keys.purge(topic.id, old_id)] = b""
            batch[group_keys.group(topic.id, group.name)] = None
        topic.set_cursors(group, new_id, cursors)
        for partition in topic.partitions.values():
            partition.is_head_due = True
        self._journal.touch(topic)
        if new_id is not None:
            batch |= batching.new_group(topic.id, group, self._clock.now_ms())
            for cursor in cursors.values():
                batch |= batching.new_cursor(topic.id, cursor)
        frees_keys = key_group in (group, None) or topic.key_group is not key_group
        if frees_keys and old_id is None and new_id is not None:  # an id under which there is nothing else
            old_id = new_id + 1
            batch[group_keys.purge(topic.id, old_id)] = b""
        self._journal.change(batch)
        for partition, progresses in finished:
            self._delete_unneeded(topic.id, partition, progresses)
        if old_id is not None:
            runs = {number: without(holes_in(topic.partitions[number]), found) for number, found in holes.items()}
            self._remains.delete(topic, old_id, runs, frees_keys=frees_keys)
        self._changed(topic)

    @contextmanager
    def _pinned(self, topic: Topic) -> Iterator[None]:
        """Have chunks that nobody needs deleted behind this block only; an entry in the store says so until then."""
        topic_id = topic.id
        if topic_id is not None:
            self._journal.change({group_keys.purge(topic_id, PINNED): b""})
        try:
            with pinned(topic) as pins:
                yield
        finally:
            if topic_id is not None and topic.id == topic_id:
                self._unpin(topic, topic_id, pins)

    def _unpin(self, topic: Topic, topic_id: int, pins: list[tuple[Partition, Pin]]) -> None:
        if any(topic.partitions.get(partition.number) is not partition for partition, _ in pins):
            return  # the topic is read anew: what is left is deleted as after a restart, and the entry behind it
        for partition, pin in pins:
            self._delete_unneeded(topic_id, partition, pin.kept)
        if not any(partition.pins for partition in topic.partitions.values()):
            self._journal.change({group_keys.purge(topic_id, PINNED): None})
            self._journal.committer.request()

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
