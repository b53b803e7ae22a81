"""Reads what happened to a message, from its publish on, through all topics to which it was moved.

    trace ─▶ the block of the message, page by page ─▶ its events, in order ─▶ steps
                 └ dead letters, redrive: also at the position it came from, and the position it went to

A trace reads one block of messages for each position of the message, however much is stored.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peek import Peek
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored.browse_delayed import DelayedPages
from miniqueue.broker.stored.log_index import PartitionLog
from miniqueue.broker.traces.steps import (
    ARRIVED,
    COMMITTED,
    FIRST,
    PUBLISHED,
    SCHEDULED,
    Collected,
    Step,
    TracePosition,
    in_time,
    merged,
    never_back,
    once,
    place_of,
    regrouping_of,
    scheduled,
    step_of,
)
from miniqueue.core.cursor.recording import Event, Kind
from miniqueue.core.message import attributes
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.parts import beside
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import UnknownMessageError, UnknownTopicError
from miniqueue.storage.format import trace_keys, values
from miniqueue.storage.format.trace_keys import GROUPS
from miniqueue.storage.format.traces import decode_trace

#: Maximum number and size of the values that are read at once; a block can be larger.
PAGE_ITEMS = 512
PAGE_BYTES = 256 << 10
#: Maximum number of positions to which a message is followed; a message that is redriven repeatedly has many.
MAX_PLACES = 32
UNTRACED = "nothing is known of what happened to such a message; the topic's setting trace says whether it is noted"


async def trace(
    engine: Engine,
    peek: Peek,
    name: bytes,
    message_id: tuple[int, int] | DelayedId,
    sees: Callable[[bytes], bool] | None = None,
) -> list[Step]:
    """Return the known steps of a message, in order, including its steps in other topics.

    Args:
      engine: contains the topics and the store.
      peek: finds messages that are still stored.
      name: the name of the topic.
      message_id: the parts of the message's id in this topic.
      sees: whether the message may be followed into a topic; None: into all topics.

    Raises:
      InvalidTopicError, UnknownTopicError, UnavailableError.
      UnknownMessageError: no step is known.
      StorageError: the trace cannot be read.
    """
    return await engine.journal.epoch.repeat(partial(_trace, engine, peek, name, message_id, sees))


async def _trace(
    engine: Engine,
    peek: Peek,
    name: bytes,
    message_id: tuple[int, int] | DelayedId,
    sees: Callable[[bytes], bool] | None,
) -> list[Step]:
    _hurry(engine, name)
    await engine.journal.committed_topic(name)
    steps_by_position = await _follow(engine, peek, place_of(name, message_id), sees)
    if not any(steps_by_position.values()):
        await engine.journal.committed_topic(name)  # Raises if the topic was deleted in the meantime.
        raise UnknownMessageError(UNTRACED)
    return Collected(merged(steps_by_position)).steps()


async def _follow(
    engine: Engine, peek: Peek, start: TracePosition, sees: Callable[[bytes], bool] | None
) -> dict[TracePosition, list[Step]]:
    steps_by_position: dict[TracePosition, list[Step]] = {}
    remaining = [start]
    while remaining and len(steps_by_position) < MAX_PLACES:
        position = remaining.pop()
        if position not in steps_by_position:
            steps = steps_by_position[position] = await _steps_at(engine, peek, position)
            others = [step.other for step in steps if step.other is not None]
            remaining += [other for other in others if sees is None or sees(other.topic)]
    return steps_by_position


async def _steps_at(engine: Engine, peek: Peek, position: TracePosition) -> list[Step]:
    """Return the known steps of a message in one topic; read again if the topic is deleted in the meantime."""
    while (topic := engine.topics.by_name.get(position.topic)) is not None and (topic_id := topic.id) is not None:
        try:
            steps = await _steps_in(engine, peek, topic, topic_id, position)
        except MiniqueueError:
            if topic.id == topic_id:
                raise
        else:
            if topic.id == topic_id:
                return steps
    return []


async def _steps_in(engine: Engine, peek: Peek, topic: Topic, topic_id: int, position: TracePosition) -> list[Step]:
    if _hurry(engine, position.topic):
        await engine.journal.commit_settles()
    collected = Collected()
    async for event in _events(engine, topic_id, position):
        collected.add(step_of(position, event))
    steps = collected.steps()
    if position.due_at_ms:
        return never_back(scheduled(steps)) or await _waiting(engine, topic, position)
    if not any(step.event in FIRST for step in steps):
        steps = await _origin(peek, position) + steps
    if not any(step.event in FIRST for step in steps):
        steps = await _beginning(engine, topic, position, steps) + steps
    return in_time(never_back(once(COMMITTED, steps)), await _regroupings(engine, topic_id, position))


def _hurry(engine: Engine, name: bytes) -> bool:
    """Make the next commit write the recorded events of a topic; return whether there are any."""
    topic = engine.topics.by_name.get(name)
    return topic is not None and topic.trace is not None and topic.trace.hurry()


async def _beginning(engine: Engine, topic: Topic, position: TracePosition, steps: list[Step]) -> list[Step]:
    """Return when a message was published, if its trace has lost that: the commit time in the log."""
    committed = [step for step in steps if step.event == COMMITTED]
    if committed:
        return [committed[0]._replace(event=PUBLISHED)]
    partition = topic.partitions.get(position.partition)
    if topic.trace is None or topic.id is None or partition is None:
        return []
    chunk = await PartitionLog(engine.journal.store, topic, topic.id, partition).before(position.seq)
    extent = None if chunk is None else values.decode_extent(*chunk)
    if extent is None or extent.end_seq <= position.seq or extent.committed_at_ms < _earliest_ms(engine, topic):
        return []
    return [Step(position, word, extent.committed_at_ms) for word in (PUBLISHED, COMMITTED)]


async def _waiting(engine: Engine, topic: Topic, position: TracePosition) -> list[Step]:
    """Return when a waiting delayed message was published, if its trace has lost that."""
    if topic.trace is None or topic.id is None:
        return []
    delayed = DelayedPages(engine.journal.store, topic.id, position.partition)
    message = await delayed.get((position.due_at_ms, position.seq))
    if message is None or message.published_at_ms < _earliest_ms(engine, topic):
        return []
    return [Step(position, SCHEDULED, message.published_at_ms)]


async def _regroupings(engine: Engine, topic_id: int, position: TracePosition) -> list[Step]:
    """Return the changes of whole groups, such as seeks, that concern a message."""
    collected = Collected()
    async for event in _events(engine, topic_id, TracePosition(position.topic, GROUPS, position.partition)):
        step = regrouping_of(position, event)
        if step is not None:
            collected.add(step)
    return collected.steps()


def _earliest_ms(engine: Engine, topic: Topic) -> int:
    return engine.clock.now_ms() - round(topic.settings.trace_seconds * 1000)


async def _events(engine: Engine, topic_id: int, position: TracePosition) -> AsyncIterator[Event]:
    """Yield the stored events of a message."""
    block = position.seq >> trace_keys.BLOCK_BITS
    start, stop = trace_keys.block_range(topic_id, position.shelf, block)
    while pairs := await engine.journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        for _, value in pairs:
            for event in decode_trace(value, position.seq).events:
                # An id with another due time is not the id of a message, so it has no events.
                if not position.due_at_ms or event.kind is Kind.RELEASED or event.number == position.due_at_ms:
                    yield event.of(position.seq)
        start = pairs[-1][0] + b"\x00"


async def _origin(peek: Peek, position: TracePosition) -> list[Step]:
    """Return the origin that a dead letter itself contains, for a source topic that is not traced."""
    try:
        seen = await peek.find(position.topic, (position.partition, position.seq))
    except (UnknownMessageError, UnknownTopicError):
        return []
    origin = attributes.decode(seen.stored.attributes).origin
    if origin is None:
        return []
    source = TracePosition(beside(position.topic, origin.topic), origin.partition, origin.seq)
    return [Step(position, ARRIVED, origin.died_at_ms, reason=origin.reason, other=source)]
