"""Returns leased messages: to the range that was asked for, unless the settings of the topic say otherwise.

    leased ──▶ counted ──┬──────────────────────▶ FRONT, BACK, DELAYED    as requested
                         └ `policy` decides ───┬▶ DELAYED                 until the time it says
                                               └▶ dead-letter topic       after too many returns

Messages that are returned together keep their order in each range. The policy decides message by message, in their
order; messages for the front are put there afterwards, the last one first, because the front is a stack.

A returned message leaves its range: one commit settles the old entry and writes a record of its own to the new range.
"""

from collections.abc import Iterable

from miniqueue.core.cursor.cursor import FRONT_START, GroupCursor
from miniqueue.core.cursor.holding import CursorLease
from miniqueue.core.cursor.lease import BACK, DELAYED, FRONT, Lease
from miniqueue.core.cursor.recording import RETURNS
from miniqueue.core.message.message import Record
from miniqueue.errors import NothingOutstandingError


def nack(cursor: GroupCursor, lease: Lease, cause: str = "nacks") -> None:
    """Return the messages of a lease to the front; raises NothingOutstandingError if it has ended.

    `cause` is the count that the return increments: `nacks`, `timeouts`, `disconnects`, or "" for none.
    """
    for record in reversed(_withdraw(cursor, lease, cause)):
        cursor.put(FRONT, FRONT_START, record)


def nack_all(held: Iterable[CursorLease], cause: str = "nacks") -> int:
    """Return the messages of leases to the front, as if they were one lease; return the number of messages.

    Skips leases that have ended: their topic may have been deleted, or is being read again.
    """
    count = 0
    staying: list[tuple[GroupCursor, list[Record]]] = []
    for cursor, lease in held:
        try:
            staying.append((cursor, _withdraw(cursor, lease, cause)))
        except NothingOutstandingError:
            continue
        count += lease.count
    for cursor, records in reversed(staying):
        for record in reversed(records):
            cursor.put(FRONT, FRONT_START, record)
    return count


def back(cursor: GroupCursor, lease: Lease) -> None:
    """Return the messages to the back, after all committed ones; raises NothingOutstandingError as `nack` does."""
    for record in _withdraw(cursor, lease, "backs"):
        cursor.put(BACK, cursor.tail_seq << 64, record)


def dack(cursor: GroupCursor, lease: Lease, due_at_ms: int) -> None:
    """Delay the messages until `due_at_ms`; raises NothingOutstandingError as `nack` does.

    When due, they are delivered before the messages of the log, in the order of their due times.
    """
    for record in _withdraw(cursor, lease, "dacks"):
        cursor.put(DELAYED, due_at_ms << 64, record)


def _withdraw(cursor: GroupCursor, lease: Lease, cause: str) -> list[Record]:
    """End a lease and count a return of each message; return the records that the policy leaves to the caller."""
    cursor.end_lease(lease, RETURNS[cause])
    records = lease.returned(cause)
    policy = cursor.policy
    if policy is None:
        return records
    staying = []
    for record in records:
        if policy.dead_letter(record):
            cursor.count_dead_lettered(record)
        elif (due_at_ms := policy.due_at_ms(record, cause)) is not None:
            cursor.put(DELAYED, due_at_ms << 64, record)
        else:
            staying.append(record)
    return staying
