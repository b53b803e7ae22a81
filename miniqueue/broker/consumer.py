"""A consumer in a group of a topic, over whatever protocol."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from miniqueue.broker.acting import ACTING
from miniqueue.broker.group import Group, Take
from miniqueue.broker.trace import Receiver
from miniqueue.core import returning
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held, Holding, settle_each
from miniqueue.core.lease import Lease
from miniqueue.errors import MessageOutstandingError, MiniqueueError, NothingOutstandingError, UnknownReceiptError

if TYPE_CHECKING:
    from miniqueue.broker.dispatcher import Dispatcher
    from miniqueue.broker.membership import Member

#: A consumer that holds this much is given no more: what it has not read yet waits in our memory.
MAX_HELD_BYTES = 4 << 20


class Consumer:
    """Asks for messages and settles them.

                  request()                       deliver(leases)
        IDLE ─────────────────▶ WAITING ─────────────────────────▶ HOLDING one, or up to `prefetch`
          ▲                        ▲ refill()                          │
          └────────────────────────┴── ack() nack() back() dack() ─────┘

    With a prefetch of 1 the one message held is settled without naming it. With more, `receipts` name what is
    settled, and the consumer waits for more while it has `room`, for that many. `request` and `refill` may call
    `deliver` before they return. `fail` is called when the topic turns out to be unreadable; the consumer waits no
    longer then, and if it `is_closed`, its stream has to end. `close` returns what is held to the front of the topic.
    The messages are those of the `member` that it is of, if it is of one.
    """

    __slots__ = (
        "_dispatcher",
        "_holding",
        "_is_closed",
        "_prefetch",
        "deliver",
        "fail",
        "group",
        "member",
        "receiver",
        "room",
        "take",
    )

    def __init__(
        self,
        dispatcher: "Dispatcher",
        group: Group,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
        prefetch: int,
        member: "Member | None" = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._holding = Holding()
        self._prefetch = prefetch
        self._is_closed = False
        self.room = prefetch
        self.group = group
        self.member = member
        self.take: Take = group.take if member is None else member.take
        self.deliver = deliver
        self.fail = fail
        self.receiver = Receiver(ACTING.get(), b"" if member is None else member.name)
        group.consumer_count += 1

    @property
    def is_waiting(self) -> bool:
        """Whether the next message of the topic may go to this consumer."""
        return self in self.group.waiters

    @property
    def is_closed(self) -> bool:
        """Whether it gets no more messages, ever."""
        return self._is_closed

    @property
    def is_holding(self) -> bool:
        """Whether it was given a message that it has not settled, be it that the message is gone."""
        return self._holding.count > 0

    async def load_ended(self) -> None:
        """Wait until what it has asked for, and must be read from the store, has been read."""
        while self.is_waiting and self.group.is_loading:
            await self.group.load_ended()

    def request(self) -> None:
        """Ask for the first messages.

        Raises:
          MessageOutstandingError: some are held, or have been asked for.
          StorageError: the topic cannot be read.
        """
        if self._holding.count or self.is_waiting:
            raise MessageOutstandingError
        self._dispatcher.serve(self)

    def refill(self) -> None:
        """Ask for as many messages as there is room for, after some were settled; raises StorageError."""
        if self.room and self not in self.group.waiters:
            self._dispatcher.serve(self)

    def ack(self, receipts: Sequence[int] | None = None) -> None:
        """Settle messages: they are done.

        Args (of this and the three below):
          receipts: of the messages; None means the one message held.

        Raises (this and the three below):
          NothingOutstandingError: no message is held, or it ended with its topic.
          UnknownReceiptError: the same of some receipts; the others are settled.
        """
        self._settle(GroupCursor.ack, receipts, is_returned=False)

    def move(self, receipts: Sequence[int]) -> None:
        """Settle messages that are put into another topic with the same commit."""
        self._settle(_move, receipts, is_returned=False)

    def nack(self, receipts: Sequence[int] | None = None) -> None:
        """Return messages to the front of the topic, in the order of `receipts`."""
        self._settle(returning.nack, receipts, returning.nack_all)

    def back(self, receipts: Sequence[int] | None = None) -> None:
        """Return messages to the back of the topic."""
        self._settle(returning.back, receipts)

    def pass_over(self, receipts: Sequence[int]) -> None:
        """Return messages that nobody worked on to the back; no setting of the topic makes them dead letters."""
        self._settle(_pass_over, receipts)

    def dack(self, delay_seconds: float, receipts: Sequence[int] | None = None) -> None:
        """Return messages to the front on the first tick after `delay_seconds`.

        Raises:
          InvalidDelayError: the delay is negative, not a number or too far away; the messages are still held.
        """
        due_at_ms = self._dispatcher.due_at_ms(delay_seconds)
        self._settle(partial(returning.dack, due_at_ms=due_at_ms), receipts)

    def attributes_of(self, receipt: int | None) -> bytes:
        """Return the attributes of a message that is held, of the one held for None; raises as `ack` does."""
        given = self._holding.attributes_of(receipt)
        if given is not None:
            return given
        raise NothingOutstandingError if receipt is None else UnknownReceiptError(1, 1)

    def close(self, cause: str = "disconnects") -> None:
        """Stop waiting, and return what is held to the front, counted as `cause`; safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.group.waiters.pop(self, None)
        self.group.consumer_count -= 1
        self._prefetch = self.room = 0  # who closes it may be in the middle of a command, and ask once more
        self._dispatcher.left(self.group, self._holding.take_all(), cause)
        if self.member is not None:
            self.member.membership.leave(self.member)

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the dispatcher calls this, and `deliver` after it."""
        if cursor.trace is not None:
            cursor.trace.delivered(lease, self.receiver)
        holding = self._holding
        holding.add(cursor, lease)
        self.room = self._prefetch - holding.count if holding.size_bytes < MAX_HELD_BYTES else 0

    def _measure_room(self) -> None:
        holding = self._holding
        self.room = self._prefetch - holding.count if holding.size_bytes < MAX_HELD_BYTES else 0

    def _settle(
        self,
        act: Callable[[GroupCursor, Lease], None],
        receipts: Sequence[int] | None,
        act_on_all: Callable[[Sequence[Held]], int] | None = None,
        *,
        is_returned: bool = True,
    ) -> None:
        if receipts is None:  # as a rule: settled here, without another call
            holding = self._holding
            cursor, lease = holding.take_only()
            self.room = self._prefetch - holding.count if holding.size_bytes < MAX_HELD_BYTES else 0
            act(cursor, lease)
            self._dispatcher.settled(self.group, is_returned=is_returned)
            return
        held = list(self._holding.take(receipts))
        self._measure_room()
        settled_count = settle_each(act, held) if act_on_all is None else act_on_all(held)
        if settled_count:
            self._dispatcher.settled(self.group, is_returned=is_returned)
        if settled_count < len(receipts):
            raise UnknownReceiptError(len(receipts) - settled_count, len(receipts))


def _move(cursor: GroupCursor, lease: Lease) -> None:
    cursor.drop(lease, None, moved_count=lease.count)


def _pass_over(cursor: GroupCursor, lease: Lease) -> None:
    policy, cursor.policy = cursor.policy, None
    try:
        returning.back(cursor, lease)
    finally:
        cursor.policy = policy
