"""A group: who reads a topic, independently of all others who do; with the consumers that wait in its line.

    topic ── partitions: the messages
      └───── groups, by name ── cursors: one for each partition, what the group was handed and what came back
                             └─ waiters: in line, first come, first served
                             └─ book: leases that belong to no connection

Consumers may wait in a group of a topic that does not exist yet, and go on waiting when it is deleted.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from miniqueue.broker.summing import total
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lane_turns import LaneTurns, turns_among
from miniqueue.core.lanes import rank_of
from miniqueue.core.lease import Lease
from miniqueue.core.lease_book import LeaseBook
from miniqueue.core.partition_turns import LooksInTurn, PartitionTurns
from miniqueue.errors import MiniqueueError

if TYPE_CHECKING:
    from miniqueue.broker.flow import Flow
    from miniqueue.broker.membership import Member, Membership
    from miniqueue.broker.topic import Topic
    from miniqueue.core.growth import OldFirst

#: Of the receipts of one partition; the others begin with what tells partitions apart.
RECEIPT_BITS = 46
#: What all partitions of a group have in memory of their logs, and what each may have at least.
WINDOWS_BYTES = 64 << 20
MIN_WINDOW_BYTES = 64 << 10

#: Leases the next run of at most so many messages, of those that are due by then.
Take = Callable[[int, int], tuple[GroupCursor, Lease] | None]


class Waiter(Protocol):
    """Somebody in a group's line, who has `room` for so many messages, and gets them with `take`."""

    group: "Group"
    member: "Member | None"
    room: int
    take: "Take"

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; there may be less room after it."""
        ...

    def deliver(self, leases: list[Lease], /) -> None:
        """Hear what was taken over; leave the line if that is all."""
        ...

    def fail(self, error: MiniqueueError, /) -> None:
        """Hear that the topic cannot be read; the line is left already."""
        ...


class Group:
    """An independent reader of a topic.

    Attributes:
      topic: that it reads.
      name: of the group; `id` is what the store's keys know it by, None while there is no such group.
      cursors: in the order in which messages are taken from them.
      load_order: those that may be loaded next.
      waiters: who waits for messages.
      consumer_count: also those who do not wait now.
      membership: says who reads which partitions, while consumers are members; else they compete for all.
      book: of the leases that belong to no connection, if there are any.
      old_first: what is held back since partitions were added, if anything is.
      flow: how messages are handed out by their keys and within caps; None for plainly.
      is_loading: whether something is read from the store for it; who has set it calls `end_loading`.
      was_read: whether somebody has left since the last look at who reads; see `idle_groups`.
      unread_seconds: for how long nobody has read with it, as of the last look.
      is_expiring: whether more than one turn of the loop is needed to give up what has expired in front.
    """

    __slots__ = (
        "_load_ended",
        "_receipts",
        "_turns",
        "book",
        "consumer_count",
        "cursors",
        "flow",
        "id",
        "is_expiring",
        "is_loading",
        "load_order",
        "membership",
        "name",
        "old_first",
        "topic",
        "unread_seconds",
        "waiters",
        "was_read",
    )

    def __init__(self, topic: "Topic", name: bytes) -> None:
        self.topic = topic
        self.name = name
        self.cursors: list[GroupCursor] = []
        self.load_order: Iterable[GroupCursor] = ()
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        self.consumer_count = 0
        self._receipts: dict[int, int] = {}  # the next one of each partition that there was
        self.membership: Membership | None = None
        self._turns: LaneTurns | PartitionTurns | None = None
        self._load_ended: asyncio.Future[None] | None = None  # where somebody waits for it
        self.clear()

    def clear(self) -> None:
        """Exist no more, nor any lease, because the topic is gone or is read anew; keep who waits."""
        self.flow: Flow | None = None
        self.old_first: OldFirst | None = None
        for cursor in self.cursors:
            cursor.revoke_all()
        self.replace(())
        self.id: int | None = None
        self.book: LeaseBook | None = None
        self.is_expiring = False
        self.was_read, self.unread_seconds = True, 0.0
        self.end_loading()

    def end_loading(self) -> None:
        """Note that nothing is read any more, and tell who waits for that; they go on in a later turn."""
        self.is_loading = False
        if self._load_ended is not None:
            self._load_ended.set_result(None)
            self._load_ended = None

    async def load_ended(self) -> None:
        """Wait until what is read from the store now is there, or the topic is gone."""
        await asyncio.shield(self._end_of_load())

    def when_load_ended(self, hear: Callable[[], None]) -> None:
        """Call `hear` in the turn after what is read next from the store is there, or the topic is gone."""
        self._end_of_load().add_done_callback(lambda _: hear())

    def _end_of_load(self) -> "asyncio.Future[None]":
        if self._load_ended is None:
            self._load_ended = asyncio.get_running_loop().create_future()
        return self._load_ended

    def replace(self, cursors: Iterable[GroupCursor]) -> None:
        """Go on with other cursors.

        Receipts count on: one of a lease that has ended must not name a message that is handed out later. Each
        partition has receipts of its own.
        """
        self._receipts |= {cursor.partition: cursor.next_receipt for cursor in self.cursors}
        self.topic.held_at_most = None
        self.cursors = sorted(cursors, key=attrgetter("partition"))
        for cursor in self.cursors:
            next_receipt = self._receipts.setdefault(cursor.partition, len(self._receipts) << RECEIPT_BITS | 1)
            cursor.next_receipt = next_receipt
            cursor.log.max_bytes = min(cursor.log.max_bytes, max(MIN_WINDOW_BYTES, WINDOWS_BYTES // len(self.cursors)))
        self.cursors.sort(key=lambda cursor: rank_of(cursor.partition))
        self.load_order = self.cursors if len(self.cursors) <= 1 else LooksInTurn(self.cursors, self.waiters)
        self._turns = None if len(self.cursors) == 1 else turns_among(self.cursors)
        if self.topic.flows is not None:
            self.topic.flows.apply_to(self)
        if self.membership is not None:
            self.membership.cursors_replaced()

    def partition_of(self, receipt: int) -> int:
        """Return the number of the partition, or lane, of a message that was handed out with this receipt."""
        return [*self._receipts][receipt >> RECEIPT_BITS]

    def fail(self, fault: MiniqueueError) -> None:
        """Tell those who wait, and have them wait no longer."""
        for consumer in list(self.waiters):  # not who asks again as it hears of this
            if consumer in self.waiters:
                del self.waiters[consumer]
                consumer.fail(fault)

    @property
    def depth(self) -> int:
        """How many messages are not acknowledged: ready, leased and delayed."""
        cursors = self.cursors
        return total("tail_seq", cursors) - total("acked_count", cursors) - total("dropped_count", cursors)

    def waiting(self) -> tuple[int, int]:
        """Count messages that are committed and that nobody holds, and the bytes of their payloads."""
        cursors = self.cursors
        return (
            self.depth - total("leased_count", cursors),
            total("tail_bytes", cursors) - total("gone_bytes", cursors) - total("leased_bytes", cursors),
        )

    @property
    def is_blocked(self) -> bool:
        """Whether the last `take` could not go on before something was read from the store."""
        if self._turns is not None:
            return self._turns.is_blocked
        return any(cursor.blocked_on is not None for cursor in self.cursors)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages; none while the topic is paused.

        Some of them may have expired: `expiring` looks.
        """
        topic = self.topic
        if topic.is_paused_out or (self.flow is not None and not (max_count := self.flow.room(max_count))):
            return None
        if self._turns is None:
            cursor = self.cursors[0]
            lease = cursor.take(max_count, horizon_ms)
            if lease is None:
                return None
        elif (taken := self._turns.take(max_count, horizon_ms)) is not None:
            cursor, lease = taken
        else:
            return None
        if self.flow is not None:
            self.flow.spend(lease.count)
        if (pulse := topic.pulse) is not None and pulse.wanted:
            pulse.handed_out(lease)
        return cursor, lease

    def take_from(
        self, turns: LaneTurns | PartitionTurns, max_count: int, horizon_ms: int
    ) -> tuple[GroupCursor, Lease] | None:
        """Do the same among some of the cursors."""
        topic = self.topic
        if topic.is_paused_out or (self.flow is not None and not (max_count := self.flow.room(max_count))):
            return None
        taken = turns.take(max_count, horizon_ms)
        if taken is not None:
            if self.flow is not None:
                self.flow.spend(taken[1].count)
            if (pulse := topic.pulse) is not None and pulse.wanted:
                pulse.handed_out(taken[1])
        return taken
