"""Tells what happened to a message: from its publish on, through the topics that it was moved to.

    trace ─▶ the block of the message, page by page ─▶ its events, in order ─▶ steps
                 └ dead letters, redrive: the same where it came from, and where it went to

What is read is one block of messages for each place the message has been at, however much is stored.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from miniqueue.broker.clock import Clock
from miniqueue.broker.journal import Journal
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.peeking import Peeker
from miniqueue.broker.topic import Topic
from miniqueue.core import attributes
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.look_errors import UnknownMessageError
from miniqueue.core.message_id import format_message_id
from miniqueue.core.tracing import BEGINNINGS, COMMITTED, MOVES, PUBLISHED, Event, Kind
from miniqueue.storage import records, trace_keys
from miniqueue.storage.trace_records import decode_trace

PAGE_ITEMS = 512
PAGE_BYTES = 1 << 20
#: Places to which a message is followed.
MAX_PLACES = 32
ARRIVED = "arrived"
UNTRACED = "nothing is known of what happened to such a message; the topic's setting trace says whether it is noted"


class Place(NamedTuple):
    """Where a message is, or was."""

    topic: bytes
    partition: int
    seq: int

    @property
    def message_id(self) -> bytes:
        """Its id there."""
        return format_message_id(self.partition, self.seq)


class Step(NamedTuple):
    """Something that happened to a message; what does not apply is empty.

    Attributes:
      place: where the message was.
      event: the name of its kind, in lower case.
      at_ms: when, since 1970.
      group: whose doing it was.
      by: who published it, or to whom it was delivered.
      member: the name that consumer has in its group.
      receipt: of the delivery.
      reason: of a rejection; or the id that a message had before it was due.
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
        if isinstance(message_id, DelayedId):
            raise UnknownMessageError("a message is traced by the id that it gets when it is due")
        found = await self._follow(Place(name, *message_id), sees)
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
        if not any(step.event in _FIRST for step in steps):
            steps = await self._origin(place) + steps
        if not any(step.event in _FIRST for step in steps):
            steps = await self._beginning(topic, place, steps) + steps
        return _never_back(_committed_once(steps))

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

    def _earliest_ms(self, topic: Topic) -> int:
        return self._clock.now_ms() - round(topic.settings.trace_seconds * 1000)

    async def _events(self, topic_id: int, place: Place) -> AsyncIterator[Event]:
        """Yield what happened to a message."""
        block = place.seq >> trace_keys.BLOCK_BITS
        start, stop = trace_keys.block_range(topic_id, place.partition, block)
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            for _, value in pairs:
                for event in decode_trace(value).events:
                    if event.start_seq <= place.seq < event.start_seq + event.message_count:
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
            source = next((step.other for step in found.get(source, ()) if step.event == ARRIVED), None)
        return len(seen)

    places = sorted(found, key=age)
    return sorted((step for place in places for step in found[place]), key=lambda step: step.at_ms)


def _committed_once(steps: list[Step]) -> list[Step]:
    """Return steps without those that tell again when a message was committed."""
    commits = [step for step in steps if step.event == _word(COMMITTED)]
    return [step for step in steps if step.event != _word(COMMITTED) or step is commits[0]]


def _step(place: Place, event: Event) -> Step:
    """Return an event as a step, with what its `who` and `number` say."""
    step = Step(place, _word(event.kind), event.at_ms, event.group)
    if event.kind is Kind.PUBLISHED:
        return step._replace(by=event.who)
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


_FIRST = frozenset(map(_word, BEGINNINGS))
