"""Reads the content of a store, without the messages: at startup, and after the store has failed.

The work grows with the number of topics and of partly settled chunks, never with the backlog. An exception: if a store
of an earlier version does not contain the size of a topic's messages, they are read and counted at each startup, until
a commit writes the topic's cursor.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import structlog

from miniqueue.broker.model.rest import put_to_rest
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.stored import opening_state
from miniqueue.broker.stored.opening_state import State
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group.growth import Growth
from miniqueue.core.log.dedup_window import DedupWindow
from miniqueue.core.log.partition import MAX_CHUNK_MESSAGES, Partition
from miniqueue.core.log.retention import Retained
from miniqueue.core.message.lanes import FIRST_OTHER_LANE
from miniqueue.core.message.parts import first_partition_of
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError, MiniqueueError
from miniqueue.storage.format import dedup as dedup_keys
from miniqueue.storage.format import dedup as dedup_records
from miniqueue.storage.format import groups as group_keys
from miniqueue.storage.format import keys, log_ends, schedules, tasks, trace_keys, values
from miniqueue.storage.format.traces import TraceState, decode_traces
from miniqueue.storage.port import Snapshot, Store

log = structlog.get_logger()

#: Maximum number and size of the values that are read at once.
PAGE_ITEMS = 1024
PAGE_BYTES = 1 << 20
#: Maximum number of logs whose last chunks are in memory at the same time; a chunk has at most 1 MiB, unless it is a
#: single message.
LOGS_AT_ONCE = 64
#: Distance from the head at which publishes to a topic with a damaged end continue: after all unreadable messages,
#: because no topic ever has this many waiting.
MORE_THAN_EVER_WAIT = 1 << 40

_DAMAGE = (CorruptionError, FormatVersionError)


class StoreContent(NamedTuple):
    """What the broker keeps in memory of a store, without messages.

    `ticks` is the next tick of each schedule, `tasks` are the members of each task by its number, `transfers` the pairs
    of the messages on their way to other shards, in key order, `erasures` the names of deleted spread topics whose
    parts are still to be deleted, by the ids that the topics had.
    """

    topics: list[Topic]
    next_topic_id: int
    unpurged_topic_ids: list[int]
    ticks: dict[bytes, int]
    unpurged_groups: list[tuple[Topic, int]]
    traces: dict[int, TraceState]
    tasks: dict[int, dict[str, Any]]
    transfers: list[tuple[bytes, bytes]]
    erasures: Mapping[int, bytes] = MappingProxyType({})


#: Topic id and number of a partition.
_Log = tuple[int, int]


class _End(NamedTuple):
    """The end of a partition's log; `skipped_count` sequence numbers before it were never assigned to a message."""

    next_seq: int
    log_bytes: int
    fault: MiniqueueError | None = None
    skipped_count: int = 0


class _StoredTopic(NamedTuple):
    name: bytes
    id: int
    partitions: dict[int, Partition]
    group_ids: dict[bytes, int]
    settings: TopicSettings
    fault: MiniqueueError | None
    dedup: DedupWindow | None
    growths: list[Growth]
    unpurged_group_ids: list[int]
    traces: TraceState | None
    topic: Topic | None = None  # made of this, unless a known topic will be


async def read_content(
    store: Store, known: dict[bytes, Topic], acknowledged: int, woken: Callable[[Topic], None] = lambda _topic: None
) -> StoreContent:
    """Read every topic; refill the objects in `known`, so that their waiting consumers stay.

    They are filled at the end, all at once: no client may be served from a store that has not been verified.

    Args:
      store: an open store.
      known: the topics in memory, by name.
      acknowledged: the number of the last change that was acknowledged to a client.
      woken: called when a topic wakes that is at rest until then.

    Raises CorruptionError if a required value is missing.
    """
    if store.last_change < acknowledged:
        raise CorruptionError(f"change {acknowledged} was acknowledged, the store ends with {store.last_change}")
    state = State([pair async for pair in pages(store, keys.state_of_all())])
    stored = [_made(topic, known, woken) async for topic in _stored_topics(store, state)]
    topics = [_installed(topic, known) for topic in stored]
    ids = {topic.id: topic for topic in topics}
    purges = {keys.purge_topic_id(key): value for key, value in state.between(keys.purges())}
    return StoreContent(
        topics=sorted(topics, key=attrgetter("name")),
        next_topic_id=state.number(keys.NEXT_TOPIC, default=1),
        unpurged_topic_ids=[topic_id for topic_id, value in purges.items() if not value],
        ticks={schedules.name_of(key): values.decode_number(v) for key, v in state.between(schedules.ticks())},
        unpurged_groups=[(ids[topic.id], group_id) for topic in stored for group_id in topic.unpurged_group_ids],
        traces={topic.id: topic.traces for topic in stored if topic.traces is not None},
        tasks={tasks.number_of(key): tasks.decode_task(value) for key, value in state.between(tasks.tasks())},
        transfers=list(state.between(keys.transfers())),
        erasures={topic_id: values.decode_erasure(value) for topic_id, value in purges.items() if value},
    )


async def _stored_topics(store: Store, state: State) -> AsyncIterator[_StoredTopic]:
    """Yield the topics in the order of their ids."""
    reader = opening_state.StateReader(pages(store, keys.space_range(space)) for space in keys.STATE_OF_TOPICS)
    ids = {values.decode_topic(value)[0]: keys.topic_name(key) for key, value in state.between(keys.topics())}
    last_id = max(ids, default=0)
    waiting: list[tuple[int, State, list[int]]] = []  # topics whose logs are still to be looked at, together
    for id_ in sorted(ids):
        state = await reader.of_topic(id_)
        waiting.append((id_, state, state.partitions(id_, first_partition_of(ids[id_]))))
        if id_ == last_id or sum(len(numbers) for _, _, numbers in waiting) >= LOGS_AT_ONCE:
            ends = await _ends(store, waiting)
            for topic_id, state, numbers in waiting:
                in_topic = {number: ends[topic_id, number] for number in numbers}
                yield await _stored_topic(store, state, ids[topic_id], topic_id, in_topic)
            waiting.clear()


def _made(stored: _StoredTopic, known: dict[bytes, Topic], woken: Callable[[Topic], None]) -> _StoredTopic:
    """Return a topic made of its stored state, and at rest if nothing is in it; `known` topics are filled later."""
    topic = _filled(Topic(stored.name), stored)
    if put_to_rest(topic, woken):
        return stored._replace(partitions={}, topic=topic)
    if stored.name not in known:
        return stored._replace(topic=topic)
    topic.dissolve()
    return stored


def _installed(stored: _StoredTopic, known: dict[bytes, Topic]) -> Topic:
    """Return the topic; one that is known becomes what is stored."""
    topic = known.get(stored.name)
    if topic is None:
        return stored.topic or _filled(Topic(stored.name), stored)
    if stored.topic is not None:
        if stored.topic.at_rest is not None:
            topic.become(stored.topic)
            return topic
        stored.topic.dissolve()  # a client has made the topic known since
    return _filled(topic, stored)


async def _ends(store: Store, topics: list[tuple[int, State, list[int]]]) -> dict[_Log, _End]:
    """Return where each log of some topics ends: after its last chunk, or at its head if that is further.

    Every commit that deletes a chunk writes the head. So all chunks from the head on exist, and the first of them, if
    there is one, begins at the head.
    """
    ends: dict[_Log, _End] = {}
    logs = [(state, id_, number) for id_, state, in_topic in topics for number in in_topic]
    all_heads = [((id_, number), _End(*state.head(id_, number))) for state, id_, number in logs]
    for start in range(0, len(all_heads), LOGS_AT_ONCE):
        heads = dict(all_heads[start : start + LOGS_AT_ONCE])
        try:
            ends.update(await _ends_behind(store, heads))
        except _DAMAGE:
            for log_, head in heads.items():
                ends[log_] = await _end_in_doubt(store, log_, head)
    return ends


async def _ends_behind(store: Store, heads: dict[_Log, _End]) -> dict[_Log, _End]:
    lasts = await store.last_of([keys.chunks(*log_, head.next_seq) for log_, head in heads.items()])
    ends = {
        log_: head if last is None else _end_of(*last) for (log_, head), last in zip(heads.items(), lasts, strict=True)
    }
    for log_, end in ends.items():
        if end.next_seq - heads[log_].next_seq >= MORE_THAN_EVER_WAIT:
            ends[log_] = await _end_behind_damage(store, log_, heads[log_], end)
    return ends


async def _end_behind_damage(store: Store, log_: _Log, head: _End, end: _End) -> _End:
    """Return the end of a log that is still damaged, and to which clients published after the damage."""
    readable, fault = await _end_of_readable(store, log_, head)
    go_on_at = end.next_seq
    with suppress(*_DAMAGE):
        start, stop = keys.chunks(*log_, head.next_seq + MORE_THAN_EVER_WAIT)
        ((key, _),) = await store.scan(start, stop, max_items=1, max_bytes=1)
        go_on_at = keys.chunk_first_seq(key)
    fault = fault or _missing(log_, readable)
    return end._replace(fault=fault, skipped_count=go_on_at - readable.next_seq)


def _missing(log_: _Log, end: _End) -> CorruptionError:
    return CorruptionError(f"topic {log_[0]}: messages from {end.next_seq} on are missing")


def _end_of(key: bytes, value: bytes) -> _End:
    chunk = values.decode_chunk(keys.chunk_first_seq(key), value)
    return _End(chunk.end_seq, chunk.log_bytes)


async def _end_in_doubt(store: Store, log_: _Log, head: _End) -> _End:
    """Return where one log ends; if that cannot be read, a position after every message that may exist.

    No such position is used twice: publishes after an earlier such position have increased `last_change`.
    """
    try:
        return (await _ends_behind(store, {log_: head}))[log_]
    except _DAMAGE:
        end, fault = await _end_of_readable(store, log_, head)
    if fault is None:
        return end
    log.error("the end of a topic cannot be read", topic_id=log_[0], partition=log_[1], error=str(fault))
    beyond = head.next_seq + MORE_THAN_EVER_WAIT + store.last_change * MAX_CHUNK_MESSAGES
    return _End(beyond, end.log_bytes, fault, beyond - end.next_seq)


async def _end_of_readable(store: Store, log_: _Log, head: _End) -> tuple[_End, MiniqueueError | None]:
    """Read one log up to its end, or up to the first damage, and return where that is.

    The last chunks are read by their keys: reading a page or searching backward can meet the damage of the next topic.
    """
    end = head
    with suppress(*_DAMAGE):
        async for pair in pages(store, keys.chunks(*log_, head.next_seq)):
            if keys.chunk_first_seq(pair[0]) > end.next_seq:
                return end, _missing(log_, end)
            end = _end_of(*pair)
    try:
        while (value := await store.get(key := keys.chunk(*log_, end.next_seq))) is not None:
            end = _end_of(key, value)
    except _DAMAGE as exc:
        return end, exc
    return end, None


def _filled(topic: Topic, stored: _StoredTopic) -> Topic:
    topic.fill(
        stored.id,
        stored.partitions,
        stored.group_ids,
        settings=stored.settings,
        growths=stored.growths,
        dedup=stored.dedup,
        fault=stored.fault,
    )
    return topic


async def pages(store: Store | Snapshot, key_range: keys.KeyRange) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield every pair of a range, a page at a time."""
    start, stop = key_range
    while pairs := await store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        for pair in pairs:
            yield pair
        start = pairs[-1][0] + b"\x00"


async def _stored_topic(store: Store, state: State, name: bytes, topic_id: int, ends: dict[int, _End]) -> _StoredTopic:
    value = state.value(keys.settings(topic_id))
    settings = DEFAULT_SETTINGS if value is None else values.decode_settings(value)
    first = first_partition_of(name)
    groups, stored = state.groups(topic_id, first), [number for number in ends if number < FIRST_OTHER_LANE]
    if stored != [*range(first, first + settings.partitions)]:
        raise CorruptionError(f"topic {topic_id}: of {settings.partitions} partitions there are {stored}")
    if not groups:
        raise CorruptionError(f"topic {topic_id}, partition {first}: the group's cursor is missing")
    partitions = {
        number: await _partition(store, state, (topic_id, number), [*groups.values()], end)
        for number, end in ends.items()
    }
    for partition in partitions.values():
        partition.retained = _retained(state, topic_id, partition)
    fault = next((end.fault for end in ends.values() if end.fault is not None), None)
    dedup = dedup_records.decode_window(state.between(dedup_keys.dedups(topic_id)))
    growths = [
        Growth(log_ends.partition_count(key), log_ends.decode_growth(value))
        for key, value in state.between(log_ends.growths(topic_id))
    ]
    unpurged_group_ids = [group_keys.purge_group_id(key) for key, _ in state.between(group_keys.purges(topic_id))]
    value = state.value(trace_keys.traces(topic_id))
    traces = None if value is None else decode_traces(value)
    return _StoredTopic(name, topic_id, partitions, groups, settings, fault, dedup, growths, unpurged_group_ids, traces)


def _retained(state: State, topic_id: int, partition: Partition) -> Retained | None:
    """Return what a partition retains of its finished messages; None if it retains nothing."""
    value = state.value(log_ends.start(topic_id, partition.number))
    return None if value is None else Retained(*log_ends.decode_start(value))


async def _partition(store: Store, state: State, log_: _Log, groups: list[int], end: _End) -> Partition:
    cursors = {group: await _cursor(store, state, (*log_, group), end) for group in groups}
    log_bytes = max(cursor.tail_bytes for cursor in cursors.values())
    for cursor in cursors.values():
        cursor.tail_bytes = log_bytes
    return Partition(end.next_seq, cursors, log_bytes, log_[1], state.delays(*log_))


async def _cursor(store: Store, state: State, position: tuple[int, int, int], end: _End) -> GroupCursor:
    topic_id, partition, group = position
    value = state.value(keys.cursor(*position))
    if value is None:
        raise CorruptionError(f"topic {topic_id}, partition {partition}: the group's cursor is missing")
    cursor = values.decode_cursor(value)
    bitmaps = {
        keys.bitmap_first_seq(key): values.decode_bitmap(value) for key, value in state.between(keys.bitmaps(*position))
    }
    gaps = state.between(keys.gaps(*position))
    log_bytes = max(end.log_bytes, cursor.log_bytes or 0)
    if cursor.log_bytes is None:
        chunks, returned = keys.chunks(topic_id, partition, 0), opening_state.records_of(*position)
        log_bytes = await opening_state.held_bytes(pages(store, chunks), pages(store, returned), bitmaps)
    return GroupCursor(
        cursor._replace(log_bytes=log_bytes, dropped_count=cursor.dropped_count + end.skipped_count),
        end.next_seq,
        bitmaps,
        {keys.gap_first_seq(key): values.decode_number(value) for key, value in gaps},
        partition=partition,
        group=group,
    )
