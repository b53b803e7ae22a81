"""Walks through a store, once and in key order, and verifies everything that the broker relies on.

    NEXT_TOPIC TOPIC PURGE HEAD CURSOR BITMAP GAP SETTINGS │ CHUNK RECORD
    kept: they grow with topics and what is half settled │ passed, however many

The order of the spaces is what makes one pass enough: when a chunk comes, all that is said about it is known.
It knows keys and values, not files.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from miniqueue.core import attributes
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.group_errors import InvalidGroupError
from miniqueue.core.group_start import check_group
from miniqueue.core.lanes import is_lane
from miniqueue.core.lease import Range
from miniqueue.core.message_id import format_message_id
from miniqueue.core.names import check_topic
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError
from miniqueue.storage import (
    dedup_keys,
    dedup_records,
    delay_keys,
    delay_records,
    group_keys,
    growth_records,
    keys,
    records,
    retention_records,
)
from miniqueue.storage.keys import Parts, Space
from miniqueue.tools.problems import Problems
from miniqueue.tools.schedule_audit import ScheduleAudit
from miniqueue.tools.topic_audit import TopicAudit
from miniqueue.tools.trace_audit import TraceAudit

T = TypeVar("T")


class Audit:
    """One walk: `take` every pair, then `finish`.

    Attributes:
      problems: what is wrong so far.
      topics: by id.
      pair_count: how many were taken.
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
        """Check what only shows at the end."""
        if self._highest_topic_id and (self._next_topic_id or 0) <= self._highest_topic_id:
            cause = f"is {self._next_topic_id}, but topic {self._highest_topic_id} exists"
            self.problems.add(cause, keys.NEXT_TOPIC)
        for topic in self.topics.values():
            topic.finish()
        self._schedules.finish()
        self._traces.finish()

    def _decoded(self, decode: Callable[[bytes], T], key: bytes, value: bytes) -> T | None:
        """Return what a value says; None, with a problem, if nothing."""
        try:
            return decode(value)
        except (CorruptionError, FormatVersionError) as exc:
            self.problems.add(str(exc), key)
            return None

    # --- what is no topic's own -------------------------------------------------------------------------------

    def _take_next_topic(self, _parts: Parts, key: bytes, value: bytes) -> None:
        self._next_topic_id = self._decoded(records.decode_number, key, value)

    def _take_topic(self, _parts: Parts, key: bytes, value: bytes) -> None:
        name = keys.topic_name(key)
        try:
            check_topic(name)
        except InvalidTopicError:
            self.problems.add("no topic can have this name", key)
        entry = self._decoded(records.decode_topic, key, value)
        if entry is None:
            self._is_registry_readable = False
            return
        topic_id, _created_at_ms = entry
        if topic_id in self.topics:
            self.problems.add(f"topic {topic_id} is registered under another name too", key)
        self.topics.setdefault(topic_id, TopicAudit(name, topic_id, self.problems))
        self._highest_topic_id = max(self._highest_topic_id, topic_id)

    def _take_purge(self, parts: Parts, key: bytes, value: bytes) -> None:
        if value:
            self.problems.add("has a value", key)
        if parts.topic_id in self.topics:
            self.problems.add("the topic is registered", key)
        else:
            self._purged.add(parts.topic_id)
        self._highest_topic_id = max(self._highest_topic_id, parts.topic_id)

    # --- what is a topic's own --------------------------------------------------------------------------------

    def _is_in_a_topic(self, parts: Parts, key: bytes) -> bool:
        """Whether the key is to be checked further: not what a deleted topic has left."""
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
        head = self._decoded(records.decode_head, key, value)
        self.topics[parts.topic_id].set_head(parts.partition, *(head or (None, 0)))

    def _take_cursor(self, parts: Parts, key: bytes, value: bytes) -> None:
        group = self.topics[parts.topic_id].group(parts.partition, parts.group)
        group.set_cursor(self._decoded(records.decode_cursor, key, value))

    def _take_bitmap(self, parts: Parts, key: bytes, value: bytes) -> None:
        bits = self._decoded(records.decode_bitmap, key, value)
        if not self._is_in_the_lane(parts, key):
            return
        if bits == 0:
            self.problems.add("has no bit set", key)
        elif bits is not None and records.encode_bitmap(bits) != value:
            self.problems.add("is longer than its bits", key)
        self.topics[parts.topic_id].group(parts.partition, parts.group).set_bitmap(parts.order, bits)

    def _take_gap(self, parts: Parts, key: bytes, value: bytes) -> None:
        stop = self._decoded(records.decode_number, key, value)
        if not self._is_in_the_lane(parts, key):
            return
        if stop is not None and stop <= parts.order:
            self.problems.add(f"ends in front of message {stop}, where it has not begun", key)
        self.topics[parts.topic_id].group(parts.partition, parts.group).set_gap(parts.order, stop)

    def _take_start(self, parts: Parts, key: bytes, value: bytes) -> None:
        kept = self._decoded(retention_records.decode_start, key, value)
        self.topics[parts.topic_id].set_start(parts.partition, kept)

    def _take_growth(self, parts: Parts, key: bytes, value: bytes) -> None:
        ends = self._decoded(growth_records.decode_growth, key, value)
        self.topics[parts.topic_id].set_growth(key, parts.partition, ends)

    def _take_group(self, parts: Parts, key: bytes, value: bytes) -> None:
        try:
            check_group(group_keys.group_name(key))
        except InvalidGroupError:
            self.problems.add("no group can have this name", key)
        entry = self._decoded(records.decode_topic, key, value)
        if entry is not None:
            self.topics[parts.topic_id].set_group(entry[0], group_keys.group_name(key))

    def _take_delays(self, parts: Parts, key: bytes, value: bytes) -> None:
        state = self._decoded(delay_records.decode_delays, key, value)
        self.topics[parts.topic_id].delays(parts.partition).set_state(state)

    def _take_delayed(self, parts: Parts, key: bytes, value: bytes) -> None:
        message = self._decoded(delay_records.decode_delayed, key, value)
        delays = self.topics[parts.topic_id].delays(parts.partition)
        delays.take(key, delay_keys.due_at_ms_and_serial(key), message)
        if message is not None:
            self._decoded(attributes.decode, key, message.attributes)
            place = DelayedId(parts.partition, *delay_keys.due_at_ms_and_serial(key))
            self.topics[parts.topic_id].uniques.note(message.attributes, bytes(place))

    def _take_dedup(self, _parts: Parts, key: bytes, value: bytes) -> None:
        self._decoded(dedup_records.decode_dedup, key, value)

    def _take_unique(self, parts: Parts, key: bytes, value: bytes) -> None:
        self._decoded(dedup_records.decode_unique, key, value)
        self.topics[parts.topic_id].uniques.take(*dedup_keys.unique_key_and_message_id(key))

    def _take_chunk(self, parts: Parts, key: bytes, value: bytes) -> None:
        if not self._is_in_the_lane(parts, key):
            return
        topic = self.topics[parts.topic_id]
        chunk = self._decoded(lambda value: records.decode_chunk(parts.order, value), key, value)
        if chunk is None:
            topic.skip_chunk(key, parts.partition, parts.order)
        else:
            topic.take_chunk(key, parts.partition, chunk)
            for seq, extra in enumerate(chunk.attributes or (), chunk.first_seq):
                self._decoded(attributes.decode, key, extra)
                message_id = format_message_id(parts.partition, seq)
                topic.uniques.note_in_log(extra, message_id, parts.partition, seq)

    def _take_settings(self, parts: Parts, key: bytes, value: bytes) -> None:
        settings = self._decoded(records.decode_settings, key, value)
        self.topics[parts.topic_id].partition_count = None if settings is None else settings.partitions

    def _take_record(self, parts: Parts, key: bytes, value: bytes) -> None:
        topic = self.topics[parts.topic_id]
        record = self._decoded(records.decode_record, key, value)
        if parts.lane not in (Range.FRONT, Range.DELAYED, Range.BACK):
            self.problems.add("there is no such range", key)
        elif (reader := topic.reader(key, parts.partition, parts.group)) is None:
            return
        elif record is None:
            reader.records.skip(Range(parts.lane))
        else:
            reader.take_record(key, Range(parts.lane), parts.order, record)
            self._decoded(attributes.decode, key, record.attributes)
            message_id = format_message_id(parts.partition, record.seq)
            topic.note_returned(record.attributes, message_id, parts.group)

    def _is_in_the_lane(self, parts: Parts, key: bytes) -> bool:
        if parts.lane != keys.LANE_NORMAL:
            self.problems.add("there is no such lane in this format", key)
            return False
        return True
