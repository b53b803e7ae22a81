"""Leases of streams that have a time limit: a message that is not settled in time returns to the front.

    hold ─▶ deadlines, earliest first ─▶ tick: passed, and still held ─▶ front of the topic, counted as a timeout
                                                                          └ the stream continues

A stream without a lease time holds its messages until it settles them, or ends. With receipts, a stream continues at
once with the next messages; a receipt that is settled too late is unknown. Without receipts, it continues after its
next command, which is refused, because no message is held: it would otherwise settle the wrong message.
"""

import asyncio
from collections import deque

from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.runtime.clock import Clock
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, Holding
from miniqueue.core.cursor.lease import Lease
from miniqueue.errors import MiniqueueError

#: Maximum number of messages that one event-loop iteration returns; the next ones return the rest.
MAX_EXPIRED_IN_TURN = 1_000
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

    def take_late(self, now: float, max_count: int) -> list[CursorLease]:
        """Remove leases whose deadlines have passed, in the order of their delivery, and return them.

        Stops after the delivery with which they have `max_count` messages or more.
        """
        late: list[CursorLease] = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now and max_count > 0:
            held = list(self.take(deadlines.popleft()[1]))
            late += held
            max_count -= sum(lease.count for _, lease in held)
        return late


class StreamLeases:
    """The streams whose leases have a time limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: dict[Consumer, tuple[TimedHolding, bool]] = {}

    def limit(self, consumer: Consumer, lease_seconds: float, *, has_receipts: bool) -> None:
        """Limit the leases of a consumer that has not requested messages; `has_receipts`: its client names them."""
        holding = TimedHolding(self._clock, lease_seconds)
        consumer.hold_in(holding)
        self._streams[consumer] = holding, has_receipts

    def tick(self) -> None:
        """Return the messages whose leases have expired by now."""
        self._expire(self._clock.monotonic())

    def _expire(self, now: float) -> None:
        room = MAX_EXPIRED_IN_TURN
        for consumer, (holding, has_receipts) in list(self._streams.items()):
            if consumer.is_closed:
                del self._streams[consumer]
            elif late := holding.take_late(now, room):
                room -= sum(lease.count for _, lease in late)
                _time_out(consumer, late, has_receipts)
            if room <= 0:
                asyncio.get_running_loop().call_soon(self._expire, now)
                return


def _time_out(consumer: Consumer, late: list[CursorLease], has_receipts: bool) -> None:
    consumer.group.topic.lease_timeout_count += consumer.time_out(late)
    try:
        if has_receipts:
            consumer.refill()
    except MiniqueueError as error:
        consumer.fail(error)
