"""Shows the messages of a topic, by state or by id; it changes neither the messages nor what consumers have in memory.

    ready, delayed   pages of the store, read independently of consumers (`stored.browse`)
    leased           the leases, which are in memory
    dead             messages from the topic that are now in its dead-letter topic (`dead_letters`)

The result is what is committed, with the leases: settles are committed before the store is read. However many messages
the topic has, each iteration of the event loop does at most the work of one page.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from heapq import nsmallest
from operator import attrgetter

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.dead_letters import dead_letters
from miniqueue.broker.inspect.peeked import MAX_COUNT, PeekedMessage, State
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.model.views import group_named, lanes_from
from miniqueue.broker.stored.browse import PAGE_ITEMS, START, CursorBrowser, Position, StoredMessage, of_lease
from miniqueue.broker.stored.browse_delayed import DelayedPages, merged, starts_behind
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, Lease, Range
from miniqueue.core.group import view
from miniqueue.core.message.ids import DelayedId
from miniqueue.errors.requests import InvalidOptionError, UnknownMessageError, UnknownTopicError

DEFAULT_COUNT = 10
#: Size of payloads and attributes after which no more messages are returned, whatever the count requested.
MAX_BYTES = 4 << 20
#: Maximum number of remembered positions, of the last messages of pages, from which clients may continue.
MAX_POSITIONS = 1024
#: Number of lanes that are inspected in one iteration of the event loop.
LANES_IN_TURN = 50
#: Number of leases that are inspected in one iteration of the event loop.
LEASES_IN_TURN = 2048
#: Number of messages that are read in one iteration of the event loop.
MESSAGES_IN_TURN = 200
#: Maximum number of searches for a message, which may be delivered or returned during each search.
MAX_LOOKS = 4


class Peek:
    """Shows messages; remembers the positions at which pages ended."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._memory = engine.memory
        self._share = engine.share
        self._horizon = engine.horizon
        self._positions: OrderedDict[tuple[int | None, int, int, int], Position] = OrderedDict()

    async def peek(
        self,
        name: bytes,
        state: State = State.READY,
        count: int = DEFAULT_COUNT,
        after: tuple[int, int] | DelayedId | None = None,
        group: bytes | None = None,
    ) -> list[PeekedMessage]:
        """Return the next messages that are in a state, in the order in which they will leave it.

        The lanes follow each other, the highest priority first. In each lane, ready messages are in the order of
        delivery, delayed messages in the order of due time, leased messages in the order of their ids. Returns fewer
        than `count` messages at the end, or if the messages are large.

        Args:
          name: name of the topic.
          state: state of the messages.
          count: maximum number of messages, 1 to `MAX_COUNT`.
          after: the parts of the id of the message after which to begin.
          group: group that the state refers to; None for the default group, or the first group if there is none.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, InvalidOptionError, UnavailableError.
          UnknownMessageError: the position of `after` is unknown.
          StorageError: the messages cannot be read.
          MemoryLimitError: the client uses all the memory it may.
        """
        if not 0 < count <= MAX_COUNT:
            raise InvalidOptionError(f"a count is a whole number from 1 to {MAX_COUNT}")
        with self._memory.reserve(MAX_BYTES):
            return await self._journal.epoch.repeat(partial(self._peek, name, state, count, after, group))

    async def _peek(
        self, name: bytes, state: State, count: int, after: tuple[int, int] | DelayedId | None, group: bytes | None
    ) -> list[PeekedMessage]:
        while (seen := await self._peek_once(name, state, count, after, group)) is None:
            pass  # the group was moved meanwhile, and has other cursors
        return seen

    async def _peek_once(
        self, name: bytes, state: State, count: int, after: tuple[int, int] | DelayedId | None, group: bytes | None
    ) -> list[PeekedMessage] | None:
        """Return None if the group was moved before the end; if the topic was deleted, what was read before that."""
        topic = await self._journal.committed_topic(name)
        if state in (State.DEAD, State.LEASED):
            if isinstance(after, DelayedId):
                raise UnknownMessageError
            if state is State.DEAD:
                return await self._dead(topic, count, after)
        seen: list[PeekedMessage] = []
        topic_id, read_by = topic.id, group_named(topic, group)
        group_id, size_bytes = read_by.id, 0
        cursors = lanes_from(read_by.cursors, None if after is None else after[0])
        async with aclosing(self._share.in_turns(cursors, LANES_IN_TURN)) as lanes:
            async for cursor in lanes:
                lane_after = after if after is not None and after[0] == cursor.partition else None
                more = await self._peek_lane(topic, cursor, state, count - len(seen), lane_after)
                seen += more
                size_bytes += sum(map(_size_bytes, more))
                if read_by.id != group_id or topic.id != topic_id:
                    return seen if seen and topic.id != topic_id else None
                if len(seen) >= count or size_bytes >= MAX_BYTES:
                    break
        return seen

    async def _peek_lane(
        self, topic: Topic, cursor: GroupCursor, state: State, count: int, after: tuple[int, int] | DelayedId | None
    ) -> list[PeekedMessage]:
        number = cursor.partition
        if state is State.LEASED:
            return _within_limit(await _leased(cursor, -1 if after is None else after[1], count))
        topic_id = topic.id  # the topic may be deleted while this waits
        source = await self._source(topic, cursor, state, after)
        first = await self._first(source, count)
        seen = [PeekedMessage(number, state, _due_at_ms(message, state), message) for message in first]
        if first and first[-1].delayed_id is None:
            self._remember(topic_id, cursor, first[-1])
        return seen

    async def find(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None = None
    ) -> PeekedMessage:
        """Return one message, wherever it is in a group; returned messages require a search.

        Raises InvalidTopicError, UnknownTopicError, UnknownMessageError, UnavailableError, or, if the
        message cannot be read, StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._find, name, message_id, group))

    async def _find(self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None) -> PeekedMessage:
        for _ in range(MAX_LOOKS):
            seen, was_moved = await self.look(name, message_id, group)
            if seen is not None:
                return seen
            if not was_moved:
                break
        raise UnknownMessageError

    async def look(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None
    ) -> tuple[PeekedMessage | None, bool]:
        """Return the message, or None and whether it may have moved meanwhile to a range already searched.

        Only acts that run within an epoch may call this. Raises as `find`.
        """
        topic = await self._journal.committed_topic(name)
        if isinstance(message_id, DelayedId):
            return await self._find_delayed(topic, message_id), False
        partition, seq = message_id
        cursor = next((lane for lane in group_named(topic, group).cursors if lane.partition == partition), None)
        if cursor is None:
            raise UnknownMessageError
        browser, next_receipt = self._browser(topic, cursor), cursor.next_receipt
        leased = await _leased(cursor, seq - 1, 1)
        if leased and leased[0].stored.seq == seq:
            return leased[0], False
        message = await browser.in_log(seq) or await self._in_returned(browser, seq)
        if message is None:
            return None, cursor.next_receipt != next_receipt or cursor not in topic.cursors
        due_at_ms = _due_at_ms(message, State.DELAYED)
        state = State.DELAYED if due_at_ms is not None and due_at_ms > self._horizon.at_ms else State.READY
        return PeekedMessage(partition, state, _due_at_ms(message, state), message), False

    async def _in_returned(self, browser: CursorBrowser, seq: int) -> StoredMessage | None:
        """Return the message with a sequence number if it was returned; reads returned messages until it is found."""
        for range_ in RETURN_RANGES:
            async with (
                aclosing(browser.returned(range_, 0)) as waiting,
                aclosing(self._share.in_turns_as_read(waiting, PAGE_ITEMS)) as messages,
            ):
                async for message in messages:
                    if message.seq == seq:
                        return message
        return None

    async def _find_delayed(self, topic: Topic, message_id: DelayedId) -> PeekedMessage:
        partition, *key = message_id
        message = await self._delayed_pages(topic, partition).find(key[0], key[1])
        if message is None:
            raise UnknownMessageError
        return PeekedMessage(partition, State.DELAYED, message_id.due_at_ms, message)

    async def _source(
        self, topic: Topic, cursor: GroupCursor, state: State, after: tuple[int, int] | DelayedId | None
    ) -> AsyncGenerator[StoredMessage, None]:
        """Return the ready or delayed messages of a lane that come after the message `after`."""
        browser, horizon_ms = self._browser(topic, cursor), self._horizon.at_ms
        partition, delayed = topic.partitions[cursor.partition], self._delayed_pages(topic, cursor.partition)
        if isinstance(after, DelayedId) and state is State.READY:
            raise UnknownMessageError
        start = after if isinstance(after, DelayedId) else START
        if after is not None and not isinstance(after, DelayedId):
            start = await self._position(topic, cursor, after[1], state)
        if state is State.READY and isinstance(start, Position):
            return browser.ready(start, horizon_ms)
        position, key = starts_behind(start)
        key = max(key, partition.delays.head)
        return merged(browser.delayed(position, horizon_ms), delayed.waiting(key))

    def _delayed_pages(self, topic: Topic, partition: int) -> DelayedPages:
        return DelayedPages(self._journal.store, _existing_id(topic), partition)

    async def _dead(self, topic: Topic, count: int, after: tuple[int, int] | None) -> list[PeekedMessage]:
        async def page_of(name: bytes, after: tuple[int, int] | None) -> list[PeekedMessage]:
            return await self._peek(name, State.READY, MAX_COUNT, after, None)

        letters = await dead_letters(page_of, topic, after, count=count, max_bytes=MAX_BYTES)
        return [letter._replace(state=State.DEAD) for letter in letters]

    def _browser(self, topic: Topic, cursor: GroupCursor) -> CursorBrowser:
        return CursorBrowser(self._journal.store, _existing_id(topic), cursor, topic.group_of(cursor).name)

    async def _position(self, topic: Topic, cursor: GroupCursor, seq: int, state: State) -> Position:
        """Return the position of a message, after which to continue; it may have been removed since it was shown."""
        browser, known = self._browser(topic, cursor), self._positions.get(_position_key(topic.id, cursor, seq))
        if known is not None:
            return known
        message = await browser.in_log(seq) or await self._in_returned(browser, seq)
        if message is not None and message.position is not None:
            return message.position
        if state is State.DELAYED:
            raise UnknownMessageError
        return Position(Range.LOG, seq)

    async def _first(self, source: AsyncGenerator[StoredMessage, None], count: int) -> list[StoredMessage]:
        """Return the first messages of a source, at most `count` and about `MAX_BYTES`; many are read in turns."""
        first: list[StoredMessage] = []
        size_bytes = 0
        async with aclosing(source), aclosing(self._share.pauses()) as pauses:
            async for message in source:
                first.append(message)
                size_bytes += len(message.payload) + len(message.shown_attributes)
                if len(first) == count or size_bytes >= MAX_BYTES:
                    break
                if len(first) % MESSAGES_IN_TURN == 0:
                    await anext(pauses)
        return first

    def _remember(self, topic_id: int | None, cursor: GroupCursor, message: StoredMessage) -> None:
        if message.position is not None:
            key = _position_key(topic_id, cursor, message.seq)
            self._positions[key] = message.position
            self._positions.move_to_end(key)
            if len(self._positions) > MAX_POSITIONS:
                self._positions.popitem(last=False)


def _existing_id(topic: Topic) -> int:
    """Return the id of a topic that existed before a wait; raises UnknownTopicError if it was deleted meanwhile."""
    if topic.id is None:
        raise UnknownTopicError
    return topic.id


def _position_key(topic_id: int | None, cursor: GroupCursor, seq: int) -> tuple[int | None, int, int, int]:
    return topic_id, cursor.partition, cursor.group, seq


def _size_bytes(seen: PeekedMessage) -> int:
    return len(seen.stored.payload) + len(seen.stored.shown_attributes)


def _due_at_ms(message: StoredMessage, state: State) -> int | None:
    position = message.position
    is_delayed = state is State.DELAYED and position is not None and position.range_ is Range.DELAYED
    return position.order >> 64 if is_delayed and position is not None else None


def _within_limit(seen: list[PeekedMessage]) -> list[PeekedMessage]:
    size_bytes = 0
    for number, message in enumerate(seen, start=1):
        size_bytes += _size_bytes(message)
        if size_bytes >= MAX_BYTES:
            return seen[:number]
    return seen


async def _leased(cursor: GroupCursor, after_seq: int, count: int) -> list[PeekedMessage]:
    """Return the leased messages with the lowest sequence numbers after `after_seq`, at most `count`."""
    lowest: list[tuple[int, int, Lease]] = []
    leases = view.leases(cursor)
    for start in range(0, len(leases), LEASES_IN_TURN):
        part = enumerate(leases[start : start + LEASES_IN_TURN], start)
        numbered = [(lease.first_seq, number, lease) for number, lease in part]
        above = [entry for entry in numbered if entry[0] + entry[2].count > after_seq + 1]
        lowest = nsmallest(count, [*lowest, *above])
        await asyncio.sleep(0)
    starts = [max(0, after_seq + 1 - first_seq) for first_seq, _, _ in lowest]
    messages = [
        of_lease(lease, index)
        for start, (_, _, lease) in zip(starts, lowest, strict=True)
        for index in range(start, min(lease.count, start + count))
    ]
    messages.sort(key=attrgetter("seq"))
    return [PeekedMessage(cursor.partition, State.LEASED, None, message) for message in messages[:count]]
