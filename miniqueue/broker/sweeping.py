"""Finds what has expired where nobody reads, so that it does not stay for ever.

    tick ─▶ some topics ─▶ where nothing was taken since the last look: when does the head of each range expire?
              in their turn     │ in memory, or read from the store: a value for each range
                                └ now ─▶ given up, in commits of their own ─▶ the next heads, …

A head that has not expired is not looked at again before its time, or before something is taken: then there is another.
Behind a message that does not expire others may have; they go when it does, and nobody is handed them before.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from miniqueue.broker import reading
from miniqueue.broker.clock import Clock
from miniqueue.broker.expiring import Expirer
from miniqueue.broker.group import Group
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core import expiry
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.errors import MiniqueueError
from miniqueue.storage import keys, records

#: A tick looks at so many topics, or at a few less with as many partitions together, which takes some milliseconds the
#: first time and two from then on; and closer, in the background, at so many groups where something has expired, or
#: which need to be read to know.
MAX_TOPICS_IN_TICK = 1000
MAX_LOOKS_IN_TICK = 128
#: So many commits a tick gives to one group that has much to give up.
MAX_COMMITS_IN_TICK = 64


class _Seen(NamedTuple):
    """What a look has found: nothing expires before `over_at_ms`, as long as `mark` is that of the cursor."""

    mark: tuple[int, ...]
    over_at_ms: float


class Sweeper:
    """Gives up what has expired at the heads of ranges.

    Args:
      topics: by name.
      journal: has the store, and commits.
      clock: tells what has expired.
      expirer: gives it up.
      spawn: runs something in the background.
      loaded: called for each topic of which something was loaded.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        clock: Clock,
        expirer: Expirer,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        loaded: Callable[[Topic], None],
    ) -> None:
        self._topics = topics
        self._journal = journal
        self._clock = clock
        self._expirer = expirer
        self._spawn = spawn
        self._loaded = loaded
        self._queue: list[Topic] = []
        self._seen: WeakKeyDictionary[GroupCursor, _Seen] = WeakKeyDictionary()
        self._is_sweeping = False

    def tick(self) -> None:
        """Look at the next topics, and into those where something may have expired, in the background."""
        if self._is_sweeping or not self._journal.admission.may_change:
            return
        if not self._queue:
            self._queue = [topic for topic in self._topics.values() if topic.id is not None]
        due: list[tuple[Group, GroupCursor]] = []
        looked_at = 0
        while self._queue and looked_at < MAX_TOPICS_IN_TICK and len(due) < MAX_LOOKS_IN_TICK:
            topic = self._queue.pop()
            due += self._due(topic)
            looked_at += max(1, len(topic.partitions))
        if due:
            self._is_sweeping = True
            self._spawn(self._sweep(due))

    def _due(self, topic: Topic) -> list[tuple[Group, GroupCursor]]:
        """Return where in a topic something may have expired that nobody takes."""
        return [
            (group, cursor)
            for group in topic.groups.values()
            for cursor in group.cursors
            if self._is_due(group, cursor)
        ]

    def _is_due(self, group: Group, cursor: GroupCursor) -> bool:
        topic = group.topic
        if cursor.depth == cursor.leased_count:
            return False
        seen, mark = self._seen.get(cursor), _mark(topic, cursor)
        if seen is None or seen.mark != mark:  # who takes messages now gives up what has expired
            is_plain = cursor.keyed is None  # else a look may be long
            over_at_ms, unknown = expiry.heads(cursor, topic.ttl_ms, group.name) if is_plain else (0, [Range.LOG])
            self._seen[cursor] = _Seen(mark, 0 if unknown else over_at_ms)
            return False
        return seen.over_at_ms <= self._clock.now_ms()

    async def _sweep(self, due: list[tuple[Group, GroupCursor]]) -> None:
        try:
            for group, cursor in due:
                with suppress(MiniqueueError):  # who reads it next will say so
                    await self._sweep_one(group, cursor)
        finally:
            self._is_sweeping = False

    async def _sweep_one(self, group: Group, cursor: GroupCursor) -> None:
        mark = _mark(group.topic, cursor)
        over_at_ms = await self._first_over_at_ms(group, cursor)
        self._seen[cursor] = _Seen(mark, over_at_ms)
        if over_at_ms <= self._clock.now_ms():
            await self._give_up(group, cursor)

    async def _give_up(self, group: Group, cursor: GroupCursor) -> None:
        for _ in range(MAX_COMMITS_IN_TICK):
            if cursor not in group.cursors or not self._journal.admission.may_change:
                return
            count = self._expirer.give_up_heads(group, cursor)
            if count:
                await self._journal.committer.flush()
            elif cursor.blocked_on is None or group.is_loading:
                return
            else:
                await self._load(group, cursor, cursor.blocked_on)

    async def _load(self, group: Group, cursor: GroupCursor, place: Range) -> None:
        topic = group.topic
        assert topic.id is not None
        group.is_loading = True
        try:
            await reading.load(self._journal.store, place, cursor, topic.id, self._journal.committer.flush)
        finally:
            if cursor in group.cursors:  # else it was deleted meanwhile
                group.end_loading()
                self._loaded(topic)

    # --- when it is due ---------------------------------------------------------------------------------------

    async def _first_over_at_ms(self, group: Group, cursor: GroupCursor) -> float:
        topic = group.topic
        over_at_ms, unknown = expiry.heads(cursor, topic.ttl_ms, group.name)
        for place in unknown:
            if topic.id is not None and over_at_ms > self._clock.now_ms():
                over_at_ms = min(over_at_ms, await self._stored_over_at_ms(group, topic.id, cursor, place))
        return over_at_ms

    async def _stored_over_at_ms(self, group: Group, topic_id: int, cursor: GroupCursor, place: Range) -> float:
        ttl_ms = group.topic.ttl_ms
        window = cursor.log if place is Range.LOG else cursor.returned[place]
        if (order := window.resume_at) is None:
            return inf  # it has been loaded meanwhile
        if place is Range.LOG:
            start, stop = (
                keys.chunk(topic_id, cursor.partition, order),
                keys.chunk(topic_id, cursor.partition, cursor.tail_seq),
            )
        else:
            start, stop = keys.records(topic_id, cursor.partition, cursor.group, place, order)
        for key, value in await self._journal.store.scan(start, stop, max_items=1, max_bytes=1):
            if place is not Range.LOG:
                return expiry.record_over_at_ms(records.decode_record(value), ttl_ms, group.name)
            chunk = records.decode_chunk(keys.chunk_first_seq(key), value)
            return expiry.chunk_over_at_ms(cursor, chunk, ttl_ms, group.name)
        return inf


def _mark(topic: Topic, cursor: GroupCursor) -> tuple[int, ...]:
    """Return figures that change when another message may be the first of a range, or expire at another time."""
    has_unread = cursor.read_seq < cursor.tail_seq  # what is published into an empty log is the first of it
    return topic.ttl_ms, cursor.read_seq, has_unread, cursor.acked_count, cursor.dropped_count, cursor.state.serial
