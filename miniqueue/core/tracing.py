"""What is noted of the messages of a traced topic: runs of messages to which the same happened.

    kind       start_seq  count  at_ms  group    who                           number
    PUBLISHED  17         100    …      b""      who published                 0
    DELIVERED  17         100    …      default  to whom                       receipt of the first
    REJECTED   20         1      …      default  the reason                    0
    DEAD…      20         1      …      default  "0 t.dlq", where it went to   its number there + 1
    SCHEDULED  3          1      …      b""      who published                 when it is due
    SOUGHT     0, the     1      …      default  what of, `Regrouping`         0
               partition

What waits for its time has numbers of its own, kept apart from those of the log.
A run is what was published, handed out or settled at once: one event, however many messages it is about.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, SupportsBytes

from miniqueue.core.lease import Lease


class Kind(IntEnum):
    """What happened; the values are stored, the names are told in lower case."""

    PUBLISHED = 1
    ARRIVED = 2  # from another topic
    DUE = 3  # published with a delay, and now in the log
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
    DROPPED = 14  # for want of room
    PURGED = 15
    MISSED = 16  # unread, and retained no longer
    DEAD_LETTERED = 17
    REDRIVEN = 18
    COMMITTED = 19
    SCHEDULED = 20  # published with a delay, and waiting
    CANCELLED = 21
    RELEASED = 22  # it waits no longer, and is in the log
    SOUGHT = 23  # its group was moved
    GROUP_DELETED = 24


#: Those that are noted most.
PUBLISHED: Final = Kind.PUBLISHED
COMMITTED: Final = Kind.COMMITTED
SCHEDULED: Final = Kind.SCHEDULED
DELIVERED: Final = Kind.DELIVERED
ACKNOWLEDGED: Final = Kind.ACKNOWLEDGED
#: With these a message begins.
BEGINNINGS: Final = frozenset({Kind.PUBLISHED, Kind.ARRIVED, Kind.DUE, Kind.SCHEDULED})
#: Where `who` and `number` name another place of the message.
MOVES: Final = frozenset({Kind.ARRIVED, Kind.DEAD_LETTERED, Kind.REDRIVEN, Kind.RELEASED})
#: What a return is, by what it counts as.
RETURNS: Final[Mapping[str, Kind | None]] = {
    "": None,  # it counts as none
    "nacks": Kind.NACKED,
    "backs": Kind.BACKED,
    "dacks": Kind.DACKED,
    "timeouts": Kind.TIMED_OUT,
    "disconnects": Kind.DISCONNECTED,
}


class Event(NamedTuple):
    """A run of messages to which the same happened; what `who` and `number` are goes with the kind."""

    kind: Kind
    start_seq: int
    message_count: int
    at_ms: int
    group: bytes
    who: bytes
    number: int

    def of(self, seq: int) -> "Event":
        """Return what happened to one of the messages."""
        number = self.number and self.number + seq - self.start_seq
        return self._replace(start_seq=seq, message_count=1, number=number)


#: The same before it is stored, as a tuple, which takes less; `who` is not spelled yet.
Row = tuple[int, int, int, int, bytes, SupportsBytes, int]


class Regrouping(NamedTuple):
    """What happened to a group as a whole: to all messages of a partition from one to before another.

    Its event has the number of the partition in place of that of a message.

    Attributes:
      first_seq: the first message that the group gets again; or of the chunk up to which it had done with all.
      end_seq: the end of the log then.
      next_seq: where the group goes on; of one that was deleted, `end_seq`.
      actor: who did it.
    """

    first_seq: int
    end_seq: int
    next_seq: int
    actor: bytes

    def __bytes__(self) -> bytes:
        """Spell it, as it is stored."""
        return b"%d %d %d %b" % self

    @classmethod
    def parse(cls, spelled: bytes) -> "Regrouping":
        """Parse `bytes`; raises ValueError."""
        *numbers, actor = spelled.split(b" ", 3)
        first_seq, end_seq, next_seq = map(int, numbers)
        return cls(first_seq, end_seq, next_seq, actor)


class Recorder(Protocol):
    """Hears what a group does with the messages of a partition."""

    def note(self, kind: Kind, lease: Lease, reason: bytes = b"") -> None:
        """Note what happened to the messages of a lease."""
        ...

    def note_each(self, kind: Kind, seqs: Iterable[int]) -> None:
        """Note the same of messages by their sequence numbers."""
        ...

    def delivered(self, lease: Lease, receiver: SupportsBytes) -> None:
        """Note to whom they were handed out."""
        ...

    def moved(self, kind: Kind, seqs: Iterable[int], to: Sequence[tuple[int, int]], topic: bytes) -> None:
        """Note to which partition of a topic each message has gone, and its number there."""
        ...
