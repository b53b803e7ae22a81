"""Returns leased messages: to the range that was asked for, unless the settings of the topic say otherwise.

    leased ──▶ counted ──┬──────────────────────▶ FRONT, BACK, DELAYED    as requested
                         └ `policy` decides ───┬▶ DELAYED                 until the time it says
                                               └▶ dead-letter topic       after too many returns

Messages that are returned together keep their order in each range. The policy decides message by message, in their
order; messages for the front are put there afterwards, the last one first, because the front is a stack. If they are
returned in several parts, the places at the front are reserved with the first part (`FrontPlaces`).

A returned message leaves its range: one commit settles the old entry and writes a record of its own to the new range.
"""

from collections.abc import Iterable

from miniqueue.core.cursor.cursor import FRONT_START, GroupCursor
from miniqueue.core.cursor.holding import CursorLease
from miniqueue.core.cursor.lease import BACK, DELAYED, FRONT, Lease, Range
from miniqueue.core.cursor.recording import RETURNS, Kind
from miniqueue.core.message.message import Record
from miniqueue.errors import NothingOutstandingError


class FrontPlaces:
    """The places at the front for messages that are returned in several parts, in the order of the parts.

    Those of a cursor are reserved with its first part: the same commit stores that they are used.

    Args:
      max_count: maximum number of the messages.
    """

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._next: dict[GroupCursor, int] = {}  # the order of the next message, by cursor

    def put(self, cursor: GroupCursor, records: list[Record]) -> None:
        """Add the next messages of a cursor to the front."""
        order = self._next.get(cursor)
        if order is None:
            order = cursor.reserve_front(self._max_count)
        self._next[cursor] = end = order + len(records)
        start = end + cursor.serial
        for record in reversed(records):
            cursor.put(FRONT, start, record)


def nack(cursor: GroupCursor, lease: Lease, cause: str = "nacks", reason: bytes = b"") -> None:
    """Return the messages of a lease to the front; raises NothingOutstandingError if it has ended.

    Args:
      cursor: the cursor that granted the lease.
      lease: the lease.
      cause: the count that the return increments: `nacks`, `timeouts`, `disconnects`, or "" for none.
      reason: why the messages failed; they keep the last reason that was given.
    """
    for record in reversed(_withdraw(cursor, lease, cause, reason)):
        cursor.put(FRONT, FRONT_START, record)


def nack_all(
    held: Iterable[CursorLease], cause: str = "nacks", reason: bytes = b"", places: FrontPlaces | None = None
) -> int:
    """Return the messages of leases to the front, as if they were one lease; return the number of messages.

    Skips leases that have ended: their topic may have been deleted, or is being read again. `places` are those of all
    parts if this is one part of what is returned.
    """
    count = 0
    staying: list[tuple[GroupCursor, list[Record]]] = []
    for cursor, lease in held:
        try:
            staying.append((cursor, _withdraw(cursor, lease, cause, reason)))
        except NothingOutstandingError:
            continue
        count += lease.count
    if places is not None:
        for cursor, records in staying:
            places.put(cursor, records)
        return count
    for cursor, records in reversed(staying):
        for record in reversed(records):
            cursor.put(FRONT, FRONT_START, record)
    return count


def back(cursor: GroupCursor, lease: Lease) -> None:
    """Return the messages to the back, after all committed ones; raises NothingOutstandingError as `nack` does."""
    for record in _withdraw(cursor, lease, "backs"):
        cursor.put(BACK, cursor.tail_seq << 64, record)


def dack(cursor: GroupCursor, lease: Lease, due_at_ms: int, cause: str = "dacks", reason: bytes = b"") -> None:
    """Delay the messages until `due_at_ms`; raises NothingOutstandingError as `nack` does.

    When due, they are delivered before the messages of the log, in the order of their due times. A `cause` of "nacks"
    is a NACK with a delay, which takes precedence over that of the policy.
    """
    for record in _withdraw(cursor, lease, cause, reason, is_delayed=True):
        cursor.put(DELAYED, due_at_ms << 64, record)


def move(cursor: GroupCursor, lease: Lease, range_: Range, start: int, kind: Kind) -> None:
    """Move the messages of a lease to another range; that counts as no return, and the policy is not asked.

    Args:
      cursor: the cursor.
      lease: the lease.
      range_: the range: FRONT or DELAYED.
      start: the start of their orders there, see `GroupCursor.put`.
      kind: the trace event to record.

    Raises NothingOutstandingError as `nack` does.
    """
    cursor.end_lease(lease, kind)
    records = lease.records()
    for record in reversed(records) if range_ is FRONT else records:
        cursor.put(range_, start, record)


def _withdraw(
    cursor: GroupCursor, lease: Lease, cause: str, reason: bytes = b"", *, is_delayed: bool = False
) -> list[Record]:
    """End a lease and count a return of each message; return the records that the policy leaves to the caller.

    `is_delayed`: the caller delays them, and the policy does not.
    """
    cursor.end_lease(lease, RETURNS[cause], reason)
    records = lease.returned(cause, reason)
    policy = cursor.policy
    if policy is None:
        return records
    staying = []
    for record in records:
        if policy.dead_letter(cursor, record):
            cursor.count_dead_lettered(record)
        elif not is_delayed and (due_at_ms := policy.due_at_ms(record, cause)) is not None:
            cursor.put(DELAYED, due_at_ms << 64, record)
        else:
            staying.append(record)
    return staying
