"""Reads the waiting messages of a group, and selects some of them: the reader of searches and of acts on many messages.

    lane ─▶ FRONT ─▶ DELAYED, with the messages that were published with a delay ─▶ BACK and LOG, merged ─▶ next lane

A page ends after a number of messages that were selected, or read, whichever comes first, with the position after which
to continue. The order does not depend on the time. So a message is read once, unless it is moved meanwhile to a
position after the one where it was read.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from math import inf
from typing import NamedTuple

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peeked import MAX_COUNT, PeekedMessage, State
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, MAX_SCAN, NOT_DUE, ScanPosition, is_before_log
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import group_named, lanes_from
from miniqueue.broker.stored.browse import START, CursorBrowser, Position, StoredMessage
from miniqueue.broker.stored.browse_delayed import DelayedPages, merged, starts_behind
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.delayed import Place
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.filter import Filter
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError, UnknownTopicError

#: Number of messages that are read and compared in one iteration of the event loop.
MESSAGES_IN_TURN = 128
#: Size of payloads and attributes after which a page ends: of those selected, and of all that were read.
MAX_BYTES = 4 << 20
MAX_READ_BYTES = 64 << 20


class Selection(NamedTuple):
    """The messages to select.

    Attributes:
      state: READY or DELAYED; None selects both; DEAD selects dead letters, which are in another topic (`located`).
      filter: the conditions that they meet.
      now_ms: the time to which their age refers.
      until_ms: the latest time of their publish.
    """

    state: State | None
    filter: Filter
    now_ms: int
    until_ms: float = inf

    def selects(self, message: StoredMessage) -> bool:
        """Return whether the filter selects a message."""
        at_ms = message.published_at_ms
        return at_ms <= self.until_ms and self.filter.selects(message.payload, message.attributes, at_ms, self.now_ms)


class Page(NamedTuple):
    """Selected messages, in the order of the scan.

    Attributes:
      messages: the messages.
      next: the position after which to continue; None if there are no more messages.
      scanned_count: number of messages that were read.
    """

    messages: list[PeekedMessage]
    next: ScanPosition | None
    scanned_count: int


class Scan:
    """Reads pages."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._clock = engine.clock
        self._memory = engine.memory
        self._share = engine.share
        self._horizon = engine.horizon

    async def search(
        self,
        name: bytes,
        filter_: Filter,
        *,
        state: State | None = None,
        count: int,
        max_scanned: int = DEFAULT_SCAN,
        after: ScanPosition | None = None,
        group: bytes | None = None,
    ) -> Page:
        """Return the next messages of a topic that a filter selects; they may be none, even before the end.

        Args:
          name: the name of the topic.
          filter_: the conditions that the messages meet.
          state: READY or DELAYED; None: both; DEAD: the ready dead letters of the topic, in their own topic.
          count: maximum number of messages, 1 to `MAX_COUNT`.
          max_scanned: maximum number of messages to read, 1 to `MAX_SCAN`.
          after: the position after which to begin; None: at the beginning.
          group: the group that the states refer to, of DEAD a group of the dead-letter topic; None: the default group,
            or the first if there is none.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, InvalidOptionError, UnavailableError.
          UnknownMessageError: the topic has no partition of the position `after`.
          StorageError: the messages cannot be read.
          MemoryLimitError: the client uses all the memory it may.
        """
        if not 0 < count <= MAX_COUNT or not 0 < max_scanned <= MAX_SCAN:
            raise InvalidOptionError(f"a search finds at most {MAX_COUNT} messages, and reads at most {MAX_SCAN}")
        selection = Selection(check_state(state), filter_, self._clock.now_ms())
        search = partial(self._search, name, group, selection, after, max_count=count, max_scanned=max_scanned)
        with self._memory.reserve(2 * MAX_BYTES):
            return await self._journal.epoch.repeat(search)

    async def _search(
        self,
        name: bytes,
        group: bytes | None,
        selection: Selection,
        after: ScanPosition | None,
        *,
        max_count: int,
        max_scanned: int,
    ) -> Page:
        while (located := await self.located(name, selection)) is not None:
            topic, there = located
            read_by = group_named(topic, group)
            page = await self.page(read_by, there, after, max_count=max_count, max_scanned=max_scanned)
            if page is not None and selection.state is State.DEAD:
                return page._replace(messages=[message._replace(state=State.DEAD) for message in page.messages])
            if page is not None:
                return page
        return Page([], None, 0)

    async def located(self, name: bytes, selection: Selection) -> tuple[Topic, Selection] | None:
        """Return the topic in which selected messages of a topic are, and the selection there, when it is committed.

        Dead letters are the ready messages of the dead-letter topic that came from the topic. Returns None if there is
        no such topic. Raises InvalidTopicError, UnknownTopicError, or UnavailableError.
        """
        topic = await self._journal.committed_topic(name)
        if selection.state is not State.DEAD:
            return topic, selection
        try:
            letters = await self._journal.committed_topic(topic.settings.dead_letters_of(name))
        except (UnknownTopicError, InvalidTopicError):  # the name may be too long
            return None
        return letters, selection._replace(state=State.READY, filter=selection.filter._replace(origin=whole_of(name)))

    async def page(
        self, group: Group, selection: Selection, after: ScanPosition | None, *, max_count: int, max_scanned: int
    ) -> Page | None:
        """Return the next page of a group; None if the group was moved, or the topic deleted, meanwhile.

        Everything done before must be committed. Raises UnknownMessageError or StorageError.
        """
        topic, ids = group.topic, (group.topic.id, group.id)
        due_limit = (self._horizon.at_ms + 1) << 64  # the first order of DELAYED that is not due, for the whole page
        collected = _Collected(selection, due_limit, max_count, max_scanned)
        for cursor in lanes_from(group.cursors, None if after is None else after.partition):
            start = after if after is not None and after.partition == cursor.partition else None
            source = self._source(topic, cursor, selection.state, start, due_limit)
            turns = self._share.in_turns_as_read(source, MESSAGES_IN_TURN)
            async with aclosing(source), aclosing(turns) as messages:
                async for message in messages:
                    if (topic.id, group.id) != ids:
                        return None
                    collected.read(cursor.partition, message)
                    if collected.is_full:
                        return collected.page()
            if (topic.id, group.id) != ids:
                return None
        return collected.page()._replace(next=None)

    def _source(
        self, topic: Topic, cursor: GroupCursor, state: State | None, after: ScanPosition | None, due_limit: int
    ) -> AsyncGenerator[StoredMessage, None]:
        """Return the messages of a lane in the order of the scan, those of other states left out where that is easy.

        The topic exists now; it may be deleted before the first message is read.
        """
        assert topic.id is not None  # The caller has checked it since the last wait.
        browser = CursorBrowser(self._journal.store, topic.id, cursor, topic.group_of(cursor).name)
        later = DelayedPages(self._journal.store, topic.id, cursor.partition)
        head = topic.partitions[cursor.partition].delays.head
        return _in_order(_Lane(browser, later, head), state, after, due_limit)


class _Lane(NamedTuple):
    """A lane to read: the messages of the group there, those published with a delay, and where the latter begin."""

    browser: CursorBrowser
    later: DelayedPages
    head: Place


async def _in_order(
    lane: _Lane, state: State | None, after: ScanPosition | None, due_limit: int
) -> AsyncGenerator[StoredMessage, None]:
    """Yield the messages of a lane in the order of the scan."""
    browser = lane.browser
    position = START if after is None or after.range_ == NOT_DUE else Position(Range(after.range_), after.order)
    if state is not State.DELAYED and (after is None or after.range_ == Range.FRONT):
        async with aclosing(browser.returned(Range.FRONT, position.order + 1)) as front:
            async for message in front:
                yield message
    if after is None or is_before_log(after.range_):
        async with aclosing(_delayed(lane, state, after, due_limit)) as delayed:
            async for message in delayed:
                yield message
    if state is not State.DELAYED:
        async with aclosing(browser.back_and_log(position)) as ready:
            async for message in ready:
                yield message


def _delayed(
    lane: _Lane, state: State | None, after: ScanPosition | None, due_limit: int
) -> AsyncGenerator[StoredMessage, None]:
    """Return the messages of DELAYED, and those that were published with a delay, by due time."""
    behind: Position | DelayedId = START
    if after is not None and after.range_ == Range.DELAYED:
        behind = Position(Range.DELAYED, after.order)
    elif after is not None and after.range_ == NOT_DUE:
        behind = DelayedId(after.partition, *divmod(after.order, 1 << 64))
    position, key = starts_behind(behind)
    start = position.order + 1 if position.range_ is Range.DELAYED else 0
    if state is State.READY:
        return lane.browser.returned(Range.DELAYED, start, due_limit)
    if state is State.DELAYED:
        start = max(start, due_limit)
    return merged(lane.browser.returned(Range.DELAYED, start), lane.later.waiting(max(key, lane.head)))


class _Collected:
    """Collects a page."""

    def __init__(self, selection: Selection, due_limit: int, max_count: int, max_scanned: int) -> None:
        self._selection = selection
        self._due_limit = due_limit
        self._max_count = max_count
        self._max_scanned = max_scanned
        self._messages: list[PeekedMessage] = []
        self._next: ScanPosition | None = None
        self._scanned_count = self._size_bytes = self._read_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the page ends here."""
        is_long = len(self._messages) >= self._max_count or self._scanned_count >= self._max_scanned
        return is_long or self._size_bytes >= MAX_BYTES or self._read_bytes >= MAX_READ_BYTES

    def read(self, partition: int, message: StoredMessage) -> None:
        """Count a message, and add it to the page if it is selected."""
        assert message.position is not None  # Only leased messages have none.
        range_, order = message.position
        self._next = position_of(partition, message)
        self._scanned_count += 1
        size_bytes = len(message.payload) + len(message.attributes)
        self._read_bytes += size_bytes
        if self._selection.selects(message):
            is_delayed = message.delayed_id is not None or (range_ is Range.DELAYED and order >= self._due_limit)
            state, due_at_ms = (State.DELAYED, order >> 64) if is_delayed else (State.READY, None)
            self._messages.append(PeekedMessage(partition, state, due_at_ms, message))
            self._size_bytes += size_bytes

    def page(self) -> Page:
        """Return what was collected."""
        return Page(self._messages, self._next, self._scanned_count)


def position_of(partition: int, message: StoredMessage) -> ScanPosition:
    """Return the position of a message that waits."""
    assert message.position is not None  # Only leased messages have none.
    range_, order = message.position
    return ScanPosition(partition, NOT_DUE if message.delayed_id is not None else range_, order)


def check_state(state: State | None) -> State | None:
    """Return a state that a scan can select; raises InvalidOptionError for LEASED."""
    if state is State.LEASED:
        raise InvalidOptionError(
            "leased messages belong to their consumers, so they are not selected; settle them by the receipts that "
            "LEASES lists, or wait until their leases end"
        )
    return state
