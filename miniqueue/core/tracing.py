"""What is noted of the messages of a traced topic: runs of messages to which the same happened.

    kind       start_seq  count  at_ms  group    who                           number
    PUBLISHED  17         100    …      b""      who published                 0
    DELIVERED  17         100    …      default  to whom                       receipt of the first
    REJECTED   20         1      …      default  the reason                    0
    DEAD…      20         1      …      default  "0 t.dlq", where it went to   its number there + 1

What happens between two commits to neighbours is one run, with the time of its first message. So which of two things
happened first to one message, runs alone do not say: `in_order` knows which must have.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import chain, zip_longest
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


#: The one that is noted most.
ACKNOWLEDGED: Final = Kind.ACKNOWLEDGED
#: With these a message begins.
BEGINNINGS: Final = frozenset({Kind.PUBLISHED, Kind.ARRIVED, Kind.DUE})
#: Where `who` and `number` name another place of the message.
MOVES: Final = frozenset({Kind.ARRIVED, Kind.DEAD_LETTERED, Kind.REDRIVEN})
#: What a return is, by what it counts as.
RETURNS: Final = {
    "nacks": Kind.NACKED,
    "backs": Kind.BACKED,
    "dacks": Kind.DACKED,
    "timeouts": Kind.TIMED_OUT,
    "disconnects": Kind.DISCONNECTED,
}
#: With these it is nobody's any more.
_SETTLES: Final = frozenset({*RETURNS.values(), Kind.ACKNOWLEDGED, Kind.REJECTED})
_TURNS: Final = frozenset({Kind.DELIVERED, Kind.EXTENDED, *_SETTLES})


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


#: The same before it is stored, when `who` need not be spelled yet.
Row = tuple[int, int, int, int, bytes, SupportsBytes, int]


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


class Gathered:
    """The events of one partition since the last commit, column by column: that is how they are stored."""

    __slots__ = ("_last", "at_ms", "counts", "groups", "kinds", "numbers", "starts", "whos")

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.starts: list[int] = []
        self.counts: list[int] = []
        self.at_ms: list[int] = []
        self.groups: list[bytes] = []
        self.whos: list[SupportsBytes] = []
        self.numbers: list[int] = []
        self._last: dict[tuple[int, bytes, SupportsBytes], int] = {}  # the last run of each

    def add(
        self, kind: Kind, start_seq: int, count: int, at_ms: int, group: bytes, who: SupportsBytes, *, number: int = 0
    ) -> None:
        """Add what happened to a run of messages; `who` must be the same object, or equal, for the same."""
        key = (kind, group, who)
        row = self._last.get(key)
        if row is not None:
            row_count = self.counts[row]
            if self.starts[row] + row_count == start_seq and (not number or self.numbers[row] + row_count == number):
                self.counts[row] = row_count + count
                return
        self._last[key] = len(self.kinds)
        self.append((kind, start_seq, count, at_ms, group, who, number))

    def append(self, row: Row) -> None:
        """Add a run of its own."""
        kind, start_seq, count, at_ms, group, who, number = row
        self.kinds.append(kind)
        self.starts.append(start_seq)
        self.counts.append(count)
        self.at_ms.append(at_ms)
        self.groups.append(group)
        self.whos.append(who)
        self.numbers.append(number)

    def columns(self) -> tuple[list[int], list[int], list[int], list[int], list[bytes], list[SupportsBytes], list[int]]:
        """Return them in the order of the members of `Event`."""
        return self.kinds, self.starts, self.counts, self.at_ms, self.groups, self.whos, self.numbers


def in_order(commits: Iterable[list[Event]]) -> list[list[Event]]:
    """Return what happened to one message, commit by commit, each in the order in which it must have been.

    Each group is a matter of its own: who has the message settles it before it is handed out again.
    """
    holding: set[bytes] = set()  # groups in which somebody has it
    return [_untangled(events, holding) for events in commits]


def _untangled(events: list[Event], holding: set[bytes]) -> list[Event]:
    groups: dict[bytes, list[Event]] = {}
    for event in events:
        if event.kind not in BEGINNINGS:
            groups.setdefault(event.group, []).append(event)
    ordered = [event for event in events if event.kind in BEGINNINGS]
    for group, of_group in groups.items():
        turns = _by_turns(of_group, is_held=group in holding)
        ordered += turns
        if any(event.kind in _TURNS for event in turns):
            last = [event for event in turns if event.kind in _TURNS][-1]
            (holding.discard if last.kind in _SETTLES else holding.add)(group)
    return ordered


def _is_last(event: Event) -> bool:
    return event.kind in (Kind.ACKNOWLEDGED, Kind.REJECTED)


def _by_turns(events: list[Event], *, is_held: bool) -> list[Event]:
    """Put deliveries and settles by turns; a lease is put off while there is one, and what ends all comes last."""
    deliveries = [event for event in events if event.kind is Kind.DELIVERED]
    settles = sorted((event for event in events if event.kind in _SETTLES), key=_is_last)
    if len(settles) == len(deliveries) and settles and _is_last(settles[-1]):
        is_held = False  # no more: its lease has ended with the broker
    extensions = [event for event in events if event.kind is Kind.EXTENDED]
    turns = zip_longest(settles, deliveries) if is_held else zip_longest(deliveries, settles)
    ordered = [event for event in chain.from_iterable(turns) if event is not None]
    at = 0 if is_held or not deliveries else 1
    ordered[at:at] = extensions
    return ordered + [event for event in events if event.kind not in _TURNS]
