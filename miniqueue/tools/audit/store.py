"""Verifies every invariant that the broker relies on, in one walk over the pairs of a store in key order.

    NEXT_TOPIC TOPIC PURGE HEAD CURSOR BITMAP GAP SETTINGS       │ CHUNK RECORD
    kept: they grow with topics and with partly settled chunks   │ checked one by one, not kept

One pass is enough because of the order of the spaces: before a chunk comes, everything that concerns it is known.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from miniqueue.broker.acts import task
from miniqueue.core.cursor.lease import Range
from miniqueue.core.message import attributes
from miniqueue.core.message.ids import DelayedId, format_message_id
from miniqueue.core.message.lanes import is_lane
from miniqueue.core.message.names import check_group, check_topic
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError
from miniqueue.errors.requests import InvalidGroupError
from miniqueue.storage.format import dedup, delays, groups, keys, log_ends, tasks, values
from miniqueue.storage.format.keys import Parts, Space
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.audit.schedules import ScheduleAudit
from miniqueue.tools.audit.topic import TopicAudit
from miniqueue.tools.audit.traces import TraceAudit
from miniqueue.tools.audit.transfers import TransferAudit

T = TypeVar("T")


class Audit:
    """Check of one store: pass every pair to `take`, then call `finish`.

    Attributes:
      problems: the problems so far.
      topics: checks of the topics, by topic id.
      transfers: check of the messages on their way to other shards.
      pair_count: number of pairs taken.
    """

    def __init__(self) -> None:
        self.problems = Problems()
        self.topics: dict[int, TopicAudit] = {}
        self.pair_count = 0
        self._next_topic_id: int | None = None
        self._highest_topic_id = 0
        self._is_registry_readable = True
        self._purged: set[int] = set()
        self._schedules, self._traces = ScheduleAudit(self.problems), TraceAudit(self.problems)
        self.transfers = TransferAudit(self.problems)
        self._take: Mapping[Space, Callable[[Parts, bytes, bytes], None]] = {
            Space.COMMIT: lambda _parts, _key, _value: None,
            Space.NEXT_TOPIC: self._take_next_topic,
            Space.TOPIC: self._take_topic,
            Space.PURGE: self._take_purge,
            Space.TICK: lambda _parts, key, value: self._schedules.take_tick(key, value),
            Space.HEAD: self._take_head,
            Space.CURSOR: self._take_cursor,
            Space.BITMAP: self._take_bitmap,
            Space.GAP: self._take_gap,
            Space.SETTINGS: self._take_settings,
            Space.START: self._take_start,
            Space.GROWTH: self._take_growth,
            Space.GROUP: self._take_group,
            Space.GROUP_PURGE: lambda parts, _key, _value: self.topics[parts.topic_id].set_purged(parts.group),
            Space.DELAYS: self._take_delays,
            Space.DEDUP: self._take_dedup,
            Space.CHUNK: self._take_chunk,
            Space.RECORD: self._take_record,
            Space.DELAYED: self._take_delayed,
            Space.TASK: lambda _parts, key, value: self._take_task(key, value),
            Space.OUTBOX: self.transfers.take_transfer,
            Space.SENT: lambda _parts, key, value: self.transfers.take_sent(key, value),
            Space.RECEIVED: lambda _parts, key, value: self.transfers.take_received(key, value),
            Space.SCHEDULE: lambda _parts, key, value: self._schedules.take_schedule(key, value),
            Space.UNIQUE: self._take_unique,
            Space.TRACES: lambda parts, key, value: self._traces.take_state(parts.topic_id, key, value),
            Space.TRACE: self._traces.take,
        }

    def take(self, key: bytes, value: bytes) -> None:
        """Check the next pair."""
        self.pair_count += 1
        try:
            parts = keys.parse(key)
        except CorruptionError as exc:
            self.problems.add(str(exc), key)
            return
        if not Space.HEAD <= parts.space < Space.SCHEDULE or self._is_in_a_topic(parts, key):
            self._take[parts.space](parts, key, value)

    def finish(self) -> None:
        """Make the checks that require all pairs."""
        if self._highest_topic_id and (self._next_topic_id or 0) <= self._highest_topic_id:
            cause = f"is {self._next_topic_id}, but topic {self._highest_topic_id} exists"
            self.problems.add(cause, keys.NEXT_TOPIC)
        for topic in self.topics.values():
            topic.finish()
        self._schedules.finish()
        self.transfers.finish()
        self._traces.finish()

    def _decoded(self, decode: Callable[[bytes], T], key: bytes, value: bytes) -> T | None:
        """Return the decoded value; if it cannot be read, report a problem and return None."""
        try:
            return decode(value)
        except (CorruptionError, FormatVersionError) as exc:
            self.problems.add(str(exc), key)
            return None

    # --- spaces without a topic -------------------------------------------------------------------------------

    def _take_next_topic(self, _parts: Parts, key: bytes, value: bytes) -> None:
        self._next_topic_id = self._decoded(values.decode_number, key, value)

    def _take_topic(self, _parts: Parts, key: bytes, value: bytes) -> None:
        name = keys.topic_name(key)
        try:
            check_topic(name)
        except InvalidTopicError:
            self.problems.add("no topic can have this name", key)
        entry = self._decoded(values.decode_topic, key, value)
        if entry is None:
            self._is_registry_readable = False
            return
        topic_id, _created_at_ms = entry
        if topic_id in self.topics:
            self.problems.add(f"topic {topic_id} is registered under another name too", key)
        self.topics.setdefault(topic_id, TopicAudit(name, topic_id, self.problems))
        self._highest_topic_id = max(self._highest_topic_id, topic_id)

    def _take_task(self, key: bytes, value: bytes) -> None:
        number = tasks.number_of(key)
        self._decoded(lambda value: task.of_members(number, tasks.decode_task(value)), key, value)

    def _take_purge(self, parts: Parts, key: bytes, value: bytes) -> None:
        if value and not _is_name(value):
            self.problems.add("has a value", key)
        if parts.topic_id in self.topics:
            self.problems.add("the topic is registered", key)
        else:
            self._purged.add(parts.topic_id)
        self._highest_topic_id = max(self._highest_topic_id, parts.topic_id)

    # --- spaces of a topic ------------------------------------------------------------------------------------

    def _is_in_a_topic(self, parts: Parts, key: bytes) -> bool:
        """Whether to check the key further: its topic exists and is not being deleted."""
        if parts.topic_id in self._purged:
            return False
        if parts.topic_id not in self.topics:
            if self._is_registry_readable:
                self.problems.add("there is no such topic, nor is one being deleted", key)
            return False
        if parts.space != Space.TRACE and not is_lane(parts.partition):
            self.problems.add("there is no such partition in this format", key)
            return False
        return True

    def _take_head(self, parts: Parts, key: bytes, value: bytes) -> None:
        head = self._decoded(values.decode_head, key, value)
        self.topics[parts.topic_id].set_head(parts.partition, *(head or (None, 0)))

    def _take_cursor(self, parts: Parts, key: bytes, value: bytes) -> None:
        group = self.topics[parts.topic_id].group(parts.partition, parts.group)
        group.set_cursor(self._decoded(values.decode_cursor, key, value))

    def _take_bitmap(self, parts: Parts, key: bytes, value: bytes) -> None:
        bits = self._decoded(values.decode_bitmap, key, value)
        if not self._has_reserved_byte(parts, key):
            return
        if bits == 0:
            self.problems.add("has no bit set", key)
        elif bits is not None and values.encode_bitmap(bits) != value:
            self.problems.add("is longer than its bits", key)
        self.topics[parts.topic_id].group(parts.partition, parts.group).set_bitmap(parts.order, bits)

    def _take_gap(self, parts: Parts, key: bytes, value: bytes) -> None:
        stop = self._decoded(values.decode_number, key, value)
        if not self._has_reserved_byte(parts, key):
            return
        if stop is not None and stop <= parts.order:
            self.problems.add(f"ends before message {stop}, which is not after its start", key)
        self.topics[parts.topic_id].group(parts.partition, parts.group).set_gap(parts.order, stop)

    def _take_start(self, parts: Parts, key: bytes, value: bytes) -> None:
        kept = self._decoded(log_ends.decode_start, key, value)
        self.topics[parts.topic_id].set_start(parts.partition, kept)

    def _take_growth(self, parts: Parts, key: bytes, value: bytes) -> None:
        ends = self._decoded(log_ends.decode_growth, key, value)
        self.topics[parts.topic_id].set_growth(key, parts.partition, ends)

    def _take_group(self, parts: Parts, key: bytes, value: bytes) -> None:
        try:
            check_group(groups.group_name(key))
        except InvalidGroupError:
            self.problems.add("no group can have this name", key)
        entry = self._decoded(values.decode_topic, key, value)
        if entry is not None:
            self.topics[parts.topic_id].set_group(entry[0], groups.group_name(key))

    def _take_delays(self, parts: Parts, key: bytes, value: bytes) -> None:
        state = self._decoded(delays.decode_delays, key, value)
        self.topics[parts.topic_id].delays(parts.partition).set_state(state)

    def _take_delayed(self, parts: Parts, key: bytes, value: bytes) -> None:
        message = self._decoded(delays.decode_delayed, key, value)
        position = delays.due_at_ms_and_serial(key)
        self.topics[parts.topic_id].delays(parts.partition).take(key, position, message)
        if message is not None:
            self._decoded(attributes.decode, key, message.attributes)
            message_id = bytes(DelayedId(parts.partition, *position))
            self.topics[parts.topic_id].uniques.take_waiting(message.attributes, message_id)

    def _take_dedup(self, _parts: Parts, key: bytes, value: bytes) -> None:
        self._decoded(dedup.decode_dedup, key, value)

    def _take_unique(self, parts: Parts, key: bytes, value: bytes) -> None:
        self._decoded(dedup.decode_unique, key, value)
        self.topics[parts.topic_id].uniques.take(*dedup.unique_key_and_message_id(key))

    def _take_chunk(self, parts: Parts, key: bytes, value: bytes) -> None:
        if not self._has_reserved_byte(parts, key):
            return
        topic = self.topics[parts.topic_id]
        chunk = self._decoded(lambda value: values.decode_chunk(parts.order, value), key, value)
        if chunk is None:
            topic.skip_chunk(key, parts.partition, parts.order)
        else:
            topic.take_chunk(key, parts.partition, chunk)
            for seq, extra in enumerate(chunk.attributes or (), chunk.first_seq):
                self._decoded(attributes.decode, key, extra)
                message_id = format_message_id(parts.partition, seq)
                topic.uniques.take_in_log(extra, message_id, parts.partition, seq)

    def _take_settings(self, parts: Parts, key: bytes, value: bytes) -> None:
        settings = self._decoded(values.decode_settings, key, value)
        self.topics[parts.topic_id].partition_count = None if settings is None else settings.partitions
        self.topics[parts.topic_id].is_spread = settings is not None and settings.spread > 0

    def _take_record(self, parts: Parts, key: bytes, value: bytes) -> None:
        topic = self.topics[parts.topic_id]
        record = self._decoded(values.decode_record, key, value)
        if parts.range_ not in (Range.FRONT, Range.DELAYED, Range.BACK):
            self.problems.add("there is no such range", key)
        elif (reader := topic.reader(key, parts.partition, parts.group)) is None:
            return
        elif record is None:
            reader.records.skip(Range(parts.range_))
        else:
            reader.take_record(key, Range(parts.range_), parts.order, record)
            self._decoded(attributes.decode, key, record.attributes)
            message_id = format_message_id(parts.partition, record.seq)
            topic.take_returned(record.attributes, message_id, parts.group)

    def _has_reserved_byte(self, parts: Parts, key: bytes) -> bool:
        if parts.reserved != keys.RESERVED:
            self.problems.add("the reserved byte is wrong", key)
            return False
        return True


def _is_name(value: bytes) -> bool:
    """Return whether a value is the name of a deleted spread topic."""
    try:
        values.decode_erasure(value)
    except (CorruptionError, FormatVersionError):
        return False
    return True
