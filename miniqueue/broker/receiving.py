"""Asking for messages once: who waits in line for them, and no longer than it said.

    wait ─▶ WAITING in the topic's line, with all other consumers ─▶ deliver ─▶ answer(messages)
                └ its time is over, or it gives up ────────────────────────────▶ answer(nothing)

It is answered exactly once, with an error if the topic turns out to be unreadable; `start` may answer before it
returns. Who is answered stands in no line any more, and holds nothing: the messages are in the topic's book of leases.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from miniqueue.broker.acting import ACTING
from miniqueue.broker.consumer import MAX_HELD_BYTES
from miniqueue.broker.group import Group, Take
from miniqueue.broker.trace import Receiver
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held
from miniqueue.core.lease import Lease
from miniqueue.core.receiving import ReceiveOptions
from miniqueue.errors import MiniqueueError

if TYPE_CHECKING:
    from miniqueue.broker.leasing import Leasing
    from miniqueue.broker.membership import Member

#: What is being read from the store is waited for, also by who will not wait; for so long, looking so often.
MAX_LOADING_SECONDS = 5.0
LOOK_SECONDS = 0.002


class Received(NamedTuple):
    """Messages handed out: their leases, each with its partition, and what all receipts begin with; b"" for none."""

    prefix: bytes
    leases: list[tuple[int, Lease]]


NOTHING_RECEIVED = Received(b"", [])


class Receiving:
    """One request for messages.

    Args:
      leasing: keeps the leases.
      group: where from; its topic need not exist.
      options: how many, and how long to wait.
      answer: called with what was received.
      fail: called with an error instead.
      member: that it is of, if it is of one.
    """

    __slots__ = (
        "_actor",
        "_answer",
        "_fail",
        "_leasing",
        "_taken",
        "_taken_bytes",
        "_timer",
        "group",
        "member",
        "options",
        "room",
        "take",
    )

    def __init__(
        self,
        leasing: "Leasing",
        group: Group,
        options: ReceiveOptions,
        answer: Callable[[Received], None],
        fail: Callable[[MiniqueueError], None],
        member: "Member | None" = None,
    ) -> None:
        self._leasing = leasing
        self._answer = answer
        self._fail = fail
        self._taken: list[Held] = []
        self._taken_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._actor = ACTING.get()
        self.options = options
        self.room = options.max_count
        self.group = group
        self.member = member
        self.take: Take = group.take if member is None else member.take
        group.consumer_count += 1

    @property
    def is_waiting(self) -> bool:
        """Whether it has not been answered yet."""
        return self in self.group.waiters

    def start(self) -> None:
        """Ask, and wait as long as it takes."""
        self._leasing.dispatcher.serve(self)
        if self.is_waiting:
            self._wait(self.options.wait_seconds)

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the dispatcher calls this, and `deliver` after it."""
        self._taken.append((cursor, lease))
        self._taken_bytes += lease.size_bytes
        self.room = self.room - lease.count if self._taken_bytes < MAX_HELD_BYTES else 0

    def deliver(self, leases: list[Lease], /) -> None:
        """Be answered with what was taken."""
        self._leave()
        is_traced, is_acked = self.group.topic.trace is not None, self.options.is_acked
        if is_traced and is_acked:  # there is no more to be delivered then
            self._note(None)
        received = self._leasing.keep(self.group, self.options, self._taken)
        if is_traced and not is_acked:
            self._note(received.prefix)
        self._answer(received)

    def _note(self, prefix: bytes | None) -> None:
        member = b"" if self.member is None else self.member.name
        receiver = Receiver(self._actor, member, prefix)
        for cursor, lease in self._taken:
            if cursor.trace is not None:
                cursor.trace.delivered(lease, receiver)

    def fail(self, error: MiniqueueError, /) -> None:
        """Be answered with an error."""
        self._leave()
        self._fail(error)

    def give_up(self) -> None:
        """Wait no longer; does nothing when it has been answered."""
        if self.is_waiting:
            self._leave()
            self._answer(NOTHING_RECEIVED)

    def take_back(self) -> None:
        """Return what was handed out, as when a stream ends: the client had left before it could be told."""
        self.give_up()
        book = self.group.book
        if book is not None:
            runs = [range(lease.receipt, lease.receipt + lease.count) for _, lease in self._taken]
            held = [held for run in runs for held in book.take(run)]
            self._leasing.dispatcher.left(self.group, held)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.group.waiters.pop(self, None)
        self.group.consumer_count -= 1
        if self.member is not None:
            self.member.membership.leave(self.member, self.group.topic.settings.session_seconds)
        self._leasing.dispatcher.left(self.group)

    def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds:
            self._timer = loop.call_later(seconds, self._look, loop.time() + seconds + MAX_LOADING_SECONDS)
        else:
            self._look(loop.time() + MAX_LOADING_SECONDS)

    def _look(self, latest: float) -> None:
        """Give up, unless what is being read now may have something."""
        loop = asyncio.get_running_loop()
        if (self.group.is_loading or self.group.is_expiring) and loop.time() < latest:
            self._timer = loop.call_later(LOOK_SECONDS, self._look, latest)
        else:
            self.give_up()
