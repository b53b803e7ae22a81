"""How messages that were handed out come back: to which range, and where the settings of the topic say otherwise.

     leased ──▶ counted ──▶ FRONT, BACK, DELAYED    as was asked
                   ├──────▶ DELAYED                 a `policy` says until when
                   └──────▶ gone                    a `policy` has made a dead letter of it

A message that comes back leaves its place: a record of its own in the new one, the old one settled, in one commit. It
is one of the cursor's other hands, as `purging` is. All of these raise NothingOutstandingError when the lease is over.
"""

from miniqueue.core.cursor import FRONT_START, GroupCursor
from miniqueue.core.lease import BACK, DELAYED, FRONT, Lease, Range
from miniqueue.core.message import Record
from miniqueue.core.tracing import RETURNS, Kind


def nack(cursor: GroupCursor, lease: Lease, cause: str = "nacks") -> None:
    """Return the messages to the front; `cause` is what is counted: also `timeouts`, `disconnects`, nothing."""
    cursor._leave(lease, RETURNS[cause])
    for record in reversed(lease.records()):
        _put(cursor, FRONT, FRONT_START, record, cause)


def back(cursor: GroupCursor, lease: Lease) -> None:
    """Return the messages to the back, behind all that has been committed by now."""
    cursor._leave(lease, Kind.BACKED)
    for record in lease.records():
        _put(cursor, BACK, cursor.tail_seq << 64, record, "backs")


def dack(cursor: GroupCursor, lease: Lease, due_at_ms: int) -> None:
    """Delay the messages until `due_at_ms`; then they come to the front, those due first before the others."""
    cursor._leave(lease, Kind.DACKED)
    for record in lease.records():
        _put(cursor, DELAYED, due_at_ms << 64, record, "dacks")


def _put(cursor: GroupCursor, place: Range, start: int, record: Record, cause: str) -> None:
    seq, published_at_ms, counts, payload, attributes = record
    record = Record(seq, published_at_ms, counts.plus(cause), payload, attributes)
    if cursor.policy is not None:
        if cursor.policy.bury(record):
            cursor.dropped_count += 1
            cursor.moved_count += 1
            cursor.gone_bytes += record.content_bytes
            cursor._free(seq, [attributes])
            return
        if (due_at_ms := cursor.policy.due_at_ms(record, cause)) is not None:
            place, start = DELAYED, due_at_ms << 64
    cursor._put(place, start, record)
