"""What happened to a message, as steps: events with what their fields say, in order, and not too many.

Pure: it knows neither the store nor the broker.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from miniqueue.core.delayed_id import DelayedId, parse_delayed_id
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import format_message_id
from miniqueue.core.tracing import BEGINNINGS, MOVES, Event, Kind, Regrouping
from miniqueue.errors import CorruptionError
from miniqueue.storage.trace_keys import SHELF

#: That are told of one message; what is left out is behind the first ones.
MAX_STEPS = 2_000
FIRST_STEPS = 200
LEFT_OUT = "left_out"


def word(kind: Kind) -> str:
    """Return how a kind is told."""
    return kind.name.lower()


ARRIVED, PUBLISHED, COMMITTED, SCHEDULED = map(word, (Kind.ARRIVED, Kind.PUBLISHED, Kind.COMMITTED, Kind.SCHEDULED))
#: With these a message came from another place.
ORIGINS = frozenset({ARRIVED, word(Kind.DUE)})
#: With these one begins.
FIRST = frozenset(map(word, BEGINNINGS))
_DONE_BY = frozenset({Kind.PUBLISHED, Kind.SCHEDULED, Kind.CANCELLED})


class Place(NamedTuple):
    """Where a message is, or was."""

    topic: bytes
    partition: int
    seq: int
    due_at_ms: int = 0  # of one that waits for its time, whose serial is `seq`

    @property
    def message_id(self) -> bytes:
        """Its id there."""
        if self.due_at_ms:
            return bytes(DelayedId(self.partition, self.due_at_ms, self.seq))
        return format_message_id(self.partition, self.seq)

    @property
    def shelf(self) -> int:
        """In place of the number of its partition, as traces are stored."""
        return SHELF | self.partition if self.due_at_ms else self.partition


class Step(NamedTuple):
    """Something that happened to a message; what does not apply is empty.

    Attributes:
      place: where the message was.
      event: the name of its kind, in lower case.
      at_ms: when, since 1970.
      group: whose doing it was.
      by: who published it, or to whom it was delivered, or who did it.
      member: the name that consumer has in its group.
      receipt: of the delivery.
      reason: of a rejection; or the id with which a group goes on.
      other: where it came from, or went to.
    """

    place: Place
    event: str
    at_ms: int
    group: bytes = b""
    by: bytes = b""
    member: bytes = b""
    receipt: bytes = b""
    reason: bytes = b""
    other: Place | None = None


def place_of(topic: bytes, message_id: tuple[int, int] | DelayedId) -> Place:
    """Return the place of an id, by its parts."""
    if isinstance(message_id, DelayedId):
        partition, due_at_ms, serial = message_id
        return Place(topic, partition, serial, due_at_ms)
    return Place(topic, *message_id)


def step_of(place: Place, event: Event) -> Step:
    """Return an event as a step, with what its `who` and `number` say; raises CorruptionError when that is nothing."""
    step = Step(place, word(event.kind), event.at_ms, event.group)
    try:
        return _described(step, event)
    except (ValueError, InvalidOptionError) as exc:
        raise CorruptionError(f"trace: the checksum is right, but {step.event} makes no sense") from exc


def _described(step: Step, event: Event) -> Step:
    if event.kind in _DONE_BY or (step.place.due_at_ms and event.kind is Kind.PURGED):
        return step._replace(by=event.who)
    if event.kind is Kind.DUE:
        return step._replace(other=place_of(step.place.topic, parse_delayed_id(event.who)))
    if event.kind is Kind.DELIVERED:
        by, member, *prefix = event.who.split(b"\n", 2)
        receipt = b"%b%d" % (prefix[0], event.number) if prefix else b""
        return step._replace(by=by, member=member, receipt=receipt)
    if event.kind in MOVES:
        partition, _, topic = event.who.partition(b" ")
        return step._replace(other=Place(topic, int(partition), event.number - 1))
    return step._replace(reason=event.who)


def regrouping_of(place: Place, event: Event) -> Step | None:
    """Return what was done to a group as a step of a message, if it concerns it; raises CorruptionError."""
    try:
        change = Regrouping.parse(event.who)
    except ValueError as exc:
        raise CorruptionError("trace: the checksum is right, but what was done to a group makes no sense") from exc
    if not change.first_seq <= place.seq < change.end_seq:
        return None
    next_id = format_message_id(place.partition, change.next_seq) if event.kind is Kind.SOUGHT else b""
    return Step(place, word(event.kind), event.at_ms, event.group, by=change.actor, reason=next_id)


def once(event: str, steps: Sequence[Step]) -> list[Step]:
    """Return steps without those that tell an event again."""
    first = next((step for step in steps if step.event == event), None)
    return [step for step in steps if step.event != event or step is first]


def scheduled(steps: Sequence[Step]) -> list[Step]:
    """Return the steps of a message that waits, or waited: that it was published is told once, however it is known."""
    return once(SCHEDULED, [step._replace(event=SCHEDULED) if step.event == COMMITTED else step for step in steps])


def never_back(steps: Sequence[Step]) -> list[Step]:
    """Return steps, which are in order, with times that only go on, however the clock was set."""
    latest_ms = 0
    told = []
    for step in steps:
        latest_ms = max(latest_ms, step.at_ms)
        told.append(step._replace(at_ms=latest_ms))
    return told


def in_time(steps: list[Step], others: list[Step]) -> list[Step]:
    """Return both in order, what is known of the message itself first."""
    return sorted(steps + others, key=lambda step: step.at_ms)


def merged(found: Mapping[Place, list[Step]]) -> list[Step]:
    """Return the steps of all places in order; of those at the same time, what was elsewhere before comes first.

    A message arrives no earlier than it left, although a millisecond may begin while both are noted.
    """
    sources = {place: _source(steps) for place, steps in found.items()}

    def age(place: Place) -> int:
        seen: list[Place] = []
        source: Place | None = place
        while source is not None and source not in seen:
            seen.append(source)
            source = sources.get(source)
        return len(seen)

    ordered: list[Step] = []  # with times that the places in front allow
    left_at_ms: dict[Place, int] = {}  # for each place
    for place in sorted(found, key=age):
        for step in found[place]:
            at_ms = max(step.at_ms, left_at_ms.get(place, 0))
            ordered.append(step._replace(at_ms=at_ms))
            if step.other is not None and step.event not in ORIGINS:
                left_at_ms[step.other] = at_ms
    return sorted(ordered, key=lambda step: step.at_ms)


def _source(steps: list[Step]) -> Place | None:
    return next((step.other for step in steps if step.event in ORIGINS), None)


class Collected:
    """Steps in order, at most `MAX_STEPS`: the first and the last, and between them how many were left out."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._first: list[Step] = []
        self._last: deque[Step] = deque(maxlen=MAX_STEPS - FIRST_STEPS)
        self._left_out_count = 0
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Add the next one."""
        if len(self._first) < FIRST_STEPS:
            self._first.append(step)
            return
        if len(self._last) == self._last.maxlen:
            gone = self._last[0]
            self._left_out_count += int(gone.reason) if gone.event == LEFT_OUT else 1
        self._last.append(step)

    def steps(self) -> list[Step]:
        """Return them."""
        if not self._left_out_count:
            return [*self._first, *self._last]
        gap = Step(self._last[0].place, LEFT_OUT, self._last[0].at_ms, reason=b"%d" % self._left_out_count)
        return [*self._first, gap, *self._last]
