"""Tells what happened to a message: from its publish on, through the topics that it was moved to.

    trace ─▶ the block of the message, page by page ─▶ its events, in order ─▶ steps
                 └ dead letters, redrive: the same where it came from, and where it went to

What is read is one block of messages for each place the message has been at, however much is stored.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from miniqueue.broker.clock import Clock
from miniqueue.broker.delayed_reading import Shelf
from miniqueue.broker.journal import Journal
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.peeking import Peeker
from miniqueue.broker.topic import Topic
from miniqueue.core import attributes
from miniqueue.core.delayed_id import DelayedId, parse_delayed_id
from miniqueue.core.look_errors import UnknownMessageError
from miniqueue.core.message_id import format_message_id
from miniqueue.core.tracing import BEGINNINGS, COMMITTED, MOVES, PUBLISHED, SCHEDULED, Event, Kind, Regrouping
from miniqueue.storage import records, trace_keys
from miniqueue.storage.trace_keys import GROUPS, SHELF
from miniqueue.storage.trace_records import decode_trace

PAGE_ITEMS = 512
PAGE_BYTES = 1 << 20
#: Places to which a message is followed.
MAX_PLACES = 32
ARRIVED = "arrived"
#: With these a message came from another place.
ORIGINS = frozenset({ARRIVED, "due"})
UNTRACED = "nothing is known of what happened to such a message; the topic's setting trace says whether it is noted"


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


class TraceReader:
    """Reads traces.

    Args:
      topics: by name.
      journal: has the store.
      peeker: finds messages that are still there.
      clock: tells what is too old.
    """

    def __init__(self, topics: Mapping[bytes, Topic], journal: Journal, peeker: Peeker, clock: Clock) -> None:
        self._topics = topics
        self._journal = journal
        self._peeker = peeker
        self._clock = clock

    async def trace(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, sees: Callable[[bytes], bool] | None = None
    ) -> list[Step]:
        """Return what is known of a message, in order; also of what it was in other topics.

        Args:
          name: of the topic.
          message_id: the parts of its id there.
          sees: whether it is to be followed into a topic; None for into all.

        Raises:
          InvalidTopicError, UnknownTopicError, UnavailableError.
          UnknownMessageError: nothing is known.
          StorageError: it cannot be read.
        """
        self._hurry(name)
        await committed_topic(self._topics, self._journal, name)
        found = await self._follow(_place(name, message_id), sees)
        if not any(found.values()):
            raise UnknownMessageError(UNTRACED)
        return _merged(found)

    async def _follow(self, start: Place, sees: Callable[[bytes], bool] | None) -> dict[Place, list[Step]]:
        found: dict[Place, list[Step]] = {}
        left = [start]
        while left and len(found) < MAX_PLACES:
            place = left.pop()
            if place not in found:
                found[place] = await self._steps_at(place)
                others = [step.other for step in found[place] if step.other is not None]
                left += [other for other in others if sees is None or sees(other.topic)]
        return found

    async def _steps_at(self, place: Place) -> list[Step]:
        topic = self._topics.get(place.topic)
        if topic is None or topic.id is None:
            return []
        if self._hurry(place.topic):
            await self._journal.commit_settles()
        steps = [_step(place, event) async for event in self._events(topic.id, place)]
        if place.due_at_ms:
            return _never_back(_scheduled(steps)) or await self._waiting(topic, place)
        if not any(step.event in _FIRST for step in steps):
            steps = await self._origin(place) + steps
        if not any(step.event in _FIRST for step in steps):
            steps = await self._beginning(topic, place, steps) + steps
        told = _never_back(_once(_word(COMMITTED), steps))
        return _in_time(told, [step async for step in self._regroupings(topic.id, place)])

    def _hurry(self, name: bytes) -> bool:
        """Have written what was noted in a topic; return whether there is something."""
        topic = self._topics.get(name)
        return topic is not None and topic.trace is not None and topic.trace.hurry()

    async def _beginning(self, topic: Topic, place: Place, steps: list[Step]) -> list[Step]:
        """Return when a message was published, where its trace has lost that: when it was committed, by the log."""
        committed = [step for step in steps if step.event == _word(COMMITTED)]
        if committed:
            return [committed[0]._replace(event=_word(PUBLISHED))]
        partition = topic.partitions.get(place.partition)
        if topic.trace is None or topic.id is None or partition is None:
            return []
        found = await PartitionLog(self._journal.store, topic, topic.id, partition).before(place.seq)
        extent = None if found is None else records.decode_extent(*found)
        if extent is None or extent.end_seq <= place.seq or extent.committed_at_ms < self._earliest_ms(topic):
            return []
        return [Step(place, word, extent.committed_at_ms) for word in (_word(PUBLISHED), _word(COMMITTED))]

    async def _waiting(self, topic: Topic, place: Place) -> list[Step]:
        """Return when a message was published that waits, where its trace has lost that."""
        if topic.trace is None or topic.id is None:
            return []
        found = await Shelf(self._journal.store, topic.id, place.partition).get((place.due_at_ms, place.seq))
        if found is None or found.published_at_ms < self._earliest_ms(topic):
            return []
        return [Step(place, _word(SCHEDULED), found.published_at_ms)]

    async def _regroupings(self, topic_id: int, place: Place) -> AsyncIterator[Step]:
        """Yield what happened to groups as a whole, as far as a message is concerned."""
        async for event in self._events(topic_id, Place(place.topic, GROUPS, 0)):
            change = Regrouping.parse(event.who)
            if change.partition == place.partition and change.first_seq <= place.seq < change.end_seq:
                step = Step(place, _word(event.kind), event.at_ms, event.group, by=change.actor)
                is_sought = event.kind is Kind.SOUGHT
                yield step._replace(reason=format_message_id(place.partition, change.next_seq) if is_sought else b"")

    def _earliest_ms(self, topic: Topic) -> int:
        return self._clock.now_ms() - round(topic.settings.trace_seconds * 1000)

    async def _events(self, topic_id: int, place: Place) -> AsyncIterator[Event]:
        """Yield what happened to a message."""
        block = place.seq >> trace_keys.BLOCK_BITS
        start, stop = trace_keys.block_range(topic_id, place.shelf, block)
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            for _, value in pairs:
                for event in decode_trace(value).events:
                    if _is_of(place, event):
                        yield event.of(place.seq)
            start = pairs[-1][0] + b"\x00"

    async def _origin(self, place: Place) -> list[Step]:
        """Return what a dead letter itself says of where it came from, in a topic that is not traced."""
        try:
            seen = await self._peeker.find(place.topic, (place.partition, place.seq))
        except UnknownMessageError:
            return []
        origin = attributes.decode(seen.found.attributes).origin
        if origin is None:
            return []
        source = Place(origin.topic, origin.partition, origin.seq)
        return [Step(place, ARRIVED, origin.died_at_ms, reason=origin.reason, other=source)]


def _merged(found: Mapping[Place, list[Step]]) -> list[Step]:
    """Return the steps of all places in order; of those at the same time, what was elsewhere before comes first."""

    def age(place: Place) -> int:
        seen: list[Place] = []
        source: Place | None = place
        while source is not None and source not in seen:
            seen.append(source)
            source = next((step.other for step in found.get(source, ()) if step.event in ORIGINS), None)
        return len(seen)

    places = sorted(found, key=age)
    return sorted((step for place in places for step in found[place]), key=lambda step: step.at_ms)


def _place(topic: bytes, message_id: tuple[int, int] | DelayedId) -> Place:
    if isinstance(message_id, DelayedId):
        partition, due_at_ms, serial = message_id
        return Place(topic, partition, serial, due_at_ms)
    return Place(topic, *message_id)


def _is_of(place: Place, event: Event) -> bool:
    """Whether an event is of the message at a place; an id with a wrong time is that of none."""
    if not event.start_seq <= place.seq < event.start_seq + event.message_count:
        return False
    return not place.due_at_ms or event.kind is Kind.RELEASED or event.number == place.due_at_ms


def _once(word: str, steps: list[Step]) -> list[Step]:
    """Return steps without those that tell an event again."""
    first = next((step for step in steps if step.event == word), None)
    return [step for step in steps if step.event != word or step is first]


def _scheduled(steps: list[Step]) -> list[Step]:
    """Return the steps of a message that waits, or waited: that it was published is told once, however it is known."""
    word, again = _word(SCHEDULED), _word(COMMITTED)
    return _once(word, [step._replace(event=word) if step.event == again else step for step in steps])


def _in_time(steps: list[Step], others: list[Step]) -> list[Step]:
    """Return both in order, what is known of the message itself first."""
    return sorted(steps + others, key=lambda step: step.at_ms)


def _step(place: Place, event: Event) -> Step:
    """Return an event as a step, with what its `who` and `number` say."""
    step = Step(place, _word(event.kind), event.at_ms, event.group)
    if event.kind in _DONE_BY or (place.due_at_ms and event.kind is Kind.PURGED):
        return step._replace(by=event.who)
    if event.kind is Kind.DUE:
        return step._replace(other=_place(place.topic, parse_delayed_id(event.who)))
    if event.kind is Kind.DELIVERED:
        by, member, prefix = event.who.split(b"\n", 2)
        return step._replace(by=by, member=member, receipt=b"%b%d" % (prefix, event.number))
    if event.kind in MOVES:
        partition, _, topic = event.who.partition(b" ")
        return step._replace(other=Place(topic, int(partition), event.number - 1))
    return step._replace(reason=event.who)


def _never_back(steps: list[Step]) -> list[Step]:
    """Return steps, which are in order, with times that only go on, however the clock was set."""
    latest_ms = 0
    told = []
    for step in steps:
        latest_ms = max(latest_ms, step.at_ms)
        told.append(step._replace(at_ms=latest_ms))
    return told


def _word(kind: Kind) -> str:
    return kind.name.lower()


_DONE_BY = frozenset({Kind.PUBLISHED, Kind.SCHEDULED, Kind.CANCELLED})
_FIRST = frozenset(map(_word, BEGINNINGS))
