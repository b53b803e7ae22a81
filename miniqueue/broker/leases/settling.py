"""What is done with messages that are settled by receipt, and with how many of them in one event-loop iteration.

    few messages, or those of few leases if they are acknowledged ─▶ at once, unless they are returned and large
    more ─▶ parts ─▶ each in a turn; other work goes first in between, and leases can expire

The numbers are measured: `tests/budget/test_turns_cost.py` settles as many messages as one command can name.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, settle_each
from miniqueue.core.cursor.returning import FrontPlaces

#: Maximum number of messages that one iteration settles, if each has a lease of its own.
MAX_ACKED: Final = 150
MAX_RETURNED: Final = 64
#: Maximum number of messages that are returned before the next look at what is uncommitted, if they may be large.
MAX_LARGE_RETURNED: Final = 4
MAX_REJECTED: Final = 64
#: Maximum number of messages that one iteration settles, if they are acknowledged and have few leases.
MAX_WITH_FEW_LEASES: Final = 1_000


class Settling(NamedTuple):
    """What is done with messages.

    Attributes:
      settle: settles a list of leases with their cursors.
      max_count: maximum number of messages in one event-loop iteration, if each has a lease of its own.
      is_returned: whether the messages can be delivered again.
      is_by_lease: whether the cost depends on the number of leases, and not on that of messages.
      has_places: whether `settle` has a second parameter, `places`: those of all parts at the front.
      deadline: if it is not 0, the leases are not settled: they end then.
    """

    settle: Callable[..., object]
    max_count: int = MAX_RETURNED
    is_returned: bool = True
    is_by_lease: bool = False
    has_places: bool = False
    deadline: float = 0.0

    def in_parts(self, count: int) -> "Settling":
        """Return what is done with each part of `count` messages, so that all of them keep their order."""
        return self._replace(settle=partial(self.settle, places=FrontPlaces(count))) if self.has_places else self


def _nothing(_: list[CursorLease]) -> None:
    """Do nothing: only the deadline of the leases changes."""


ACK: Final = Settling(partial(settle_each, GroupCursor.ack), MAX_ACKED, is_returned=False, is_by_lease=True)
#: For messages that did not reach the consumer, which has gone.
LEAVE: Final = Settling(partial(returning.nack_all, cause="disconnects"), has_places=True)
BACK: Final = Settling(partial(settle_each, returning.back))


def nack(reason: bytes) -> Settling:
    """Return what NACK does, for a `reason`, b"" for none."""
    return Settling(partial(returning.nack_all, reason=reason), has_places=True)


def delay(due_at_ms: int, cause: str = "dacks", reason: bytes = b"") -> Settling:
    """Return what DACK does, or NACK with a delay; see `returning.dack`."""
    return Settling(partial(settle_each, partial(returning.dack, due_at_ms=due_at_ms, cause=cause, reason=reason)))


def extend(deadline: float) -> Settling:
    """Return what EXTEND does."""
    return Settling(_nothing, MAX_ACKED, is_returned=False, is_by_lease=True, deadline=deadline)
