"""A request for messages, once: it waits with the other consumers of its group, for at most its waiting time.

    start ─▶ WAITING among the group's waiters, with all consumers ─▶ deliver ─▶ answer(messages)
                │                           more must be loaded first ▼   ▲ loaded, or loading takes too long
                │                                               COLLECTING, first of the waiters
                └ the waiting time has elapsed, or the client leaves ───────────▶ answer(nothing)

The request gets messages that are ready even if they are not in memory: it collects while the store has messages
that it may get. It is answered exactly once, with an error if the topic turns out to be unreadable; `start` may answer
before it returns. After the answer, the request is no longer a waiter and holds nothing: the messages are in the
group's book of leases.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from miniqueue.broker.consume.consumer import CHARGED_BYTES, MAX_HELD_BYTES
from miniqueue.broker.consume.dispatcher import MAX_RETURNED, Dispatcher
from miniqueue.broker.model.parts import Member
from miniqueue.broker.model.recording import Receiver
from miniqueue.broker.model.topic import Group, Take
from miniqueue.broker.runtime.accounts import account_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, Holding
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.lease_book import LeaseBook, Payer
from miniqueue.core.group import view
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.errors import MemoryLimitError, MiniqueueError

#: A request with so many leases is answered, even if there is room for more: the answer is made in one event-loop
#: iteration, except that it is encoded.
MAX_LEASES = 500
#: Maximum time that a request waits for messages to be loaded from the store, even if its waiting time is zero.
MAX_LOADING_SECONDS = 5.0
#: Interval at which such a request checks whether loading has ended.
LOOK_SECONDS = 0.002


class ReceiveResult(NamedTuple):
    """Delivered messages: their leases, each with its partition, and the prefix of all receipts.

    The prefix is b"" if the messages have no receipts.
    """

    prefix: bytes
    leases: list[tuple[int, Lease]]


NOTHING_RECEIVED = ReceiveResult(b"", [])

#: Leases messages that were taken from a group, for whoever pays for their memory, or acknowledges them if the options
#: say so; returns the answer.
Keep = Callable[[Group, ReceiveOptions, list[CursorLease], Payer | None], ReceiveResult]

_Answer = Callable[[ReceiveResult], None]
_Fail = Callable[[MiniqueueError], None]


class Receiving(Protocol):
    """A request for messages, of one topic or of several."""

    def give_up(self) -> None:
        """Stop waiting, and answer without messages; if the request has been answered, this does nothing."""
        ...

    def wait_no_longer(self) -> None:
        """End the waiting time: answer with the messages available, after those that are being loaded."""
        ...

    def take_back(self) -> None:
        """Return the delivered messages to the topic, as when a stream ends: the client left before the answer."""
        ...


class ReceiveRequest:
    """One request for messages, with the protocol of a waiter that the dispatcher serves.

    Args:
      dispatcher: serves the request.
      group: the group whose messages are requested; its topic need not exist.
      options: the maximum number of messages and the waiting time.
      answer: called with the received messages.
      fail: called with an error instead.
      member: the member of the group that makes the request; None if the group has no members.
      keep: leases the messages that were taken.
    """

    __slots__ = (
        "_actor",
        "_answer",
        "_charged_bytes",
        "_dispatcher",
        "_fail",
        "_is_collecting",
        "_keep",
        "_latest",
        "_left_bytes",
        "_taken",
        "_timer",
        "_wait_until",
        "group",
        "member",
        "options",
        "room",
        "take",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        group: Group,
        options: ReceiveOptions,
        answer: _Answer,
        fail: _Fail,
        member: Member | None = None,
        *,
        keep: Keep,
    ) -> None:
        self._dispatcher = dispatcher
        self._keep = keep
        self._answer = answer
        self._fail = fail
        self._taken: list[CursorLease] = []
        self._left_bytes = MAX_HELD_BYTES  # how many more bytes of messages it may take
        self._charged_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wait_until = self._latest = 0.0
        self._is_collecting = False
        self._actor = CURRENT_ACTOR.get()
        self.options = options
        self.room = options.max_count
        self.group = group
        self.member = member
        self.take: Take = group.take if member is None else member.take
        group.enter()

    @property
    def is_waiting(self) -> bool:
        """Whether the request has not been answered yet."""
        return self in self.group.waiters

    def start(self) -> None:
        """Request messages now; if there are none, wait for as long as the options say."""
        self._dispatcher.serve(self)
        if self.is_waiting:
            self._wait_until = asyncio.get_running_loop().time() + self.options.wait_seconds
            if not self._is_collecting:
                self._wait()

    def may_take(self) -> bool:
        """Return whether the client may use memory for leases; if not, answer with that, or with what was taken.

        Many can begin to wait, or to collect, before the first of them has messages, and each could get some MiB. A
        request that acknowledges its messages gets little then. One that does not wait yet was checked when it came.
        """
        account = account_of(self._actor)
        over = None if account is None else account.first_over()
        if over is None:
            return True
        if self.options.is_acked:
            self._left_bytes = min(self._left_bytes, CHARGED_BYTES)
            return True
        if not self.is_waiting:
            return True
        self.fail(MemoryLimitError(over.name, over.limit_bytes, over.setting))
        return False

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the dispatcher calls this, then `deliver`."""
        self._taken.append((cursor, lease))
        self._left_bytes -= lease.size_bytes
        self.room = self.room - lease.count if self._left_bytes > 0 else 0

    def deliver(self, leases: list[Lease], /) -> None:
        """Answer with the messages taken, unless there is room for more, and there may be more."""
        if self.room and self._is_lacking and len(self._taken) < MAX_LEASES:
            self._collect()
        else:
            self._answer_with(self._live() if self._is_collecting else self._taken)

    @property
    def _is_lacking(self) -> bool:
        """Whether the store may have more messages for this request, or the next iteration delivers more."""
        return self.group.is_postponed or (self.group if self.member is None else self.member).is_blocked

    def _collect(self) -> None:
        """Keep the messages taken, and become the first waiter, until the rest has been loaded."""
        self.group.waiters.move_to_end(self, last=False)
        self._charge(sum(lease.size_bytes for _, lease in self._taken))
        if not self._is_collecting:
            self._is_collecting = True
            self._stop_timer()
            loop = asyncio.get_running_loop()
            self._latest = loop.time() + MAX_LOADING_SECONDS
            self._timer = loop.call_later(LOOK_SECONDS, self._look, self._latest)
            self.group.when_load_ended(self._load_ended)

    def _charge(self, size_bytes: int) -> None:
        """Charge what was taken so far, until the book of leases does."""
        if size_bytes != self._charged_bytes and (account := account_of(self._actor)) is not None:
            account.owner.charge_lease(size_bytes - self._charged_bytes)
            self._charged_bytes = size_bytes

    def _load_ended(self) -> None:
        """Answer unless more must be loaded; the dispatcher has already delivered the messages just loaded."""
        if self._is_collecting and self.is_waiting:
            self._stop_timer()
            self._look(self._latest)
            if self._is_collecting and self.is_waiting:
                self.group.when_load_ended(self._load_ended)

    def _live(self) -> list[CursorLease]:
        """Return the leases taken that still exist: the topic may have been deleted or reloaded meanwhile."""
        return [held for held in self._taken if view.is_there(*held)]

    def _answer_with(self, taken: list[CursorLease]) -> None:
        self._taken = taken
        answer, _ = self._leave()
        is_traced, is_acked = self.group.topic.trace is not None, self.options.is_acked
        if is_traced and is_acked:  # before `_keep` acknowledges the messages, which ends their leases
            self._note(None)
        account = account_of(self._actor)
        payer = None if account is None else account.owner  # which outlives the connection, as the leases do
        received = self._keep(self.group, self.options, taken, payer)
        if is_traced and not is_acked:
            self._note(received.prefix)
        answer(received)

    def _note(self, prefix: bytes | None) -> None:
        member = b"" if self.member is None else self.member.name
        receiver = Receiver(self._actor, member, prefix)
        for cursor, lease in self._taken:
            if cursor.trace is not None:
                cursor.trace.delivered(cursor, lease, receiver)

    def fail(self, error: MiniqueueError, /) -> None:
        """Answer with an error, or with the messages that were collected before it."""
        live = self._live() if self._is_collecting else []
        if live:
            self._answer_with(live)
        else:
            _, fail = self._leave()
            fail(error)

    def give_up(self) -> None:
        """Stop waiting, return the collected messages to the topic, and answer with none.

        If the request has been answered, this does nothing.
        """
        if self.is_waiting:
            taken, self._taken = self._live(), []
            answer, _ = self._leave(taken)
            answer(NOTHING_RECEIVED)

    def wait_no_longer(self) -> None:
        """End the waiting time: answer with the messages available, after those that are being loaded."""
        if self.is_waiting:
            self._wait_until = 0.0
            if not self._is_collecting:  # a request that collects is answered when loading has ended
                self._stop_timer()
                self._look(asyncio.get_running_loop().time() + MAX_LOADING_SECONDS)

    def take_back(self) -> None:
        """Return the delivered messages to the topic, as when a stream ends: the client left before the answer."""
        self.give_up()
        book = self.group.book
        if book is not None:
            count = sum(lease.count for _, lease in self._taken)
            self._dispatcher.consumer_left(self.group, _taken_out(book, self._taken), count)

    def _leave(self, returned: list[CursorLease] | None = None) -> tuple[_Answer, _Fail]:
        """Leave the waiters, and hand over `answer` and `fail`, which refer to the owner of this request."""
        if self._timer is not None:
            self._stop_timer()
        if self._charged_bytes:
            self._charge(0)
        self.group.remove(self)
        if self.member is not None:
            self.member.leave(self.group.topic.settings.session_seconds)
        holding = Holding()
        for held in returned or ():
            holding.add(*held)
        self._dispatcher.consumer_left(self.group, holding.parts(MAX_RETURNED), holding.count)
        callbacks, self._answer, self._fail = (self._answer, self._fail), _nothing, _nothing
        return callbacks

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        seconds = max(0.0, self._wait_until - loop.time())
        if seconds:
            self._timer = loop.call_later(seconds, self._look, loop.time() + seconds + MAX_LOADING_SECONDS)
        else:
            self._look(loop.time() + MAX_LOADING_SECONDS)

    def _look(self, latest: float) -> None:
        """Stop waiting, unless messages for this request may be loading and `latest` has not passed."""
        loop = asyncio.get_running_loop()
        is_reading = self.group.is_loading or self.group.is_postponed
        if is_reading and loop.time() < latest and (self._is_lacking or not self._is_collecting):
            self._timer = loop.call_later(LOOK_SECONDS, self._look, latest)
        elif not self._is_collecting:
            self.give_up()
        elif live := self._live():
            self._answer_with(live)
        else:  # every lease collected has ended with its topic, and no other message came
            self._taken, self._left_bytes, self.room = [], MAX_HELD_BYTES, self.options.max_count
            self._charge(0)
            self._is_collecting = False
            self._wait()


def _taken_out(book: LeaseBook, leases: Sequence[CursorLease]) -> Iterator[list[CursorLease]]:
    """Take messages out of a book as far as they are in it, in parts."""
    for _, lease in leases:
        receipts = range(lease.receipt, lease.receipt + lease.count)
        for start in range(0, lease.count, MAX_RETURNED):
            yield book.take(receipts[start : start + MAX_RETURNED])


class ReceivePart(ReceiveRequest):
    """A request that is a part of another: it is answered with the messages in memory, and waits only without any."""

    __slots__ = ()

    def deliver(self, _leases: list[Lease], /) -> None:
        """Answer with the messages taken."""
        self._answer_with(self._taken)


def _nothing(_: object) -> None:
    """Do nothing: the request has been answered."""
