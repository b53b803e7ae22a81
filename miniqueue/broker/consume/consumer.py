"""A consumer in a group of a topic, for any protocol; that of a member must settle the messages it holds in time.

    MemberConsumer

    holds nothing ─ hold ─▶ the session runs ─ settle ─▶ it begins again ─ … ─ holds nothing again ─▶ it stops
                                 └ `session_seconds` have elapsed ─▶ closed: messages return as timeouts, partitions
                                                                     move
Otherwise other members get its partitions: a stopped process keeps its TCP connection open, so the broker cannot rely
on the end of the connection. Delivered messages count as held, whether the client has read them or not. An idle member
holds nothing and stays forever.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from miniqueue.broker.consume import membership
from miniqueue.broker.consume.dispatcher import MAX_RETURNED, Dispatcher
from miniqueue.broker.model.parts import Member
from miniqueue.broker.model.recording import Receiver
from miniqueue.broker.model.topic import Group, Take
from miniqueue.broker.runtime.accounts import Purpose, account_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, Holding, settle_each, size_of
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.returning import FrontPlaces
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions
from miniqueue.errors import MessageOutstandingError, MiniqueueError, NothingOutstandingError, UnknownReceiptError
from miniqueue.errors.requests import SessionOverError

#: A consumer that holds this many bytes gets no more messages: those that its client has not read yet use memory of
#: the broker.
MAX_HELD_BYTES = 4 << 20
#: From this many bytes on, what a consumer holds is charged to its client, in steps of this size; with memory short, it
#: gets no more than this.
CHARGED_BYTES = 64 << 10
#: Maximum number of messages that one event-loop iteration settles, or of leases of messages that are acknowledged.
MAX_SETTLED = 100
#: The same for each turn of those that are more.
SETTLED_IN_TURN = 64

#: What settles messages in turns; None if they have been settled.
Rest = Coroutine[Any, Any, None] | None


class Consumer:
    """Requests messages and settles them.

                  request()                       deliver(leases)
        IDLE ─────────────────▶ WAITING ─────────────────────────▶ HOLDING one, or up to `prefetch`
          ▲                        ▲ refill()                          │
          └────────────────────────┴── ack() nack() back() dack() ─────┘

    With a prefetch of 1, the client settles the only message held without a receipt. With a larger prefetch,
    `receipts` name the messages to settle, and the consumer waits for `room` more messages while `room` is not 0.
    `request` and `refill` may call `deliver` before they return. `fail` is called if the topic turns out to be
    unreadable; then the consumer stops waiting, and if it `is_closed`, its stream must end. `close` returns the
    messages held to the front of the topic. If the consumer belongs to a `member`, it gets only the messages of the
    partitions of this member.
    """

    __slots__ = (
        "_account",
        "_charged_bytes",
        "_dispatcher",
        "_free_bytes",
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
        dispatcher: Dispatcher,
        group: Group,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
        prefetch: int,
        member: Member | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._holding = Holding()
        self._prefetch = prefetch
        self._is_closed = False
        actor = CURRENT_ACTOR.get()
        self._account = account_of(actor)
        self._charged_bytes = 0
        self._free_bytes = MAX_HELD_BYTES if self._account is None else CHARGED_BYTES  # 0 while some are charged
        self.room = prefetch
        self.group = group
        self.member = member
        self.take: Take = group.take if member is None else member.take
        self.deliver = deliver
        self.fail = fail
        self.receiver = Receiver(actor, b"" if member is None else member.name)
        group.enter()

    @property
    def is_waiting(self) -> bool:
        """Whether the next message of the topic may go to this consumer, as soon as there is memory for it."""
        return self.group.is_waiting(self)

    @property
    def is_closed(self) -> bool:
        """Whether the consumer was closed; it gets no more messages then."""
        return self._is_closed

    @property
    def is_holding(self) -> bool:
        """Whether the consumer has a message that it has not settled, even if the message was deleted."""
        return self._holding.count > 0

    @property
    def held_count(self) -> int:
        """Number of messages that the consumer has, and has not settled."""
        return self._holding.count

    async def load_ended(self) -> None:
        """Wait until the requested messages have been loaded, if they must be loaded from the store."""
        while self.is_waiting and self.group.is_loading:
            await self.group.load_ended()

    def request(self) -> None:
        """Request the first messages.

        Raises:
          MessageOutstandingError: messages are held, or have been requested already.
          StorageError: the topic cannot be read.
        """
        if self._holding.count or self.is_waiting:
            raise MessageOutstandingError
        self._dispatcher.serve(self)

    def refill(self) -> None:
        """Request as many messages as there is room for, after some were settled; raises StorageError."""
        if self.room and self not in self.group.waiters:
            self._dispatcher.serve(self)

    def ack(self, receipts: Sequence[int] | None = None) -> Rest:
        """Acknowledge messages.

        Args (of all methods that settle):
          receipts: the receipts of the messages; None means the only message held.

        Returns (all methods that settle) None, or, if one event-loop iteration may not settle so many, what settles
        them in turns, and raises the same errors. Messages whose leases end meanwhile are not settled. It also raises
        BrokenOffError if the store fails meanwhile.

        Raises (all methods that settle):
          NothingOutstandingError: no message is held, or its topic was deleted.
          UnknownReceiptError: some receipts name no message that is held; the other messages are settled.
        """
        return self._settle(GroupCursor.ack, receipts, is_returned=False)

    def move(self, receipts: Sequence[int]) -> None:
        """Remove messages that the same commit adds to another topic, in this iteration."""
        self._settle_now(_move, receipts, is_returned=False)

    def nack(self, receipts: Sequence[int] | None = None, options: NackOptions = PLAIN_NACK) -> Rest:
        """Return messages to the front of the topic, in the order of `receipts`; also raises InvalidDelayError."""
        if options is PLAIN_NACK:
            return self._settle(returning.nack, receipts, returning.nack_all)
        delay_seconds, reason = options
        if delay_seconds is None:
            nack_all = partial(returning.nack_all, reason=reason)
            return self._settle(partial(returning.nack, reason=reason), receipts, nack_all)
        due_at_ms = self._dispatcher.due_at_ms(delay_seconds)
        return self._settle(partial(returning.dack, due_at_ms=due_at_ms, cause="nacks", reason=reason), receipts)

    def back(self, receipts: Sequence[int] | None = None) -> Rest:
        """Return messages to the back of the topic."""
        return self._settle(returning.back, receipts)

    def pass_over(self, receipts: Sequence[int]) -> None:
        """Return messages that were not processed to the back; the topic's settings do not make them dead letters."""
        self._settle_now(_pass_over, receipts)

    def dack(self, delay_seconds: float, receipts: Sequence[int] | None = None) -> Rest:
        """Return messages to the front on the first tick after `delay_seconds`.

        Raises:
          InvalidDelayError: the delay is negative, NaN, or too long; the messages are still held.
        """
        due_at_ms = self._dispatcher.due_at_ms(delay_seconds)
        return self._settle(partial(returning.dack, due_at_ms=due_at_ms), receipts)

    def attributes_of(self, receipt: int | None) -> bytes:
        """Return the encoded attributes of a message that is held; None means the only one; raises as `ack` does."""
        encoded = self._holding.attributes_of(receipt)
        if encoded is not None:
            return encoded
        raise NothingOutstandingError if receipt is None else UnknownReceiptError(1, 1)

    def held(self) -> list[CursorLease]:
        """Return the leases that the consumer holds, in the order of their receipts."""
        return self._holding.leases()

    def deadline_of(self, lease: Lease) -> float | None:
        """Return when a lease ends that the consumer holds; None if it has no deadline, or is not held."""
        return self._holding.deadline_of(lease)

    def hold_in(self, holding: Holding) -> None:
        """Hold messages in `holding`; the consumer must not have requested any."""
        self._holding = holding

    def time_out(self, late: Sequence[CursorLease], places: FrontPlaces | None = None) -> int:
        """Return messages that the consumer held for too long to the front; return the number of messages.

        The caller has removed them from what is held. `places` are those of all parts if this is one part.
        """
        self._measure_room()
        count = returning.nack_all(late, "timeouts", places=places)
        if count:
            self._dispatcher.settled(self.group, size_of(late))
        return count

    def close(self, cause: str = "disconnects") -> None:
        """Stop waiting, and return the messages held to the front, counted as `cause`; can be called repeatedly."""
        if self._is_closed:
            return
        self._is_closed = True
        self.group.remove(self)
        self._prefetch = self.room = 0  # the caller may be processing a command that requests more afterwards
        self._dispatcher.consumer_left(self.group, self._leave_held(), self._holding.count, cause)
        if self.member is not None:
            self.member.leave()
        self.deliver = self.fail = _nothing  # they refer to the owner of this consumer

    def _leave_held(self) -> Iterator[list[CursorLease]]:
        """Yield what is held, in parts; until the end, its memory is charged to the user, as the connection ends."""
        size_bytes, self._charged_bytes = self._charged_bytes, 0
        owner = None if self._account is None else self._account.owner
        if self._account is not None and owner is not None:
            self._account.add(Purpose.LEASES, -size_bytes)
            owner.charge_lease(size_bytes)
        try:
            yield from self._holding.parts(MAX_RETURNED)
        finally:
            if owner is not None:
                owner.charge_lease(-size_bytes)

    def may_take(self) -> bool:
        """Return whether the client may use memory for messages; if not, the dispatcher sets the stream aside."""
        return self._account is None or self._account.first_over() is None

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the dispatcher calls this, then `deliver`."""
        if cursor.trace is not None:
            cursor.trace.delivered(cursor, lease, self.receiver)
        holding = self._holding
        holding.add(cursor, lease)
        self.room = self._prefetch - holding.count if holding.size_bytes < self._free_bytes else self._room_of_much()

    def _measure_room(self) -> None:
        holding = self._holding
        self.room = self._prefetch - holding.count if holding.size_bytes < self._free_bytes else self._room_of_much()

    def _room_of_much(self) -> int:
        """Charge what is held, and return for how many messages more there is room."""
        self._charge()
        is_tight = self._account is not None and self._account.process.over_count > 0
        most_bytes = CHARGED_BYTES if is_tight else MAX_HELD_BYTES
        return self._prefetch - self._holding.count if self._holding.size_bytes < most_bytes else 0

    def _charge(self) -> None:
        """Charge the client for what is held, if that is much."""
        if self._account is not None:
            steps = self._holding.size_bytes // CHARGED_BYTES
            if change := steps * CHARGED_BYTES - self._charged_bytes:
                self._charged_bytes += change
                self._account.add(Purpose.LEASES, change)
            self._free_bytes = 0 if steps else CHARGED_BYTES

    def _begin_session(self) -> None:
        """Begin the session again, because the client settles; does nothing here, as only members have sessions."""

    def _settle(
        self,
        act: Callable[[GroupCursor, Lease], None],
        receipts: Sequence[int] | None,
        act_on_all: Callable[..., int] | None = None,
        *,
        is_returned: bool = True,
    ) -> Rest:
        if self.member is not None:
            self._begin_session()
        if is_returned and self._dispatcher.is_crowded():
            if receipts is None:
                receipts = [self._holding.first_receipt]
            return self._dispatcher.in_epoch(self._settle_in_turns(act, receipts, act_on_all, is_returned=True))
        if receipts is None:  # the usual case, so it is inlined
            holding = self._holding
            cursor, lease = holding.take_only()
            size_bytes = holding.size_bytes
            self.room = self._prefetch - holding.count if size_bytes < self._free_bytes else self._room_of_much()
            act(cursor, lease)
            self._dispatcher.settled(self.group, lease.size_bytes if is_returned else None)
            return None
        if len(receipts) > MAX_SETTLED and (is_returned or not self._holding.has_few(receipts, MAX_SETTLED)):
            return self._dispatcher.in_epoch(self._settle_in_turns(act, receipts, act_on_all, is_returned=is_returned))
        self._settle_now(act, receipts, act_on_all, is_returned=is_returned)
        return None

    async def _settle_in_turns(
        self,
        act: Callable[[GroupCursor, Lease], None],
        receipts: Sequence[int],
        act_on_all: Callable[..., int] | None,
        *,
        is_returned: bool,
    ) -> None:
        if act_on_all is not None:
            act_on_all = partial(act_on_all, places=FrontPlaces(len(receipts)))
        unknown_count = 0
        parts = [receipts[start : start + SETTLED_IN_TURN] for start in range(0, len(receipts), SETTLED_IN_TURN)]
        async with aclosing(self._dispatcher.turns()) as turns:
            for part in parts:
                await anext(turns)
                try:
                    self._settle_now(act, part, act_on_all, is_returned=is_returned)
                except UnknownReceiptError as error:
                    unknown_count += error.unknown_count
        if unknown_count:
            raise UnknownReceiptError(unknown_count, len(receipts))

    def _settle_now(
        self,
        act: Callable[[GroupCursor, Lease], None],
        receipts: Sequence[int],
        act_on_all: Callable[[Sequence[CursorLease]], int] | None = None,
        *,
        is_returned: bool = True,
    ) -> None:
        held = list(self._holding.take(receipts))
        self._measure_room()
        settled_count = settle_each(act, held) if act_on_all is None else act_on_all(held)
        if settled_count:
            self._dispatcher.settled(self.group, size_of(held) if is_returned else None)
        if settled_count < len(receipts):
            raise UnknownReceiptError(len(receipts) - settled_count, len(receipts))


def _nothing(_: object) -> None:
    """Do nothing: the consumer is closed."""


def _move(cursor: GroupCursor, lease: Lease) -> None:
    cursor.drop(lease, None, moved_count=lease.count)


def _pass_over(cursor: GroupCursor, lease: Lease) -> None:
    policy, cursor.policy = cursor.policy, None
    try:
        returning.back(cursor, lease)
    finally:
        cursor.policy = policy


class MemberConsumer(Consumer):
    """A consumer whose session ends when it holds messages and settles none for `session_seconds`."""

    __slots__ = ("_clock", "_member", "_session_began_at", "_session_seconds")

    def __init__(
        self,
        dispatcher: Dispatcher,
        group: Group,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
        prefetch: int,
        member: membership.Member,
        *,
        session_seconds: float,
    ) -> None:
        super().__init__(dispatcher, group, deliver, fail, prefetch, member)
        self._clock = member.membership.clock
        self._member = member
        self._session_seconds = session_seconds
        self._session_began_at = 0.0
        member.membership.streams[self] = member.name

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the session begins with the first one."""
        if not self._holding.count:
            self._begin_session()
        super().hold(cursor, lease)

    def _begin_session(self) -> None:
        self._session_began_at = self._clock.now()

    def close(self, cause: str = "disconnects") -> None:
        """Stop waiting, and return the messages held to the front, counted as `cause`."""
        self._member.membership.streams.pop(self, None)
        super().close(cause)

    def is_late(self, now: float) -> bool:
        """Return whether the session has expired."""
        return self.is_holding and now >= self._session_began_at + self._session_seconds

    def end_session(self) -> None:
        """Return the messages held, counted as timeouts, and report the reason to the client."""
        fail = self.fail
        self.close("timeouts")
        fail(SessionOverError(self._member.name, self._session_seconds))
