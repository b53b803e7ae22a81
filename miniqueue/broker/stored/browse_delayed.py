"""Reads delayed messages from the store, in the order in which they are due."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from miniqueue.broker.stored.browse import Position, StoredMessage
from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.delayed import MAX_DUE_AT_MS, Delayed, Place
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.message import NEVER_RETURNED
from miniqueue.storage.format import delays
from miniqueue.storage.port import Store

#: Maximum number and size of the messages of one read for a client that inspects the topic.
PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10


class DelayedPage(NamedTuple):
    """Delayed messages with their positions, in order; if the page `is_cut`, more messages may follow."""

    messages: list[tuple[Place, Delayed]]
    is_cut: bool

    @property
    def next(self) -> Place:
        """The position of the next page."""
        return behind(self.messages[-1][0])


class DelayedPages(NamedTuple):
    """Reads the delayed messages of one partition."""

    store: Store
    topic_id: int
    partition: int

    async def page(self, start: Place, *, max_items: int, max_bytes: int) -> DelayedPage:
        """Return the next messages from `start` on; raises StorageError."""
        first, stop = delays.due_from(self.topic_id, self.partition, start)
        pairs = await self.store.scan(first, stop, max_items=max_items, max_bytes=max_bytes)
        messages = [(delays.due_at_ms_and_serial(key), delays.decode_delayed(value)) for key, value in pairs]
        return DelayedPage(messages, len(pairs) >= max_items or sum(len(value) for _, value in pairs) >= max_bytes)

    async def find(self, due_at_ms: int, serial: int) -> StoredMessage | None:
        """Return the message with a due time and serial number for inspection, if it exists; raises StorageError."""
        position = due_at_ms, serial
        message = await self.get(position)
        return None if message is None else _stored_message(self.partition, position, message)

    async def get(self, position: Place) -> Delayed | None:
        """Return the message at a position, if it exists; raises StorageError."""
        if max(position) > MAX_DUE_AT_MS:
            return None
        value = await self.store.get(delays.delayed(self.topic_id, self.partition, *position))
        return None if value is None else delays.decode_delayed(value)

    async def waiting(self, start: Place) -> AsyncGenerator[StoredMessage, None]:
        """Yield the delayed messages from `start` on."""
        page = await self.page(start, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)
        while page.messages:
            for position, message in page.messages:
                yield _stored_message(self.partition, position, message)
            if not page.is_cut:
                break
            page = await self.page(page.next, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)


def _stored_message(partition: int, position: Place, message: Delayed) -> StoredMessage:
    due_at_ms, serial = position
    in_range = Position(Range.DELAYED, due_at_ms << 64 | serial)
    times, attributes = message.published_at_ms, message.attributes
    delayed_id = DelayedId(partition, due_at_ms, serial)
    return StoredMessage(serial, times, message.payload, NEVER_RETURNED, attributes, in_range, delayed_id)


def behind(position: Place) -> Place:
    """Return the first position after a position."""
    return position[0], position[1] + 1


async def merged(
    returned: AsyncGenerator[StoredMessage, None], waiting: AsyncGenerator[StoredMessage, None]
) -> AsyncGenerator[StoredMessage, None]:
    """Yield delayed returns and delayed publishes by due time; of two at the same time, the return comes first."""
    async with aclosing(returned), aclosing(waiting):
        back, new = await anext(returned, None), await anext(waiting, None)
        while back is not None or new is not None:
            if back is not None and (new is None or _due_at_ms(back) <= _due_at_ms(new)):
                yield back
                back = await anext(returned, None)
            elif new is not None:
                yield new
                new = await anext(waiting, None)


def starts_behind(after: DelayedId | Position) -> tuple[Position, Place]:
    """Return the position after which to continue among the returns, and where to continue among the publishes."""
    if isinstance(after, DelayedId):
        return Position(Range.DELAYED, ((after.due_at_ms + 1) << 64) - 1), behind((after.due_at_ms, after.serial))
    return after, (after.order >> 64 if after.range_ is Range.DELAYED else 0, 0)


def _due_at_ms(message: StoredMessage) -> int:
    assert message.position is not None  # Waiting messages have a position; only leased ones have none.
    return message.position.order >> 64
