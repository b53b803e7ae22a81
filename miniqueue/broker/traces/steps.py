"""Converts events to steps: an event with named fields, in order, and at most `MAX_STEPS` per message.

The functions are pure; they know neither the store nor the broker.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from miniqueue.core.cursor.recording import BEGINNINGS, MOVES, Event, Kind, Regrouping
from miniqueue.core.message.ids import DelayedId, format_message_id, parse_delayed_id
from miniqueue.errors import CorruptionError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.storage.format.trace_keys import SHELF

#: Maximum number of steps that a trace returns; it bounds the reply, and leaves out steps after the first ones.
MAX_STEPS = 2_000
#: Steps at the beginning that are always kept.
FIRST_STEPS = 200
LEFT_OUT = "left_out"


def word(kind: Kind) -> str:
    """Return the name of a kind that clients see."""
    return kind.name.lower()


ARRIVED, PUBLISHED, COMMITTED, SCHEDULED = map(word, (Kind.ARRIVED, Kind.PUBLISHED, Kind.COMMITTED, Kind.SCHEDULED))
#: The events with which a message arrives from another position.
ORIGINS = frozenset({ARRIVED, word(Kind.DUE)})
#: The first event of a message is one of these.
FIRST = frozenset(map(word, BEGINNINGS))
#: Kinds whose `detail` is the client that acted.
_DONE_BY = frozenset({Kind.PUBLISHED, Kind.SCHEDULED, Kind.CANCELLED, Kind.RESCHEDULED})


class TracePosition(NamedTuple):
    """Where a message is, or was; a delayed message has a `due_at_ms`, and its `seq` is its serial number.

    If `seq` is -1, the message went to a topic of another shard, which gave it a number later.
    """

    topic: bytes
    partition: int
    seq: int
    due_at_ms: int = 0

    @property
    def message_id(self) -> bytes:
        """The id of the message in this topic; empty if it is not known."""
        if self.seq < 0:
            return b""
        if self.due_at_ms:
            return bytes(DelayedId(self.partition, self.due_at_ms, self.seq))
        return format_message_id(self.partition, self.seq)

    @property
    def shelf(self) -> int:
        """The number under which its trace is stored: its partition, marked by `SHELF` if the message is delayed."""
        return SHELF | self.partition if self.due_at_ms else self.partition


class Step(NamedTuple):
    """An event of a message; fields that do not apply are empty.

    Attributes:
      position: where the message was.
      event: the name of its kind, in lower case.
      at_ms: the time, in milliseconds since 1970.
      group: the group that caused it.
      by: the client that published or received the message, or that acted.
      member: the name of that consumer in its group.
      receipt: the receipt of the delivery.
      reason: the reason for a rejection; or the id at which a group continues.
      other: the position it came from, or went to.
    """

    position: TracePosition
    event: str
    at_ms: int
    group: bytes = b""
    by: bytes = b""
    member: bytes = b""
    receipt: bytes = b""
    reason: bytes = b""
    other: TracePosition | None = None


def place_of(topic: bytes, message_id: tuple[int, int] | DelayedId) -> TracePosition:
    """Return the position of a message by the parts of its id."""
    if isinstance(message_id, DelayedId):
        partition, due_at_ms, serial = message_id
        return TracePosition(topic, partition, serial, due_at_ms)
    return TracePosition(topic, *message_id)


def step_of(position: TracePosition, event: Event) -> Step:
    """Return an event as a step, with its `detail` and `number` decoded; raises CorruptionError if they are invalid."""
    step = Step(position, word(event.kind), event.at_ms, event.group)
    try:
        return _described(step, event)
    except (ValueError, InvalidOptionError) as exc:
        raise CorruptionError(f"trace: the checksum is right, but {step.event} makes no sense") from exc


def _described(step: Step, event: Event) -> Step:
    if event.kind in _DONE_BY or (step.position.due_at_ms and event.kind is Kind.PURGED):
        return step._replace(by=event.detail)
    if event.kind is Kind.DUE:
        return step._replace(other=place_of(step.position.topic, parse_delayed_id(event.detail)))
    if event.kind is Kind.DELIVERED:
        by, member, *prefix = event.detail.split(b"\n", 2)
        receipt = b"%b%d" % (prefix[0], event.number) if prefix else b""
        return step._replace(by=by, member=member, receipt=receipt)
    if event.kind in MOVES:
        partition, _, topic = event.detail.partition(b" ")
        return step._replace(other=TracePosition(topic, int(partition), event.number - 1))
    return step._replace(reason=event.detail)


def regrouping_of(position: TracePosition, event: Event) -> Step | None:
    """Return the change of a group as a step of a message, None if it does not concern it; raises CorruptionError."""
    try:
        change = Regrouping.parse(event.detail)
    except ValueError as exc:
        raise CorruptionError("trace: the checksum is right, but what was done to a group makes no sense") from exc
    if not change.first_seq <= position.seq < change.end_seq:
        return None
    next_id = format_message_id(position.partition, change.next_seq) if event.kind is Kind.SOUGHT else b""
    return Step(position, word(event.kind), event.at_ms, event.group, by=change.actor, reason=next_id)


def once(event: str, steps: Sequence[Step]) -> list[Step]:
    """Return the steps without repetitions of an event."""
    first = next((step for step in steps if step.event == event), None)
    return [step for step in steps if step.event != event or step is first]


def scheduled(steps: Sequence[Step]) -> list[Step]:
    """Return the steps of a delayed message: it was scheduled once, whether recorded as scheduled or as committed."""
    return once(SCHEDULED, [step._replace(event=SCHEDULED) if step.event == COMMITTED else step for step in steps])


def never_back(steps: Sequence[Step]) -> list[Step]:
    """Return ordered steps with times that never decrease, even if the clock was set back."""
    latest_ms = 0
    adjusted = []
    for step in steps:
        latest_ms = max(latest_ms, step.at_ms)
        adjusted.append(step._replace(at_ms=latest_ms))
    return adjusted


def in_time(steps: list[Step], others: list[Step]) -> list[Step]:
    """Return both lists, by time; of steps at the same time, those of the message itself come first."""
    return sorted(steps + others, key=lambda step: step.at_ms)


def merged(steps_by_position: Mapping[TracePosition, list[Step]]) -> list[Step]:
    """Return the steps at all positions by time; of steps at the same time, the earlier position comes first.

    A message never arrives before it left, although the clock may advance by a millisecond between the two records.
    """
    sources = {position: _source(steps) for position, steps in steps_by_position.items()}

    def age(position: TracePosition) -> int:
        seen: list[TracePosition] = []
        source: TracePosition | None = position
        while source is not None and source not in seen:
            seen.append(source)
            source = sources.get(source)
        return len(seen)

    ordered: list[Step] = []  # no step is earlier than the message left the position before
    left_at_ms: dict[TracePosition, int] = {}  # when the message left for a position
    for position in sorted(steps_by_position, key=age):
        for step in steps_by_position[position]:
            at_ms = max(step.at_ms, left_at_ms.get(position, 0))
            ordered.append(step._replace(at_ms=at_ms))
            if step.other is not None and step.event not in ORIGINS:
                left_at_ms[step.other] = at_ms
    return sorted(ordered, key=lambda step: step.at_ms)


def _source(steps: list[Step]) -> TracePosition | None:
    return next((step.other for step in steps if step.event in ORIGINS), None)


class Collected:
    """Collects at most `MAX_STEPS` steps: the first, the last, and between them a step with the number left out."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._first: list[Step] = []
        self._last: deque[Step] = deque(maxlen=MAX_STEPS - FIRST_STEPS)
        self._left_out_count = 0
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Add the next step."""
        if len(self._first) < FIRST_STEPS:
            self._first.append(step)
            return
        if len(self._last) == self._last.maxlen:
            dropped = self._last[0]
            self._left_out_count += int(dropped.reason) if dropped.event == LEFT_OUT else 1
        self._last.append(step)

    def steps(self) -> list[Step]:
        """Return the collected steps."""
        if not self._left_out_count:
            return [*self._first, *self._last]
        gap = Step(self._last[0].position, LEFT_OUT, self._last[0].at_ms, reason=b"%d" % self._left_out_count)
        return [*self._first, gap, *self._last]
