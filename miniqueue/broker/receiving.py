"""Asking for messages once: who waits in line for them, and no longer than it said.

    wait ─▶ WAITING in the topic's line, with all other consumers ─▶ deliver ─▶ answer(messages)
                │                            more must be read first ▼   ▲ read, or it takes too long
                │                                              COLLECTING, first in the line
                └ its time is over, or it gives up ────────────────────────────▶ answer(nothing)

What is ready counts, not what happens to be in memory: while the store has messages that it may have, it collects.
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
from miniqueue.core import cursor_view
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
        "_is_collecting",
        "_latest",
        "_leasing",
        "_taken",
        "_taken_bytes",
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
        self._wait_until = self._latest = 0.0
        self._is_collecting = False
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
            self._wait_until = asyncio.get_running_loop().time() + self.options.wait_seconds
            if not self._is_collecting:
                self._wait()

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the dispatcher calls this, and `deliver` after it."""
        self._taken.append((cursor, lease))
        self._taken_bytes += lease.size_bytes
        self.room = self.room - lease.count if self._taken_bytes < MAX_HELD_BYTES else 0

    def deliver(self, leases: list[Lease], /) -> None:
        """Be answered with what was taken, unless there is room for more that is being read."""
        if self.room and self._is_lacking:
            self._collect()
        else:
            self._answer_with(self._live() if self._is_collecting else self._taken)

    @property
    def _is_lacking(self) -> bool:
        """Whether the store has more that may be for this request, or what has expired is in the way."""
        return self.group.is_expiring or (self.group if self.member is None else self.member).is_blocked

    def _collect(self) -> None:
        """Keep what was taken, and the first place in the line, until the rest has been read."""
        self.group.waiters.move_to_end(self, last=False)
        if not self._is_collecting:
            self._is_collecting = True
            self._stop_timer()
            loop = asyncio.get_running_loop()
            self._latest = loop.time() + MAX_LOADING_SECONDS
            self._timer = loop.call_later(LOOK_SECONDS, self._look, self._latest)
            self.group.when_load_ended(self._load_ended)

    def _load_ended(self) -> None:
        """Be answered if that was all; the dispatcher has handed out what was read."""
        if self._is_collecting and self.is_waiting:
            self._stop_timer()
            self._look(self._latest)
            if self._is_collecting and self.is_waiting:
                self.group.when_load_ended(self._load_ended)

    def _live(self) -> list[Held]:
        """Return what was taken and is still leased: the topic may have been deleted, or read anew, meanwhile."""
        return [held for held in self._taken if cursor_view.is_there(*held)]

    def _answer_with(self, taken: list[Held]) -> None:
        self._taken = taken
        self._leave()
        is_traced, is_acked = self.group.topic.trace is not None, self.options.is_acked
        if is_traced and is_acked:  # there is no more to be delivered then
            self._note(None)
        received = self._leasing.keep(self.group, self.options, taken)
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
        """Be answered with an error, or with what was read before it."""
        live = self._live() if self._is_collecting else []
        if live:
            self._answer_with(live)
        else:
            self._leave()
            self._fail(error)

    def give_up(self) -> None:
        """Wait no longer, and return what was collected; does nothing when it has been answered."""
        if self.is_waiting:
            taken, self._taken = self._live(), []
            self._leave(taken)
            self._answer(NOTHING_RECEIVED)

    def wait_no_longer(self) -> None:
        """Be answered with what is there; what is being read from the store is waited for."""
        if self.is_waiting:
            self._wait_until = 0.0
            if not self._is_collecting:  # else it is answered when that has been read
                self._stop_timer()
                self._look(asyncio.get_running_loop().time() + MAX_LOADING_SECONDS)

    def take_back(self) -> None:
        """Return what was handed out, as when a stream ends: the client had left before it could be told."""
        self.give_up()
        book = self.group.book
        if book is not None:
            runs = [range(lease.receipt, lease.receipt + lease.count) for _, lease in self._taken]
            held = [held for run in runs for held in book.take(run)]
            self._leasing.dispatcher.left(self.group, held)

    def _leave(self, returned: list[Held] | None = None) -> None:
        self._stop_timer()
        self.group.waiters.pop(self, None)
        self.group.consumer_count -= 1
        if self.member is not None:
            self.member.membership.leave(self.member, self.group.topic.settings.session_seconds)
        self._leasing.dispatcher.left(self.group, returned or ())

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
        """Give up, unless what is being read now may have something."""
        loop = asyncio.get_running_loop()
        is_reading = self.group.is_loading or self.group.is_expiring
        if is_reading and loop.time() < latest and (self._is_lacking or not self._is_collecting):
            self._timer = loop.call_later(LOOK_SECONDS, self._look, latest)
        elif not self._is_collecting:
            self.give_up()
        elif live := self._live():
            self._answer_with(live)
        else:  # all of it is gone, and nothing else came
            self._taken, self._taken_bytes, self.room = [], 0, self.options.max_count
            self._is_collecting = False
            self._wait()
