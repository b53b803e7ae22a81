"""Removes expired messages that no consumer reads, so that they do not stay forever.

    tick ─▶ the next topics ─▶ cursors from which nothing was taken since the last check:
                                │ when does the head of each range expire? (in memory, or one value from the store)
                                └ now ─▶ removed, in separate commits ─▶ the next heads, …

A head that has not expired is not checked again before its expiry time, unless a message is taken: then the range has
another head. Expired messages after an unexpired one remain until that one is removed; they are never delivered.
"""

from collections.abc import Iterator
from contextlib import aclosing, suppress
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

from miniqueue.broker.cleanup.expiry import give_up_heads
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.load import load
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.group import expired
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import keys, values

#: Maximum number of topics that a tick checks; it stops earlier if they have that many partitions together.
MAX_TOPICS_IN_TICK = 1000
#: How many cursors are checked in a turn. The first check of one takes up to 15 us, later ones take 1 us.
CURSORS_IN_TURN = 64
#: Maximum number of cursors that a tick examines further: those with expired messages, or whose heads must be read from
#: the store to know. The tick finishes the topic in which it reaches this number.
MAX_LOOKS_IN_TICK = 128
#: Maximum number of commits that remove messages of one cursor after a tick, so that every cursor has its turn.
MAX_COMMITS_IN_TICK = 256


class _Seen(NamedTuple):
    """The result of a check: no head expires before `expires_at_ms`, while the cursor's mark equals `mark`."""

    mark: tuple[int, ...]
    expires_at_ms: float


class ExpirySweep:
    """Removes expired messages at the heads of ranges, a few topics at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._topics = engine.topics.by_name
        self._journal = engine.journal
        self._clock = engine.clock
        self._queue: list[Topic] = []
        self._seen: WeakKeyDictionary[GroupCursor, _Seen] = WeakKeyDictionary()
        self._sweeping = SingleTask(engine.spawn)

    def tick(self) -> None:
        """Check the next topics in the background; remove expired messages of those that have some."""
        if self._sweeping.is_running or not self._journal.admission.may_change:
            return
        if not self._queue:
            self._queue = [topic for topic in self._topics.values() if topic.id is not None and topic.at_rest is None]
        if self._queue:
            self._sweeping.start(self._sweep())

    async def _sweep(self) -> None:
        due: list[tuple[Group, GroupCursor]] = []
        async with aclosing(self._engine.share.in_turns(self._next_cursors(due), CURSORS_IN_TURN)) as cursors:
            async for group, cursor in cursors:
                if self._is_due(group, cursor):
                    due.append((group, cursor))
        for group, cursor in due:
            with suppress(MiniqueueError):  # the next act that reads the topic reports the error
                await self._sweep_one(group, cursor)

    def _next_cursors(self, due: list[tuple[Group, GroupCursor]]) -> Iterator[tuple[Group, GroupCursor]]:
        """Yield the cursors of the next topics, until enough of them are in `due`."""
        checked_count = 0
        while self._queue and checked_count < MAX_TOPICS_IN_TICK and len(due) < MAX_LOOKS_IN_TICK:
            topic = self._queue.pop()
            if topic.at_rest is not None:  # nothing of it can expire
                continue
            yield from [(group, cursor) for group in topic.groups.values() for cursor in group.cursors]
            checked_count += max(1, topic.lane_count)  # the topic may be at rest by now

    def _is_due(self, group: Group, cursor: GroupCursor) -> bool:
        topic = group.topic
        if cursor.depth == cursor.leased_count:
            return False
        seen, mark = self._seen.get(cursor), _mark(topic, cursor)
        if seen is None or seen.mark != mark:  # consumers take messages, which removes the expired ones
            is_plain = cursor.keyed is None  # a check of a keyed cursor can take long, so the background makes it
            expires_at_ms, unknown = (
                expired.next_expiry(cursor, topic.ttl_ms, group.name) if is_plain else (0, [Range.LOG])
            )
            self._seen[cursor] = _Seen(mark, 0 if unknown else expires_at_ms)
            return False
        return seen.expires_at_ms <= self._clock.now_ms()

    async def _sweep_one(self, group: Group, cursor: GroupCursor) -> None:
        mark = _mark(group.topic, cursor)
        expires_at_ms = await self._first_expiry_ms(group, cursor)
        self._seen[cursor] = _Seen(mark, expires_at_ms)
        if expires_at_ms <= self._clock.now_ms():
            await self._remove_expired(group, cursor)

    async def _remove_expired(self, group: Group, cursor: GroupCursor) -> None:
        for _ in range(MAX_COMMITS_IN_TICK):
            if cursor not in group.cursors or not self._journal.admission.may_change:
                return
            count = give_up_heads(self._engine, group, cursor)
            if count:
                await self._journal.committer.flush()
            elif cursor.blocked_on is None or group.is_loading:
                return
            else:
                await load(self._engine, group, cursor, cursor.blocked_on)

    # --- expiry times -----------------------------------------------------------------------------------------

    async def _first_expiry_ms(self, group: Group, cursor: GroupCursor) -> float:
        topic = group.topic
        expires_at_ms, unknown = expired.next_expiry(cursor, topic.ttl_ms, group.name)
        for range_ in unknown:
            if topic.id is not None and expires_at_ms > self._clock.now_ms():
                expires_at_ms = min(expires_at_ms, await self._stored_expiry_ms(group, topic.id, cursor, range_))
        return expires_at_ms

    async def _stored_expiry_ms(self, group: Group, topic_id: int, cursor: GroupCursor, range_: Range) -> float:
        ttl_ms = group.topic.ttl_ms
        window = cursor.log if range_ is Range.LOG else cursor.returned[range_]
        if (order := window.resume_at) is None:
            return inf  # the range has been loaded meanwhile
        if range_ is Range.LOG:
            start, stop = (
                keys.chunk(topic_id, cursor.partition, order),
                keys.chunk(topic_id, cursor.partition, cursor.tail_seq),
            )
        else:
            start, stop = keys.records(topic_id, cursor.partition, cursor.group, range_, order)
        for key, value in await self._journal.store.scan(start, stop, max_items=1, max_bytes=1):
            if range_ is not Range.LOG:
                return expired.record_expiry_ms(values.decode_record(value), ttl_ms, group.name)
            chunk = values.decode_chunk(keys.chunk_first_seq(key), value)
            return expired.chunk_expiry_ms(cursor, chunk, ttl_ms, group.name)
        return inf


def _mark(topic: Topic, cursor: GroupCursor) -> tuple[int, ...]:
    """Return numbers that change when another message may be the head of a range, or its expiry time may change."""
    has_unread = cursor.read_seq < cursor.tail_seq  # a message published into an empty log is its head
    return topic.ttl_ms, cursor.read_seq, has_unread, cursor.acked_count, cursor.dropped_count, cursor.state.serial
