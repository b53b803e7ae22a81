"""A consumer that is of a member: it has to settle what it holds, or others read its partitions.

    holds nothing ─ hold ─▶ the clock runs ─ settle ─▶ it begins anew ─ … ─ nothing is held any more ─▶ it stands still
                                 └ the session is over ─▶ closed: messages return as timeouts, partitions move

A process that is stopped keeps its TCP connection open, so the end of the connection cannot be waited for. What was
delivered counts as held, whether the client has read it or not. An idle member holds nothing and stays for ever.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from miniqueue.broker.consumer import Consumer
from miniqueue.broker.group import Group
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held
from miniqueue.core.lease import Lease
from miniqueue.core.members import SessionOverError
from miniqueue.errors import MiniqueueError

if TYPE_CHECKING:
    from miniqueue.broker.dispatcher import Dispatcher
    from miniqueue.broker.membership import Member


class MemberConsumer(Consumer):
    """A consumer whose session ends when it holds messages and settles none for `session_seconds`."""

    __slots__ = ("_clock", "_heard_at", "_member", "_session_seconds")

    def __init__(
        self,
        dispatcher: "Dispatcher",
        group: Group,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
        prefetch: int,
        member: "Member",
        *,
        session_seconds: float,
    ) -> None:
        super().__init__(dispatcher, group, deliver, fail, prefetch, member)
        self._clock = dispatcher.clock
        self._member = member
        self._session_seconds = session_seconds
        self._heard_at = 0.0
        member.membership.streams[self] = None

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; the session begins with the first one."""
        if not self._holding.count:
            self._heard_at = self._clock.monotonic()
        super().hold(cursor, lease)

    def _settle(
        self,
        act: Callable[[GroupCursor, Lease], None],
        receipts: Sequence[int] | None,
        act_on_all: Callable[[Sequence[Held]], int] | None = None,
        *,
        is_returned: bool = True,
    ) -> None:
        self._heard_at = self._clock.monotonic()
        super()._settle(act, receipts, act_on_all, is_returned=is_returned)

    def close(self, cause: str = "disconnects") -> None:
        """Stop waiting, and return what is held."""
        self._member.membership.streams.pop(self, None)
        super().close(cause)

    def is_late(self, now: float) -> bool:
        """Tell whether the session is over."""
        return self.is_holding and now >= self._heard_at + self._session_seconds

    def end_session(self) -> None:
        """Return what is held, counted as timeouts, and tell the client why."""
        self.close("timeouts")
        self.fail(SessionOverError(self._member.name, self._session_seconds))
