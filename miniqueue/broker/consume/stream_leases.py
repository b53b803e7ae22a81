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
#: Maximum number of deadlines of settled messages that are not worth removing: a sweep of so few saves nothing.
_FEW = 16


class TimedHolding(Holding):
    """What one consumer holds, with a deadline for each lease.

    Args:
      clock: measures the leases.
      lease_seconds: the time from a delivery to its deadline.
    """

    __slots__ = ("_clock", "_deadlines", "_ends", "_lease_seconds")

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._deadlines: deque[tuple[float, range]] = deque()  # the receipts of each deadline; some may be settled
        self._ends: dict[int, float] = {}  # the deadlines by first receipt; some may be settled

    def add(self, cursor: GroupCursor, lease: Lease) -> None:
        """Add a lease, which begins now."""
        super().add(cursor, lease)
        deadline = self._ends[lease.receipt] = self._clock.monotonic() + self._lease_seconds
        self._deadlines.append((deadline, range(lease.receipt, lease.receipt + lease.count)))
        if max(len(self._deadlines), len(self._ends)) > 2 * self.count + _FEW:
            self._deadlines = deque(entry for entry in self._deadlines if self.has_any(entry[1]))
            self._ends = {lease.receipt: self._ends[lease.receipt] for _, lease in self.leases()}

    def deadline_of(self, lease: Lease) -> float | None:
        """Return when a lease ends; None if it is not held."""
        return self._ends[lease.receipt] if self.holds(lease) else None

    def add_part(self, cursor: GroupCursor, part: Lease, whole: Lease) -> None:
        """Add a part of a lease, which ends when the whole would have ended."""
        super().add_part(cursor, part, whole)
        self._ends[part.receipt] = self._ends[whole.receipt]

    def has_late(self, now: float) -> bool:
        """Whether a deadline has passed, of messages that may have been settled."""
        return bool(self._deadlines) and self._deadlines[0][0] <= now

    def take_late(self, now: float, max_count: int) -> list[CursorLease]:
        """Remove at most `max_count` messages whose deadlines have passed, in the order of their delivery.

        Returns their leases, the last of which may be cut.
        """
        late: list[CursorLease] = []
        deadlines, room = self._deadlines, max_count
        while deadlines and deadlines[0][0] <= now and room > 0:
            deadline, receipts = deadlines.popleft()
            late += self.take(receipts[:room])
            if len(receipts) > room:
                deadlines.appendleft((deadline, receipts[room:]))
            room -= min(room, len(receipts))
        return late


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
