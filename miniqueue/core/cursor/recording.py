"""Trace events of a traced topic. One event describes a run of messages to which the same happened.

    kind       start_seq  count  at_ms  group    detail                        number
    PUBLISHED  17         100    …      b""      the publisher                 0
    DELIVERED  17         100    …      default  the receiver                  receipt of the first message
    REJECTED   20         1      …      default  the reason                    0
    DEAD…      20         1      …      default  "0 t.dlq", the partition and  sequence number there + 1
                                                 topic it was moved to
    SCHEDULED  3          1      …      b""      the publisher                 due time
    SOUGHT     0, the     1      …      default  a `Regrouping`                0
               partition

Delayed messages have serial numbers of their own, separate from the sequence numbers of the log. A run is published,
delivered, or settled by one act: one event, whatever the number of messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, SupportsBytes

from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.state import CursorT_contra


class Kind(IntEnum):
    """The kinds of events; the values are stored, clients see the names in lower case."""

    PUBLISHED = 1
    ARRIVED = 2  # moved here from another topic
    DUE = 3  # published with a delay, and moved to the log when due
    DELIVERED = 4
    EXTENDED = 5
    NACKED = 6
    BACKED = 7
    DACKED = 8
    TIMED_OUT = 9
    DISCONNECTED = 10
    ACKNOWLEDGED = 11
    REJECTED = 12
    EXPIRED = 13
    DROPPED = 14  # removed because the topic was full
    PURGED = 15
    MISSED = 16  # removed unread when its retention ended
    DEAD_LETTERED = 17
    REDRIVEN = 18
    COMMITTED = 19
    SCHEDULED = 20  # published with a delay, and not yet due
    CANCELLED = 21
    RELEASED = 22  # a delayed message that was moved to the log
    SOUGHT = 23  # its group was moved to another position
    GROUP_DELETED = 24
    FRONTED = 25  # moved to the front by a client that did not lease it
    RESCHEDULED = 26  # given another due time


#: The most frequent kinds, as names that are faster to look up than members.
PUBLISHED: Final = Kind.PUBLISHED
COMMITTED: Final = Kind.COMMITTED
SCHEDULED: Final = Kind.SCHEDULED
DELIVERED: Final = Kind.DELIVERED
ACKNOWLEDGED: Final = Kind.ACKNOWLEDGED
#: The first event of a message is of one of these kinds.
BEGINNINGS: Final = frozenset({Kind.PUBLISHED, Kind.ARRIVED, Kind.DUE, Kind.SCHEDULED})
#: Kinds whose `detail` and `number` name the message in another topic or in the log.
MOVES: Final = frozenset({Kind.ARRIVED, Kind.DEAD_LETTERED, Kind.REDRIVEN, Kind.RELEASED})
#: The event of a return, by the count that the return increments.
RETURNS: Final[Mapping[str, Kind | None]] = {
    "": None,  # the return is not counted
    "nacks": Kind.NACKED,
    "backs": Kind.BACKED,
    "dacks": Kind.DACKED,
    "timeouts": Kind.TIMED_OUT,
    "disconnects": Kind.DISCONNECTED,
}


class Event(NamedTuple):
    """A run of messages to which the same happened; the kind determines what `detail` and `number` mean."""

    kind: Kind
    start_seq: int
    message_count: int
    at_ms: int
    group: bytes
    detail: bytes
    number: int

    def of(self, seq: int) -> "Event":
        """Return the event of one of the messages."""
        number = self.number and self.number + seq - self.start_seq
        return self._replace(start_seq=seq, message_count=1, number=number)


#: An event before it is stored: a tuple, which costs less; `detail` is not encoded yet.
Row = tuple[int, int, int, int, bytes, SupportsBytes, int]


class Regrouping(NamedTuple):
    """A change of a whole group, which concerns a range of messages of a partition.

    The `start_seq` of its event is the number of the partition.

    Attributes:
      first_seq: the first message that the group reads again; or the chunk before which the group had settled all.
      end_seq: the end of the log at that time.
      next_seq: the new position of the group; `end_seq` if it was deleted.
      actor: the user or client that changed the group.
    """

    first_seq: int
    end_seq: int
    next_seq: int
    actor: bytes

    def __bytes__(self) -> bytes:
        """Encode it as it is stored."""
        return b"%d %d %d %b" % self

    @classmethod
    def parse(cls, encoded: bytes) -> "Regrouping":
        """Decode a stored value; raises ValueError."""
        *numbers, actor = encoded.split(b" ", 3)
        first_seq, end_seq, next_seq = map(int, numbers)
        return cls(first_seq, end_seq, next_seq, actor)


class Recorder(Protocol[CursorT_contra]):
    """Records the events of cursors of one group; `cursor` is the one with the event."""

    def note(self, cursor: CursorT_contra, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Record an event of the messages of a lease."""
        ...

    def note_each(self, cursor: CursorT_contra, kind: Kind, seqs: Iterable[int]) -> None:
        """Record an event of each of these sequence numbers."""
        ...

    def delivered(self, cursor: CursorT_contra, lease: Lease, receiver: SupportsBytes) -> None:
        """Record the receiver of a lease."""
        ...

    def moved(
        self, cursor: CursorT_contra, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes
    ) -> None:
        """Record where each message was moved: the topic, and for each (partition, sequence number)."""
        ...
