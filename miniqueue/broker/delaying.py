"""Holds messages back that were published with a delay, until they are due.

    add ─▶ a value of its own, with the next commit ─▶ tick: due by now?
                                                        └ a page of the store ─▶ appended to the log and deleted,
                                                                                 in one commit ─▶ the next page

Nothing of a message is in memory while it waits, and a tick at which none is due costs a comparison. What is due at the
same time goes in the order in which it came. A message is never early by the wall clock; a clock that is set changes
when that says so. The commit makes it one of the log exactly once, whatever happens in between.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any

import structlog

from miniqueue.broker.clock import Clock
from miniqueue.broker.delayed_reading import Page, Shelf
from miniqueue.broker.extents import Ends
from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Content, Lanes
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace import Source
from miniqueue.core.attributes import unique_key
from miniqueue.core.delayed import MAX_DUE_AT_MS, NOWHERE, Delayed, Delays, Place
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lanes import lane, with_number
from miniqueue.core.look_errors import UnknownMessageError
from miniqueue.core.partition import Partition
from miniqueue.core.tracing import Kind
from miniqueue.errors import CorruptionError, FormatVersionError, StorageError, UnavailableError

log = structlog.get_logger()

GONE = "There is no such message: it was cancelled, or has become due"
#: What one commit appends, or removes.
PAGE_ITEMS = 1024
PAGE_BYTES = 1 << 20


class Delayer:
    """Keeps the delayed messages of all topics.

    Args:
      topics: by name.
      journal: has the store, and commits what comes, goes and is due.
      lanes: where they go when they are due.
      clock: tells what is due.
      spawn: runs something in the background.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        lanes: Lanes,
        clock: Clock,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._topics = topics
        self._journal = journal
        self._lanes = lanes
        self._clock = clock
        self._spawn = spawn
        self._holding: dict[Topic, None] = {}  # topics with messages that wait; or had some, until the next look
        self._next_due_at_ms = 0  # none is due before; 0 until somebody has looked
        self._is_releasing = False

    def add(self, topic: Topic, due_at_ms: int, message: Delayed) -> DelayedId:
        """Keep a message, for which there is room, until it is due; it is stored with the next commit."""
        partition = topic.partitions[0]
        place = partition.delays.add(due_at_ms, message)
        if topic.trace is not None:
            topic.trace.scheduled(partition.number, place)
        self._holding[topic] = None
        self._next_due_at_ms = min(self._next_due_at_ms, due_at_ms)
        self._journal.touch(topic)
        return DelayedId(partition.number, *place)

    def installed(self) -> None:
        """Look at the next tick, whatever was known: the topics have been read from the store."""
        self._holding = dict.fromkeys(self._topics.values())
        self._next_due_at_ms = 0

    async def cancel(self, name: bytes, delayed_id: DelayedId) -> None:
        """Remove a message that waits; it is gone, durably, on return.

        Raises:
          InvalidTopicError, UnknownTopicError, UnavailableError, StorageError.
          UnknownMessageError: it is gone already, or has become due.
        """
        await self._journal.epoch.repeat(partial(self._cancel, name, delayed_id))
        await self._journal.committer.flush()

    async def _cancel(self, name: bytes, delayed_id: DelayedId) -> None:
        topic = await committed_topic(self._topics, self._journal, name)
        partition = topic.partitions.get(delayed_id.partition)
        if partition is None:
            raise UnknownMessageError(GONE)
        place, delays = (delayed_id.due_at_ms, delayed_id.serial), partition.delays
        shelf = self._shelf(topic, partition)
        with delays.look() as look:
            await self._journal.committer.flush()
            message = await shelf.get(place)
            if message is None or place in look.gone or not _is_of(topic, partition, delays):
                raise UnknownMessageError(GONE)
            delays.remove(place, message)
            _free(topic, partition, place, message)
            if topic.trace is not None:
                topic.trace.waits_no_longer(Kind.CANCELLED, partition.number, [(place, message)])
        self._journal.touch(topic)

    async def purge(self, topic: Topic, latest_ms: float, ends: Ends, note: Callable[[int], None]) -> None:
        """Remove all that wait in a topic, up to `ends`, and were published by `latest_ms`.

        `note` is called with how many were removed, when that is durable. It is for acts that run within an epoch.
        Raises UnavailableError or StorageError when it is broken off; what was removed by then is gone.
        """
        there = [(partition, ends[partition].serial) for partition in topic.partitions.values() if partition in ends]
        for partition, serial in there:
            await self._purge(topic, partition, latest_ms, serial, note)

    async def _purge(
        self, topic: Topic, partition: Partition, latest_ms: float, last_serial: int, note: Callable[[int], None]
    ) -> None:
        delays, start = partition.delays, (0, 0)
        while delays.state.message_count and _is_of(topic, partition, delays):
            shelf = self._shelf(topic, partition)
            with delays.look() as look:
                page = await self._page(shelf, start, None)
                if not page.found or not _is_of(topic, partition, delays):
                    break
                left = [one for one in page.found if one[0] not in look.gone and one[0][1] <= last_serial]
                old = [one for one in left if one[1].published_at_ms <= latest_ms]
                for place, message in old:
                    delays.remove(place, message)
                    _free(topic, partition, place, message)
                if topic.trace is not None:
                    topic.trace.waits_no_longer(Kind.PURGED, partition.number, old)
            start = page.next
            self._journal.touch(topic)
            await self._journal.committer.flush()
            note(len(old))

    # --- what is due ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Begin to append what is due by now, if anything is."""
        if len(self._holding) > len(self._topics):
            self._look_again()  # some were deleted before anything was due
        if self._clock.now_ms() < self._next_due_at_ms or self._is_releasing or not self._journal.admission.may_change:
            return
        if self._due(()):
            self._is_releasing = True
            self._spawn(self._release_due())
        else:
            self._look_again()

    def _due(self, left_out: Collection[Topic]) -> list[tuple[Topic, Partition]]:
        """Return where a message may be due."""
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
        """Append what is due, a page of each partition in turn."""
        failed: set[Topic] = set()
        try:
            while self._journal.admission.may_change and (due := self._due(failed)):
                for topic, partition in due:
                    topic_id = topic.id
                    try:
                        await self._release(topic, partition)
                    except StorageError as exc:
                        failed.add(topic)
                        if topic.id == topic_id:  # else the topic was deleted meanwhile, and the damage went with it
                            _fail(topic, exc)
        except UnavailableError:
            pass  # the store is being reopened; then all of this begins anew
        finally:
            self._is_releasing = False
            self._look_again()

    async def _release(self, topic: Topic, partition: Partition) -> None:
        """Append a page of what is due in one partition."""
        delays, now_ms = partition.delays, self._clock.now_ms()
        if not _is_of(topic, partition, delays):
            return
        shelf = self._shelf(topic, partition)
        with delays.look() as look:
            page = await self._page(shelf, delays.head, now_ms + 1)
            head = page.next if page.is_cut else await _first_from(shelf, now_ms + 1)
            if not _is_of(topic, partition, delays):
                return
            due = [one for one in page.found if one[0] not in look.gone]
            places = self._lanes.append(topic, [_content(partition, *one) for one in due])
            if topic.trace is not None and due:
                topic.trace.released(partition.number, due, places, topic.name)
            for place, message in due:
                delays.remove(place, message)
                _free(topic, partition, place, message)
            delays.advance(min(head, look.earliest))
        self._journal.touch(topic)
        self._journal.committer.request()

    async def _page(self, shelf: Shelf, start: Place, stop_ms: int | None) -> Page:
        """Return the next messages from `start` on, as of now: what has changed is committed first."""
        await self._journal.committer.flush()
        return await shelf.page(start, stop_ms, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)

    def _shelf(self, topic: Topic, partition: Partition) -> Shelf:
        assert topic.id is not None  # what does not exist has no messages
        return Shelf(self._journal.store, topic.id, partition.number)


def _head_ms(topic: Topic) -> int | None:
    """Return a time before which no message of a topic is due; None when none waits."""
    waiting = [partition.delays for partition in topic.partitions.values() if partition.delays.state.message_count]
    return min((delays.head[0] for delays in waiting), default=None)


async def _first_from(shelf: Shelf, at_ms: int) -> Place:
    """Return where the first message is that is not due before a time."""
    page = await shelf.page((at_ms, 0), None, max_items=1, max_bytes=1)
    return page.found[0][0] if page.found else NOWHERE


def _content(partition: Partition, place: Place, message: Delayed) -> Content:
    source = Source(Kind.DUE, bytes(DelayedId(partition.number, *place)))
    number = lane(partition.number, with_number(message.priority))
    return Content(message.payload, message.attributes, number, source)


def _free(topic: Topic, partition: Partition, place: Place, message: Delayed) -> None:
    """Take its unique key, if it has one, from a message that waits no longer."""
    if key := unique_key(message.attributes):
        topic.unique_keys.take(key, bytes(DelayedId(partition.number, *place)))


def _fail(topic: Topic, fault: StorageError) -> None:
    """Say that what is due cannot be read; damage stays, any other fault may be gone at the next tick."""
    log.error("messages that are due cannot be read", topic=topic.name, error=str(fault))
    if isinstance(fault, CorruptionError | FormatVersionError):
        topic.fault = fault


def _is_of(topic: Topic, partition: Partition, delays: Delays) -> bool:
    """Whether these are still the delayed messages of a topic, which may be deleted, or read anew."""
    return topic.partitions.get(partition.number) is partition and partition.delays is delays
