"""Tells what happened to a message: from its publish on, through the topics that it was moved to.

    trace ─▶ the block of the message, page by page ─▶ its events, in order ─▶ steps
                 └ dead letters, redrive: the same where it came from, and where it went to

What is read is one block of messages for each place the message has been at, however much is stored.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from miniqueue.broker.clock import Clock
from miniqueue.broker.delayed_reading import Shelf
from miniqueue.broker.journal import Journal
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.peeking import Peeker
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace_steps import (
    ARRIVED,
    COMMITTED,
    FIRST,
    PUBLISHED,
    SCHEDULED,
    Collected,
    Place,
    Step,
    in_time,
    merged,
    never_back,
    once,
    place_of,
    regrouping_of,
    scheduled,
    step_of,
)
from miniqueue.core import attributes
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.look_errors import UnknownMessageError
from miniqueue.core.tracing import Event, Kind
from miniqueue.storage import records, trace_keys
from miniqueue.storage.trace_keys import GROUPS
from miniqueue.storage.trace_records import decode_trace

PAGE_ITEMS = 512
PAGE_BYTES = 256 << 10
#: Places to which a message is followed.
MAX_PLACES = 32
UNTRACED = "nothing is known of what happened to such a message; the topic's setting trace says whether it is noted"


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
        return await self._journal.epoch.repeat(partial(self._trace, name, message_id, sees))

    async def _trace(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, sees: Callable[[bytes], bool] | None
    ) -> list[Step]:
        self._hurry(name)
        await committed_topic(self._topics, self._journal, name)
        found = await self._follow(place_of(name, message_id), sees)
        if not any(found.values()):
            raise UnknownMessageError(UNTRACED)
        return Collected(merged(found)).steps()

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
        topic_id = None if topic is None else topic.id
        if topic is None or topic_id is None:
            return []
        if self._hurry(place.topic):
            await self._journal.commit_settles()
        collected = Collected()
        async for event in self._events(topic_id, place):
            collected.add(step_of(place, event))
        steps = collected.steps()
        if place.due_at_ms:
            return never_back(scheduled(steps)) or await self._waiting(topic, place)
        if not any(step.event in FIRST for step in steps):
            steps = await self._origin(place) + steps
        if not any(step.event in FIRST for step in steps):
            steps = await self._beginning(topic, place, steps) + steps
        return in_time(never_back(once(COMMITTED, steps)), await self._regroupings(topic_id, place))

    def _hurry(self, name: bytes) -> bool:
        """Have written what was noted in a topic; return whether there is something."""
        topic = self._topics.get(name)
        return topic is not None and topic.trace is not None and topic.trace.hurry()

    async def _beginning(self, topic: Topic, place: Place, steps: list[Step]) -> list[Step]:
        """Return when a message was published, where its trace has lost that: when it was committed, by the log."""
        committed = [step for step in steps if step.event == COMMITTED]
        if committed:
            return [committed[0]._replace(event=PUBLISHED)]
        partition = topic.partitions.get(place.partition)
        if topic.trace is None or topic.id is None or partition is None:
            return []
        found = await PartitionLog(self._journal.store, topic, topic.id, partition).before(place.seq)
        extent = None if found is None else records.decode_extent(*found)
        if extent is None or extent.end_seq <= place.seq or extent.committed_at_ms < self._earliest_ms(topic):
            return []
        return [Step(place, word, extent.committed_at_ms) for word in (PUBLISHED, COMMITTED)]

    async def _waiting(self, topic: Topic, place: Place) -> list[Step]:
        """Return when a message was published that waits, where its trace has lost that."""
        if topic.trace is None or topic.id is None:
            return []
        found = await Shelf(self._journal.store, topic.id, place.partition).get((place.due_at_ms, place.seq))
        if found is None or found.published_at_ms < self._earliest_ms(topic):
            return []
        return [Step(place, SCHEDULED, found.published_at_ms)]

    async def _regroupings(self, topic_id: int, place: Place) -> list[Step]:
        """Return what happened to groups as a whole, as far as a message is concerned."""
        collected = Collected()
        async for event in self._events(topic_id, Place(place.topic, GROUPS, place.partition)):
            step = regrouping_of(place, event)
            if step is not None:
                collected.add(step)
        return collected.steps()

    def _earliest_ms(self, topic: Topic) -> int:
        return self._clock.now_ms() - round(topic.settings.trace_seconds * 1000)

    async def _events(self, topic_id: int, place: Place) -> AsyncIterator[Event]:
        """Yield what happened to a message."""
        block = place.seq >> trace_keys.BLOCK_BITS
        start, stop = trace_keys.block_range(topic_id, place.shelf, block)
        while pairs := await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
            for _, value in pairs:
                for event in decode_trace(value, place.seq).events:
                    if not place.due_at_ms or event.kind is Kind.RELEASED or event.number == place.due_at_ms:
                        yield event.of(place.seq)  # else its id has another time, and is that of no message
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
