"""Reads messages that wait for their time from the store, in the order in which they will be due."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from miniqueue.broker.browsing import Found, Position
from miniqueue.core.delayed import MAX_DUE_AT_MS, Delayed, Place
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lease import Range
from miniqueue.core.message import NEVER_RETURNED
from miniqueue.storage import delay_keys, delay_records
from miniqueue.storage.port import Store

#: Of one read by those who only look.
PAGE_ITEMS = 256
PAGE_BYTES = 128 << 10


class Page(NamedTuple):
    """Messages with their places, in order; there may be more where it `is_cut`."""

    found: list[tuple[Place, Delayed]]
    is_cut: bool

    @property
    def next(self) -> Place:
        """Where to go on."""
        return behind(self.found[-1][0])


class Shelf(NamedTuple):
    """Where the delayed messages of one partition are."""

    store: Store
    topic_id: int
    partition: int

    async def page(self, start: Place, stop_ms: int | None, *, max_items: int, max_bytes: int) -> Page:
        """Return the next messages from `start` on that are due before `stop_ms`, None for all.

        Raises StorageError.
        """
        first, stop = delay_keys.due_between(self.topic_id, self.partition, start, stop_ms)
        pairs = await self.store.scan(first, stop, max_items=max_items, max_bytes=max_bytes)
        found = [(delay_keys.due_at_ms_and_serial(key), delay_records.decode_delayed(value)) for key, value in pairs]
        return Page(found, len(pairs) >= max_items or sum(len(value) for _, value in pairs) >= max_bytes)

    async def find(self, due_at_ms: int, serial: int) -> Found | None:
        """Return the message at a place as those see it who look, if there is one; raises StorageError."""
        place = due_at_ms, serial
        message = await self.get(place)
        return None if message is None else _found(self.partition, place, message)

    async def get(self, place: Place) -> Delayed | None:
        """Return the message at a place, if there is one; raises StorageError."""
        if max(place) > MAX_DUE_AT_MS:
            return None
        value = await self.store.get(delay_keys.delayed(self.topic_id, self.partition, *place))
        return None if value is None else delay_records.decode_delayed(value)

    async def waiting(self, start: Place) -> AsyncGenerator[Found, None]:
        """Yield what waits from `start` on."""
        page = await self.page(start, None, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)
        while page.found:
            for place, message in page.found:
                yield _found(self.partition, place, message)
            if not page.is_cut:
                break
            page = await self.page(page.next, None, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)


def _found(partition: int, place: Place, message: Delayed) -> Found:
    due_at_ms, serial = place
    position = Position(Range.DELAYED, due_at_ms << 64 | serial)
    times, attributes = message.published_at_ms, message.attributes
    delayed_id = DelayedId(partition, due_at_ms, serial)
    return Found(serial, times, message.payload, NEVER_RETURNED, attributes, position, delayed_id)


def behind(place: Place) -> Place:
    """Return the first place behind one."""
    return place[0], place[1] + 1


async def merged(
    returned: AsyncGenerator[Found, None], waiting: AsyncGenerator[Found, None]
) -> AsyncGenerator[Found, None]:
    """Yield by due time what came back with a delay and what was published with one, the first before the other."""
    async with aclosing(returned), aclosing(waiting):
        one, other = await anext(returned, None), await anext(waiting, None)
        while one is not None or other is not None:
            if one is not None and (other is None or _due_at_ms(one) <= _due_at_ms(other)):
                yield one
                one = await anext(returned, None)
            elif other is not None:
                yield other
                other = await anext(waiting, None)


def starts_behind(after: DelayedId | Position) -> tuple[Position, Place]:
    """Return behind what to go on among those that came back, and where among those published with a delay."""
    if isinstance(after, DelayedId):
        return Position(Range.DELAYED, ((after.due_at_ms + 1) << 64) - 1), behind((after.due_at_ms, after.serial))
    return after, (after.order >> 64 if after.place is Range.DELAYED else 0, 0)


def _due_at_ms(found: Found) -> int:
    assert found.position is not None  # all who come here have one
    return found.position.order >> 64
