"""Leases of streams that have a time limit: a message that is not settled in time returns to the front.

    hold ─▶ deadlines, earliest first ─▶ tick: passed, and still held ─▶ front of the topic, counted as a timeout
                                                                          └ the stream continues

A stream without a lease time holds its messages until it settles them, or ends. With receipts, a stream continues at
once with the next messages; a receipt that is settled too late is unknown. Without receipts, it continues after its
next command, which is refused, because no message is held: it would otherwise settle the wrong message.
"""

import asyncio
from collections import deque
from typing import Final

from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.consume.dispatcher import MAX_RETURNED, RETURN_COST, Dispatcher
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.parts import Parts
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, Holding
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.returning import FrontPlaces
from miniqueue.errors import MiniqueueError

#: What it costs to look whether a stream has messages to return, as in `broker.runtime.parts`.
LOOK_COST: Final = 1
#: Maximum number of deadlines of settled messages that are not worth removing.
_FEW = 16
#: How many deadlines are looked at for each new one: more than one, so that those that are forgotten catch up.
_LOOKS = 4


class TimedHolding(Holding):
    """What one consumer holds, with a deadline for each lease.

    Args:
      clock: measures the leases.
      lease_seconds: the time from a delivery to its deadline.
    """

    __slots__ = ("_clock", "_deadlines", "_end_of_removed", "_ends", "_lease_seconds", "_looked_at")

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._lease_seconds = lease_seconds
        # The receipts of each deadline, earliest first, some of which may be settled: `_looked_at` comes first.
        self._looked_at: deque[tuple[float, range]] = deque()
        self._deadlines: deque[tuple[float, range]] = deque()
        self._ends: dict[int, float] = {}  # the deadlines of what is held, by first receipt
        self._end_of_removed = 0.0

    def add(self, cursor: GroupCursor, lease: Lease) -> None:
        """Add a lease, which begins now."""
        super().add(cursor, lease)
        deadline = self._ends[lease.receipt] = self._clock.monotonic() + self._lease_seconds
        self._deadlines.append((deadline, range(lease.receipt, lease.receipt + lease.count)))
        if len(self._looked_at) + len(self._deadlines) > 2 * self.count + _FEW:
            self._forget_settled()

    def deadline_of(self, lease: Lease) -> float | None:
        """Return when a lease ends; None if it is not held."""
        return self._ends[lease.receipt] if self.holds(lease) else None

    def add_part(self, cursor: GroupCursor, part: Lease, whole: Lease) -> None:
        """Add a part of a lease that has just been removed: it ends when the whole would have ended."""
        super().add_part(cursor, part, whole)
        self._ends[part.receipt] = self._end_of_removed

    def take_only(self) -> CursorLease:
        """Remove the first lease, and return it; raises NothingOutstandingError if there is none."""
        held = super().take_only()
        self._ends.pop(held[1].receipt, None)
        return held

    def has_late(self, now: float) -> bool:
        """Whether a deadline has passed, of messages that may have been settled."""
        deadlines = self._looked_at or self._deadlines
        return bool(deadlines) and deadlines[0][0] <= now

    def take_late(self, now: float, max_count: int) -> list[CursorLease]:
        """Remove at most `max_count` messages whose deadlines have passed, in the order of their delivery.

        Returns their leases, the last of which may be cut.
        """
        late: list[CursorLease] = []
        room = max_count
        while self.has_late(now) and room > 0:
            deadlines = self._looked_at or self._deadlines
            deadline, receipts = deadlines.popleft()
            late += self.take(receipts[:room])
            if len(receipts) > room:
                deadlines.appendleft((deadline, receipts[room:]))
            room -= min(room, len(receipts))
        return late

    def _remove(self, index: int) -> CursorLease:
        held = super()._remove(index)
        self._end_of_removed = self._ends.pop(held[1].receipt)
        return held

    def _forget_settled(self) -> None:
        """Forget some deadlines of which all messages are settled: a few at a time, as there may be thousands."""
        for _ in range(min(_LOOKS, len(self._deadlines))):
            entry = self._deadlines.popleft()
            if self.has_any(entry[1]):
                self._looked_at.append(entry)
        if not self._deadlines:
            self._deadlines, self._looked_at = self._looked_at, self._deadlines


class StreamLeases:
    """The streams whose leases have a time limit."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._clock = dispatcher.clock
        self._streams: dict[Consumer, tuple[TimedHolding, bool]] = {}
        self._returning: asyncio.Task[None] | None = None

    def limit(self, consumer: Consumer, lease_seconds: float, *, has_receipts: bool) -> None:
        """Limit the leases of a consumer that has not requested messages; `has_receipts`: its client names them."""
        holding = TimedHolding(self._clock, lease_seconds)
        consumer.hold_in(holding)
        self._streams[consumer] = holding, has_receipts

    def tick(self) -> None:
        """Return the messages whose leases have expired by now; many in turns."""
        if self._returning is None or self._returning.done():
            self._returning = self._dispatcher.in_parts(self._expire(self._clock.monotonic()))

    def _expire(self, now: float) -> Parts:
        for consumer, (holding, has_receipts) in list(self._streams.items()):
            if consumer.is_closed:
                del self._streams[consumer]
            elif late := holding.take_late(now, MAX_RETURNED):
                places = FrontPlaces(holding.count + MAX_RETURNED) if holding.has_late(now) else None
                while late:
                    count = consumer.time_out(late, places)
                    consumer.group.topic.lease_timeout_count += count
                    yield RETURN_COST * count
                    late = holding.take_late(now, MAX_RETURNED)
                _refill(consumer, has_receipts)
            yield LOOK_COST


def _refill(consumer: Consumer, has_receipts: bool) -> None:
    try:
        if has_receipts:
            consumer.refill()
    except MiniqueueError as error:
        consumer.fail(error)
