"""How messages that were handed out come back: to which range, and where the settings of the topic say otherwise.

    leased ──▶ counted ──┬──────────────────────▶ FRONT, BACK, DELAYED    as was asked
                         └ what `policy` says ─┬▶ DELAYED                 until then
                                               └▶ gone                    it is a dead letter now

What comes back together keeps its order, wherever it goes: that is decided message by message, in their order, and what
goes to the front is put there afterwards, the last one first, because the front is a stack.

A message that comes back leaves its place: a record of its own in the new one, the old one settled, in one commit. It
is one of the cursor's other hands, as `purging` is.
"""

from collections.abc import Iterable

from miniqueue.core.cursor import FRONT_START, GroupCursor
from miniqueue.core.holding import Held
from miniqueue.core.lease import BACK, DELAYED, FRONT, Lease
from miniqueue.core.message import Record
from miniqueue.core.tracing import RETURNS
from miniqueue.errors import NothingOutstandingError


def nack(cursor: GroupCursor, lease: Lease, cause: str = "nacks") -> None:
    """Return the messages to the front; `cause` is what is counted: also `timeouts`, `disconnects`, nothing.

    As those below that are about one lease, raises NothingOutstandingError when it is over.
    """
    for record in reversed(_withdraw(cursor, lease, cause)):
        cursor._put(FRONT, FRONT_START, record)


def nack_all(held: Iterable[Held], cause: str = "nacks") -> int:
    """Do the same with leases, as if they were one; return how many messages came back.

    Leases that are over are passed over: their topic may be gone, or is read anew.
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
            cursor._put(FRONT, FRONT_START, record)
    return count


def back(cursor: GroupCursor, lease: Lease) -> None:
    """Return the messages to the back, behind all that has been committed by now."""
    for record in _withdraw(cursor, lease, "backs"):
        cursor._put(BACK, cursor.tail_seq << 64, record)


def dack(cursor: GroupCursor, lease: Lease, due_at_ms: int) -> None:
    """Delay the messages until `due_at_ms`; then they come to the front, those due first before the others."""
    for record in _withdraw(cursor, lease, "dacks"):
        cursor._put(DELAYED, due_at_ms << 64, record)


def _withdraw(cursor: GroupCursor, lease: Lease, cause: str) -> list[Record]:
    """End a lease, and count a return of each message; return those that the caller is to put where was asked."""
    cursor._leave(lease, RETURNS[cause])
    records = lease.returned(cause)
    policy = cursor.policy
    if policy is None:
        return records
    staying = []
    for record in records:
        if policy.bury(record):
            _note_gone(cursor, record)
        elif (due_at_ms := policy.due_at_ms(record, cause)) is not None:
            cursor._put(DELAYED, due_at_ms << 64, record)
        else:
            staying.append(record)
    return staying


def _note_gone(cursor: GroupCursor, record: Record) -> None:
    cursor._serial += 1  # it came back, and counts as such
    cursor.dropped_count += 1
    cursor.moved_count += 1
    cursor.gone_bytes += record.content_bytes
    cursor._free(record.seq, [record.attributes])
