"""Holds back messages that were published with a delay, until they are due.

    add ─▶ a value of its own, with the next commit ─▶ tick: due by now?
                                                        └ a page of the store ─▶ appended to the log and deleted,
                                                                                 in one commit ─▶ the next page

A waiting message uses no memory, and a tick at which no message is due costs one comparison. Messages that are due at
the same time are appended in the order in which they were published. A message is never early by the wall clock; if the
clock is set, the message is due when the clock shows its due time. Whatever happens in between, the commit moves the
message to the log exactly once.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from operator import attrgetter

import structlog

from miniqueue.broker.engine import lanes
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import NewMessage
from miniqueue.broker.model.recording import Source
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.model.views import Ends
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.broker.stored.browse_delayed import DelayedPage, DelayedPages
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.log.delayed import MAX_DUE_AT_MS, NOWHERE, Delayed, PartitionDelays, Place
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.attributes import expires_at_ms, unique_key
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.lanes import lane, with_number
from miniqueue.errors import StorageError, UnavailableError
from miniqueue.errors.requests import UnknownMessageError

log = structlog.get_logger()

GONE = "There is no such message: it was cancelled, or has become due"
#: Maximum number and size of the messages that one commit appends or removes, in one iteration of the event loop: it
#: bounds the commit and its memory.
PAGE_ITEMS = 256
PAGE_BYTES = 1 << 20
#: The same for the first page of a release. A page is read past the messages that are due, to learn when the next one
#: is due. Normally a few are due, and reading a full page of later messages would be in vain.
FIRST_PAGE_ITEMS = 32
FIRST_PAGE_BYTES = 64 << 10


#: Changes messages of a partition that wait at these positions.
ChangeWaiting = Callable[[Partition, list[tuple[Place, Delayed]]], None]


class DelayedMessages:
    """Stores the delayed messages of all topics, and appends them to the logs when they are due."""

    def __init__(self, engine: Engine) -> None:
        self._topics = engine.topics.by_name
        self._journal = engine.journal
        self._clock = engine.clock
        self._holding: dict[Topic, None] = {}  # topics that have, or had at the last check, waiting messages
        self._next_due_at_ms = 0  # no message is due before; 0: not known yet
        self._releasing = SingleTask(engine.spawn)

    def add(self, topic: Topic, due_at_ms: int, message: Delayed) -> DelayedId:
        """Add a message, for which there is room, that waits until it is due; the next commit stores it."""
        partition = topic.partitions[topic.first_partition]
        position = partition.delays.add(due_at_ms, message)
        if topic.trace is not None:
            topic.trace.scheduled(partition.number, position)
        self._holding[topic] = None
        self._next_due_at_ms = min(self._next_due_at_ms, due_at_ms)
        self._journal.touch(topic)
        return DelayedId(partition.number, *position)

    def restored(self, _content: StoreContent) -> None:
        """Look at all topics: they have been read from the store."""
        self._holding = {topic: None for topic in self._topics.values() if topic.at_rest is None}
        self._look_again()

    async def cancel(self, name: bytes, delayed_id: DelayedId) -> None:
        """Remove a waiting message; on return, its removal is durable.

        Raises:
          InvalidTopicError, UnknownTopicError, UnavailableError, StorageError.
          UnknownMessageError: the message was removed already, or has become due.
        """

        async def cancel() -> None:
            topic = await self._journal.committed_topic(name)
            if not await self.change(topic, [delayed_id], self.remover(topic, Kind.CANCELLED)):
                raise UnknownMessageError(GONE)

        await self._journal.epoch.repeat(cancel)
        await self._journal.committer.flush()

    async def change(
        self,
        topic: Topic,
        ids: Iterable[DelayedId],
        change: ChangeWaiting,
        note: Callable[[int], None] = lambda _count: None,
    ) -> int:
        """Change those of some messages that still wait; return how many these are.

        The caller commits. Only acts that run within an epoch may call this. `note` is called with the number of
        messages that were just changed, before anything else happens. Raises UnavailableError or StorageError.
        """
        changed_count = 0
        for number, group in groupby(sorted(ids), key=attrgetter("partition")):
            partition = topic.partitions.get(number)
            if partition is None:
                continue
            stored, delays = self._stored(topic, partition), partition.delays
            with delays.look() as look:
                await self._journal.committer.flush()
                positions = [(delayed_id.due_at_ms, delayed_id.serial) for delayed_id in group]
                read = [(position, await stored.get(position)) for position in positions]
                if not _is_of(topic, partition, delays):
                    break
                waiting = [(position, message) for position, message in read if message and position not in look.gone]
                change(partition, waiting)
                self._journal.touch(topic)
                note(len(waiting))
                changed_count += len(waiting)
        return changed_count

    async def read(self, topic: Topic, partition: Partition, position: Place) -> Delayed | None:
        """Return the message that was added at a position; None if the store no longer contains it.

        It may have left the position, which the caller has to know. Only acts that run within an epoch may call this.
        Raises StorageError.
        """
        return partition.delays.unwritten(position) or await self._stored(topic, partition).get(position)

    def remover(self, topic: Topic, kind: Kind) -> ChangeWaiting:
        """Return what removes waiting messages of a topic, with the trace event to record."""

        def remove(partition: Partition, waiting: list[tuple[Place, Delayed]]) -> None:
            delays = partition.delays
            for position, message in waiting:
                delays.remove(position, message)
                _free(topic, partition, position, message)
            if topic.trace is not None:
                topic.trace.waits_no_longer(kind, partition.number, waiting)

        return remove

    def mover(self, topic: Topic, due_at_ms: int) -> ChangeWaiting:
        """Return what gives waiting messages of a topic another due time; they keep their serial numbers."""

        def move(partition: Partition, waiting: list[tuple[Place, Delayed]]) -> None:
            if topic.trace is not None:
                topic.trace.waits_no_longer(Kind.RESCHEDULED, partition.number, waiting)
            delays = partition.delays
            for position, message in waiting:
                moved = delays.move(position, due_at_ms, message)
                if message.attributes and (key := unique_key(message.attributes)) and moved != position:
                    topic.unique_keys.take(key, bytes(DelayedId(partition.number, *position)))
                    expires_ms = expires_at_ms(message.attributes)
                    topic.unique_keys.put(key, bytes(DelayedId(partition.number, *moved)), expires_ms)
                if topic.trace is not None:
                    topic.trace.scheduled(partition.number, moved)
            self._holding[topic] = None
            self._next_due_at_ms = min(self._next_due_at_ms, due_at_ms)

        return move

    async def purge(self, topic: Topic, latest_ms: float, ends: Ends, note: Callable[[int], None]) -> None:
        """Remove the waiting messages of a topic, up to `ends`, that were published by `latest_ms`.

        `note` is called with the number of removed messages, when their removal is durable. Only acts that run within
        an epoch may call this. Raises UnavailableError or StorageError if it is aborted; messages that were removed
        before that remain removed.
        """
        reached = [(partition, ends[partition].serial) for partition in topic.partitions.values() if partition in ends]
        for partition, serial in reached:
            await self._purge(topic, partition, latest_ms, serial, note)

    async def _purge(
        self, topic: Topic, partition: Partition, latest_ms: float, last_serial: int, note: Callable[[int], None]
    ) -> None:
        delays, start = partition.delays, (0, 0)
        while delays.state.message_count and _is_of(topic, partition, delays):
            stored = self._stored(topic, partition)
            with delays.look() as look:
                page = await self._page(stored, delays, start, PAGE_ITEMS, PAGE_BYTES)
                if not page.messages or not _is_of(topic, partition, delays):
                    break
                old = [
                    (position, message)
                    for position, message in page.messages
                    if position not in look.gone and position[1] <= last_serial and message.published_at_ms <= latest_ms
                ]
                for position, message in old:
                    delays.remove(position, message)
                    _free(topic, partition, position, message)
                if topic.trace is not None:
                    topic.trace.waits_no_longer(Kind.PURGED, partition.number, old)
            start = page.next
            self._journal.touch(topic)
            await self._journal.committer.flush()
            note(len(old))

    # --- what is due ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Start to append the messages that are due by now, if there are any."""
        if len(self._holding) > len(self._topics):
            self._look_again()  # Topics were deleted before any of their messages was due.
        may_release = self._journal.admission.may_change and not self._releasing.is_running
        if self._clock.now_ms() < self._next_due_at_ms or not may_release:
            return
        if self._due(()):
            self._releasing.start(self._release_due())
        else:
            self._look_again()

    def _due(self, left_out: Collection[Topic]) -> list[tuple[Topic, Partition]]:
        """Return the partitions in which a message may be due."""
        now_ms = self._clock.now_ms()
        return [
            (topic, partition)
            for topic in self._holding
            if topic.fault is None and topic not in left_out
            for partition in topic.partitions.values()
            if partition.delays.state.message_count and partition.delays.head[0] <= now_ms
        ]

    def _look_again(self) -> None:
        heads = {topic: _head_ms(topic) for topic in self._holding}
        self._holding = {topic: None for topic, head_ms in heads.items() if head_ms is not None}
        self._next_due_at_ms = min((at_ms for at_ms in heads.values() if at_ms is not None), default=MAX_DUE_AT_MS)

    async def _release_due(self) -> None:
        """Append the messages that are due, a page of each partition in turn."""
        failed: set[Topic] = set()
        max_items, max_bytes = min(FIRST_PAGE_ITEMS, PAGE_ITEMS), FIRST_PAGE_BYTES
        try:
            while self._journal.admission.may_change and (due := self._due(failed)):
                for topic, partition in due:
                    topic_id = topic.id
                    try:
                        await self._release(topic, partition, max_items, max_bytes)
                    except StorageError as exc:
                        failed.add(topic)
                        if topic.id == topic_id:  # If the topic was deleted meanwhile, so was the damage.
                            _fail(topic, exc)
                max_items, max_bytes = PAGE_ITEMS, PAGE_BYTES
        except UnavailableError:
            pass  # The store is being reopened; then `restored` starts this again.
        finally:
            self._look_again()

    async def _release(self, topic: Topic, partition: Partition, max_items: int, max_bytes: int) -> None:
        """Append a page of the messages that are due in one partition."""
        delays, now_ms = partition.delays, self._clock.now_ms()
        if not _is_of(topic, partition, delays):
            return
        stored = self._stored(topic, partition)
        with delays.look() as look:
            page = await self._page(stored, delays, delays.head, max_items, max_bytes)
            if not _is_of(topic, partition, delays):
                return
            end = page.next if page.is_cut else NOWHERE
            head = next((position for position, _ in page.messages if position[0] > now_ms), end)
            due = [waiting for waiting in page.messages if waiting[0] < head and waiting[0] not in look.gone]
            positions = lanes.append(self._journal, topic, [_content(partition, *waiting) for waiting in due])
            if topic.trace is not None and due:
                topic.trace.released(partition.number, due, positions, topic.name)
            for position, message in due:
                delays.remove(position, message)
                _free(topic, partition, position, message)
            delays.advance(min(head, look.earliest))
        self._journal.touch(topic)
        self._journal.committer.request()

    async def _page(
        self, stored: DelayedPages, delays: PartitionDelays, start: Place, max_items: int, max_bytes: int
    ) -> DelayedPage:
        """Return the next messages from `start` on, as of now: changes of `delays` are committed first."""
        committer = self._journal.committer
        older, last = committer.begun
        if delays.changes or not (older.is_done and last.is_done):
            await committer.flush()
        return await stored.page(start, max_items=max_items, max_bytes=max_bytes)

    def _stored(self, topic: Topic, partition: Partition) -> DelayedPages:
        assert topic.id is not None  # A topic that does not exist has no messages.
        return DelayedPages(self._journal.store, topic.id, partition.number)


def _head_ms(topic: Topic) -> int | None:
    """Return a time before which no message of a topic is due; None if no message waits."""
    waiting = [partition.delays for partition in topic.partitions.values() if partition.delays.state.message_count]
    return min((delays.head[0] for delays in waiting), default=None)


def _content(partition: Partition, position: Place, message: Delayed) -> NewMessage:
    source = Source(Kind.DUE, bytes(DelayedId(partition.number, *position)))
    number = lane(partition.number, with_number(message.priority))
    return NewMessage(message.payload, message.attributes, number, source)


def _free(topic: Topic, partition: Partition, position: Place, message: Delayed) -> None:
    """Free the unique key of a message that no longer waits, if the message has a key."""
    if message.attributes and (key := unique_key(message.attributes)):
        topic.unique_keys.take(key, bytes(DelayedId(partition.number, *position)))


def _fail(topic: Topic, fault: StorageError) -> None:
    """Log that due messages cannot be read; damage makes the topic unreadable."""
    log.error("messages that are due cannot be read", topic=topic.name, error=str(fault))
    topic.note_fault(fault)


def _is_of(topic: Topic, partition: Partition, delays: PartitionDelays) -> bool:
    """Whether `delays` still belong to the topic, which may have been deleted, or read from the store again."""
    return topic.partitions.get(partition.number) is partition and partition.delays is delays
