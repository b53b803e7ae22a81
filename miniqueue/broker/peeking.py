"""Shows the messages of a topic, by state or by id, and changes none of them, nor what is in memory for consumers.

    ready, delayed   pages of the store, read beside everything else (`browsing`)
    leased           the leases, which are in memory
    dead             what came from there and is in another topic (`dead_looking`)

What counts is what is committed, and the leases: before the store is read, what was settled goes into it. No call does
more in one turn of the loop than one page is worth, whatever the topic holds.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import StrEnum
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import NamedTuple

from miniqueue.broker.browsing import START, Browser, Found, Position, of_lease
from miniqueue.broker.dead_looking import dead_letters
from miniqueue.broker.delayed_reading import Shelf, merged, starts_behind
from miniqueue.broker.journal import Journal
from miniqueue.broker.looking import committed_topic, existing_id
from miniqueue.broker.named_groups import group_named, lanes_from
from miniqueue.broker.topic import Topic
from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lease import Lease, Range
from miniqueue.core.look_errors import InvalidOptionError, UnknownMessageError
from miniqueue.core.message_id import format_message_id

#: Messages that one look may ask for, and how many it gets if it does not say.
MAX_COUNT = 1000
DEFAULT_COUNT = 10
#: With so many bytes a look ends, whatever was asked for.
MAX_BYTES = 4 << 20
#: Messages up to which somebody has read a topic, and whose position is remembered.
MAX_POSITIONS = 1024
LEASES_IN_TURN = 2048
#: How often a message is looked for that may be handed out, or come back, during the look.
MAX_LOOKS = 4


class State(StrEnum):
    """Where a message may be."""

    READY = "ready"
    LEASED = "leased"
    DELAYED = "delayed"
    DEAD = "dead"


class Seen(NamedTuple):
    """A message as it is now.

    Attributes:
      partition: the number of its partition.
      state: where it is.
      published_at_ms: since 1970.
      due_at_ms: when it is ready again; None unless it is delayed.
      found: its content, and how often it came back.
    """

    partition: int
    state: State
    due_at_ms: int | None
    found: Found

    @property
    def id(self) -> tuple[int, int] | DelayedId:
        """The parts of its id."""
        return self.found.delayed_id or (self.partition, self.found.seq)

    @property
    def message_id(self) -> bytes:
        """Its id, as clients see it."""
        delayed_id = self.found.delayed_id
        return format_message_id(self.partition, self.found.seq) if delayed_id is None else bytes(delayed_id)


class Peeker:
    """Shows messages.

    Args:
      topics: by name.
      journal: has the store.
      horizon_ms: returns the time up to which delayed messages are ready.
    """

    def __init__(self, topics: Mapping[bytes, Topic], journal: Journal, horizon_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._journal = journal
        self._horizon_ms = horizon_ms
        self._positions: OrderedDict[tuple[int | None, int, int, int], Position] = OrderedDict()

    async def peek(
        self,
        name: bytes,
        state: State = State.READY,
        count: int = DEFAULT_COUNT,
        after: tuple[int, int] | DelayedId | None = None,
        group: bytes | None = None,
    ) -> list[Seen]:
        """Return the next messages that are in a state, in the order in which they will leave it.

        What is ready comes in the order of delivery, what is delayed by due time, what is leased by id: in each lane,
        the highest priority first. There are fewer than `count` at the end, or when they are large.

        Args:
          name: of the topic.
          state: of the messages.
          count: how many, 1 to `MAX_COUNT`.
          after: the parts of the id of the message behind which to begin.
          group: whose messages; None for the default group, or the first where that is not there.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, InvalidOptionError, UnavailableError.
          UnknownMessageError: nobody knows where `after` is, or was.
          StorageError: the messages cannot be read.
        """
        if not 0 < count <= MAX_COUNT:
            raise InvalidOptionError(f"a count is a whole number from 1 to {MAX_COUNT}")
        return await self._journal.epoch.repeat(partial(self._peek, name, state, count, after, group))

    async def _peek(
        self, name: bytes, state: State, count: int, after: tuple[int, int] | DelayedId | None, group: bytes | None
    ) -> list[Seen]:
        while (seen := await self._peek_once(name, state, count, after, group)) is None:
            pass  # a group that was moved meanwhile is another one
        return seen

    async def _peek_once(
        self, name: bytes, state: State, count: int, after: tuple[int, int] | DelayedId | None, group: bytes | None
    ) -> list[Seen] | None:
        """Return None if the group was moved before the end; of a topic that was deleted, what was seen by then."""
        topic = await committed_topic(self._topics, self._journal, name)
        if state in (State.DEAD, State.LEASED):
            if isinstance(after, DelayedId):
                raise UnknownMessageError
            if state is State.DEAD:
                return await self._dead(topic, count, after)
        seen: list[Seen] = []
        topic_id = topic.id
        for cursor in lanes_from(group_named(topic, group).cursors, after):
            lane_after = after if after is not None and after[0] == cursor.partition else None
            seen += await self._peek_lane(topic, cursor, state, count - len(seen), lane_after)
            if cursor not in topic.cursors:
                return seen if seen and topic.id != topic_id else None
            if len(seen) >= count or sum(map(_size_bytes, seen)) >= MAX_BYTES:
                break
        return seen

    async def _peek_lane(
        self, topic: Topic, cursor: GroupCursor, state: State, count: int, after: tuple[int, int] | DelayedId | None
    ) -> list[Seen]:
        number = cursor.partition
        if state is State.LEASED:
            return _within_limit(await _leased(cursor, -1 if after is None else after[1], count))
        source = await self._source(topic, cursor, state, after)
        seen = [Seen(number, state, _due_at_ms(found, state), found) for found in await _first(source, count)]
        if seen and seen[-1].found.delayed_id is None:
            self._remember(topic, cursor, seen[-1].found)
        return seen

    async def find(self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None = None) -> Seen:
        """Return one message, wherever it is in a group; what came back and waits is searched for.

        Raises InvalidTopicError, UnknownTopicError, UnknownMessageError, UnavailableError, or StorageError when it
        cannot be read.
        """
        return await self._journal.epoch.repeat(partial(self._find, name, message_id, group))

    async def _find(self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None) -> Seen:
        for _ in range(MAX_LOOKS):
            seen, was_moved = await self._find_once(name, message_id, group)
            if seen is not None:
                return seen
            if not was_moved:
                break
        raise UnknownMessageError

    async def _find_once(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, group: bytes | None
    ) -> tuple[Seen | None, bool]:
        """Return the message, or None and whether one may have gone meanwhile where this had looked already."""
        topic = await committed_topic(self._topics, self._journal, name)
        if isinstance(message_id, DelayedId):
            return await self._find_delayed(topic, message_id), False
        partition, seq = message_id
        cursor = next((one for one in group_named(topic, group).cursors if one.partition == partition), None)
        if cursor is None:
            raise UnknownMessageError
        next_receipt = cursor.next_receipt
        leased = await _leased(cursor, seq - 1, 1)
        if leased and leased[0].found.seq == seq:
            return leased[0], False
        browser = self._browser(topic, cursor)
        found = await browser.in_log(seq) or await browser.in_returned(seq)
        if found is None:
            return None, cursor.next_receipt != next_receipt or cursor not in topic.cursors
        due_at_ms = _due_at_ms(found, State.DELAYED)
        state = State.DELAYED if due_at_ms is not None and due_at_ms > self._horizon_ms() else State.READY
        return Seen(partition, state, _due_at_ms(found, state), found), False

    async def _find_delayed(self, topic: Topic, message_id: DelayedId) -> Seen:
        partition, *place = message_id
        found = await self._shelf(topic, partition).find(place[0], place[1])
        if found is None:
            raise UnknownMessageError
        return Seen(partition, State.DELAYED, message_id.due_at_ms, found)

    async def _source(
        self, topic: Topic, cursor: GroupCursor, state: State, after: tuple[int, int] | DelayedId | None
    ) -> AsyncGenerator[Found, None]:
        """Return what is ready or delayed in a lane, from behind `after` on."""
        browser, horizon_ms = self._browser(topic, cursor), self._horizon_ms()
        if isinstance(after, DelayedId) and state is State.READY:
            raise UnknownMessageError
        behind = after if isinstance(after, DelayedId) else START
        if after is not None and not isinstance(after, DelayedId):
            behind = await self._position(topic, cursor, after[1], state)
        if state is State.READY and isinstance(behind, Position):
            return browser.ready(behind, horizon_ms)
        position, place = starts_behind(behind)
        place = max(place, topic.partitions[cursor.partition].delays.head)
        return merged(browser.delayed(position, horizon_ms), self._shelf(topic, cursor.partition).waiting(place))

    def _shelf(self, topic: Topic, partition: int) -> Shelf:
        return Shelf(self._journal.store, existing_id(topic), partition)

    async def _dead(self, topic: Topic, count: int, after: tuple[int, int] | None) -> list[Seen]:
        async def page_of(name: bytes, after: tuple[int, int] | None) -> list[Seen]:
            return await self._peek(name, State.READY, MAX_COUNT, after, None)

        letters = await dead_letters(page_of, topic, after, count=count, max_bytes=MAX_BYTES)
        return [letter._replace(state=State.DEAD) for letter in letters]

    def _browser(self, topic: Topic, cursor: GroupCursor) -> Browser:
        return Browser(self._journal.store, existing_id(topic), cursor, topic.group_of(cursor).name)

    async def _position(self, topic: Topic, cursor: GroupCursor, seq: int, state: State) -> Position:
        """Return where to go on behind a message, which may be gone since it was shown."""
        browser, known = self._browser(topic, cursor), self._positions.get(_place(topic, cursor, seq))
        if known is not None:
            return known
        found = await browser.in_log(seq) or await browser.in_returned(seq)
        if found is not None and found.position is not None:
            return found.position
        if state is State.DELAYED:
            raise UnknownMessageError
        return Position(Range.LOG, seq)

    def _remember(self, topic: Topic, cursor: GroupCursor, found: Found) -> None:
        if found.position is not None:
            place = _place(topic, cursor, found.seq)
            self._positions[place] = found.position
            self._positions.move_to_end(place)
            if len(self._positions) > MAX_POSITIONS:
                self._positions.popitem(last=False)


def parse_count(word: bytes) -> int:
    """Return the number of messages that a client asks for; raises InvalidOptionError."""
    if not word.isdigit() or len(word) > 9 or not 0 < int(word) <= MAX_COUNT:
        raise InvalidOptionError(f"a count is a whole number from 1 to {MAX_COUNT}")
    return int(word)


def parse_state(word: bytes) -> State:
    """Return the state that a client names; raises InvalidOptionError."""
    try:
        return State(word.decode("ascii", "replace").lower())
    except ValueError as exc:
        raise InvalidOptionError(f"a state is one of {', '.join(State)}") from exc


def _place(topic: Topic, cursor: GroupCursor, seq: int) -> tuple[int | None, int, int, int]:
    return topic.id, cursor.partition, cursor.group, seq


def _size_bytes(seen: Seen) -> int:
    return len(seen.found.payload) + len(seen.found.attributes)


def _due_at_ms(found: Found, state: State) -> int | None:
    position = found.position
    is_delayed = state is State.DELAYED and position is not None and position.place is Range.DELAYED
    return position.order >> 64 if is_delayed and position is not None else None


async def _first(source: AsyncGenerator[Found, None], count: int) -> list[Found]:
    """Return the first of what comes, at most `count` and about `MAX_BYTES`."""
    first: list[Found] = []
    size_bytes = 0
    async with aclosing(source):
        async for found in source:
            first.append(found)
            size_bytes += len(found.payload) + len(found.attributes)
            if len(first) == count or size_bytes >= MAX_BYTES:
                break
    return first


def _within_limit(seen: list[Seen]) -> list[Seen]:
    size_bytes = 0
    for number, one in enumerate(seen, start=1):
        size_bytes += len(one.found.payload) + len(one.found.attributes)
        if size_bytes >= MAX_BYTES:
            return seen[:number]
    return seen


async def _leased(cursor: GroupCursor, after_seq: int, count: int) -> list[Seen]:
    """Return the leased messages with the lowest numbers above `after_seq`, at most `count`."""
    lowest: list[tuple[int, int, Lease]] = []
    leases = cursor_view.leases(cursor)
    for start in range(0, len(leases), LEASES_IN_TURN):
        part = enumerate(leases[start : start + LEASES_IN_TURN], start)
        numbered = [(lease.first_seq, number, lease) for number, lease in part]
        above = [one for one in numbered if one[0] + one[2].count > after_seq + 1]
        lowest = nsmallest(count, [*lowest, *above])
        await asyncio.sleep(0)
    starts = [max(0, after_seq + 1 - first_seq) for first_seq, _, _ in lowest]
    found = [
        of_lease(lease, index)
        for start, (_, _, lease) in zip(starts, lowest, strict=True)
        for index in range(start, min(lease.count, start + count))
    ]
    return [Seen(cursor.partition, State.LEASED, None, one) for one in sorted(found, key=attrgetter("seq"))[:count]]
