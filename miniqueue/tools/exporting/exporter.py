"""Turns the pairs of a store, in key order, into lines for settings, groups, schedules, and unconsumed messages.

    TOPIC CURSOR BITMAP GAP │ SETTINGS ─▶ lines │ GROUP GROUP_PURGE ─▶ lines │ CHUNK ─▶ lines │ RECORD ─▶ lines
    kept                    │ passed on         │ kept                       │ passed on: first all logs, then
                                                                               returned messages

Messages that are in the log only because the topic retains them are consumed, and skipped. A value that cannot be
read is skipped and reported; the rest is exported.

The parts of a spread topic have lines of their topic: ids contain the part, and lines of groups, and of settings of
groups, name it. The settings of the topic itself, which every shard has, come once, before the lines of its parts.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import repeat
from typing import TypeVar

from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.attributes import is_for
from miniqueue.core.message.message import NEVER_RETURNED, Record
from miniqueue.core.message.parts import SEPARATOR, parse_part, whole_of
from miniqueue.core.settings.placing import origin_of
from miniqueue.core.settings.settings import BY_GROUP, DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import ConfigError, CorruptionError, FormatVersionError
from miniqueue.server.process.escaping import escape
from miniqueue.storage.format import delays, groups, keys, schedules, values
from miniqueue.storage.format.keys import Parts, Space
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.exporting.groups import ExportGroups
from miniqueue.tools.lines import delayed as delayed_lines
from miniqueue.tools.lines import groups as group_lines
from miniqueue.tools.lines import schedules as schedule_lines
from miniqueue.tools.lines import settings as settings_lines
from miniqueue.tools.lines.messages import encode

T = TypeVar("T")


class Exporter:
    """One pass over a store.

    Args:
      wanted: names of the topics to export; empty means all.
      here: those that must be in this store; None: all of them.
      written: the names of spread topics whose settings other stores have written; this one adds its own.

    Attributes:
      problems: values that cannot be read.
      message_count: number of lines of messages so far.
      has_spread: whether a wanted topic is spread, so that other stores have parts of it.
    """

    def __init__(
        self,
        wanted: Collection[bytes] = (),
        here: Collection[bytes] | None = None,
        written: set[bytes] | None = None,
    ) -> None:
        self.problems = Problems()
        self.message_count = 0
        self.has_spread = False
        self._wanted = wanted
        self._here = wanted if here is None else here
        self._written = set() if written is None else written
        self._spread: dict[bytes, int] = {}  # number of parts, by topic
        self._origins: dict[int, bytes] = {}  # topics that are not wanted, but perhaps dead letters of them
        self._partition_counts: dict[bytes, int] = {}
        self._names: dict[int, bytes] = {}
        self._ticks: dict[bytes, int | None] = {}
        self._groups: dict[int, ExportGroups] = {}

    def lines(self, pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """Yield the lines for these pairs.

        Raises:
          ConfigError: a wanted topic does not exist.
        """
        are_topics_known = are_groups_known = False
        for key, value in pairs:
            parts = self._read(keys.parse, key, key)
            if parts is None:
                continue
            if parts.space > Space.TOPIC and not are_topics_known:
                self._check_wanted()
                are_topics_known = True
            if parts.space >= Space.CHUNK and not are_groups_known:
                yield from self._lines_before_messages()
                are_groups_known = True
            yield from self._take(parts, key, value)
        if not are_topics_known:
            self._check_wanted()
        if not are_groups_known:
            yield from self._lines_before_messages()

    def _check_wanted(self, *, are_settings_known: bool = False) -> None:
        """Raise ConfigError for topics that do not exist; dead letters of a spread topic may have no part here."""
        missing = set(self._here) - set(map(whole_of, self._names.values()))
        origins = set() if are_settings_known else set(self._origins.values())
        missing = {name for name in missing if origin_of(name) not in origins and not self._spread_of(name)}
        if missing:
            raise ConfigError([f"there is no topic {escape(name)}" for name in sorted(missing)])

    def _spread_of(self, name: bytes) -> int:
        return self._spread.get(name) or self._spread.get(origin_of(name), 0)

    def _take(self, parts: Parts, key: bytes, value: bytes) -> Iterator[bytes]:
        if parts.space is Space.TOPIC:
            self._take_topic(key, value)
        elif parts.space is Space.TICK:
            self._ticks[schedules.name_of(key)] = self._read(values.decode_number, key, value)
        elif parts.space is Space.SCHEDULE:
            yield from self._schedule_lines(key, value)
        elif parts.space is Space.SETTINGS and parts.topic_id in self._origins:
            self._note_spread(self._origins[parts.topic_id], self._read(values.decode_settings, key, value))
        elif parts.topic_id not in self._names:
            return
        elif parts.space in (Space.CURSOR, Space.GAP, Space.BITMAP, Space.GROUP, Space.GROUP_PURGE):
            self._take_group(parts, key, value)
        elif parts.space is Space.SETTINGS:
            yield from self._settings_lines(self._names[parts.topic_id], key, value)
        elif parts.space is Space.CHUNK:
            yield from self._chunk_lines(parts, key, value)
        elif parts.space is Space.RECORD and parts.group in self._groups[parts.topic_id].names:
            yield from self._record_lines(parts, key, value)
        elif parts.space is Space.DELAYED:
            yield from self._delayed_lines(parts, key, value)

    def _schedule_lines(self, key: bytes, value: bytes) -> Iterator[bytes]:
        name = schedules.name_of(key)
        schedule, next_at_ms = self._read(schedules.decode_schedule, key, value), self._ticks.get(name)
        if schedule is not None and next_at_ms is not None and (not self._wanted or schedule.topic in self._wanted):
            yield schedule_lines.encode(name, schedule, next_at_ms)

    def _take_topic(self, key: bytes, value: bytes) -> None:
        entry = self._read(values.decode_topic, key, value)
        name = keys.topic_name(key)
        if entry is None:
            return
        if not self._wanted or whole_of(name) in self._wanted:
            self._names[entry[0]] = name
            self._groups[entry[0]] = ExportGroups()
        elif any(name == origin_of(wanted) for wanted in self._wanted):
            self._origins[entry[0]] = name

    def _note_spread(self, name: bytes, settings: TopicSettings | None) -> None:
        if settings is not None and settings.spread:
            self._spread[name] = settings.spread

    def _settings_lines(self, name: bytes, key: bytes, value: bytes) -> Iterator[bytes]:
        settings = self._read(values.decode_settings, key, value)
        if settings is None:
            return
        if (part := parse_part(name)) is not None:
            self._partition_counts[part[0]] = settings.partitions
            of_groups = {name: own for name in BY_GROUP if (own := getattr(settings, name))}
            if of_groups:
                yield settings_lines.encode(part[0], DEFAULT_SETTINGS._replace(**of_groups), part[1])
            return
        self._note_spread(name, settings)
        if name not in self._written:
            yield settings_lines.encode(name, settings)
        if settings.spread:
            self._written.add(name)

    def _lines_before_messages(self) -> Iterator[bytes]:
        """Yield lines of groups, and of dead letters of spread topics, which have no settings of their own."""
        if self._wanted:
            self._check_wanted(are_settings_known=True)
        self.has_spread = bool(self._spread)
        for name in sorted({whole_of(name) for name in self._names.values() if SEPARATOR in name} - self._written):
            self._written.add(name)
            partition_count = self._partition_counts.get(name, DEFAULT_SETTINGS.partitions)
            settings = DEFAULT_SETTINGS._replace(spread=self._spread_of(name), partitions=partition_count)
            yield settings_lines.encode(name, settings)
        yield from self._group_lines()

    def _take_group(self, parts: Parts, key: bytes, value: bytes) -> None:
        """Take a pair that describes a group or its progress."""
        topic_groups, position = self._groups[parts.topic_id], (parts.partition, parts.group)
        if parts.space is Space.BITMAP:
            topic_groups.settle(*position, parts.order, self._read(values.decode_bitmap, key, value) or 0)
        elif parts.space is Space.GAP:
            topic_groups.finish(*position, parts.order, self._read(values.decode_number, key, value) or 0)
        elif parts.space is Space.CURSOR:
            cursor = self._read(values.decode_cursor, key, value)
            topic_groups.finish(*position, 0, 0 if cursor is None else cursor.head_seq)
        elif parts.space is Space.GROUP_PURGE:
            topic_groups.purge(parts.group)
        elif (entry := self._read(values.decode_topic, key, value)) is not None:
            topic_groups.enter(entry[0], groups.group_name(key))

    def _group_lines(self) -> Iterator[bytes]:
        for topic_id, topic_groups in self._groups.items():
            if not topic_groups.is_default_alone:
                whole, part = parse_part(self._names[topic_id]) or (self._names[topic_id], None)
                yield group_lines.encode(whole, topic_groups.names.values(), part)

    def _chunk_lines(self, parts: Parts, key: bytes, value: bytes) -> Iterator[bytes]:
        topic_groups = self._groups[parts.topic_id]
        unfinished = topic_groups.unfinished_in(parts.partition, parts.order)
        if not unfinished:
            return
        chunk = self._read(lambda value: values.decode_chunk(parts.order, value), key, value)
        if chunk is None:
            return
        attributes = repeat(b"") if chunk.attributes is None else chunk.attributes
        for index, content in enumerate(zip(chunk.payloads, attributes, strict=False)):
            waiting = (name for name, settled in unfinished if not settled >> index & 1)
            if names := [name for name in waiting if is_for(content[1], name)]:
                record = Record(chunk.first_seq + index, chunk.committed_at_ms, NEVER_RETURNED, *content)
                yield from self._line(parts, (Range.LOG, 0), record, topic_groups.of(names), key)

    def _record_lines(self, parts: Parts, key: bytes, value: bytes) -> Iterator[bytes]:
        record = self._read(values.decode_record, key, value)
        if parts.range_ not in (Range.FRONT, Range.DELAYED, Range.BACK):
            self.problems.add("there is no such range; it was skipped", key)
        elif record is not None:
            topic_groups = self._groups[parts.topic_id]
            name = topic_groups.names[parts.group]
            if is_for(record.attributes, name):
                yield from self._line(parts, (Range(parts.range_), parts.order), record, topic_groups.of([name]), key)

    def _delayed_lines(self, parts: Parts, key: bytes, value: bytes) -> Iterator[bytes]:
        message = self._read(delays.decode_delayed, key, value)
        if message is None:
            return
        position = delays.due_at_ms_and_serial(key)
        name = whole_of(self._names[parts.topic_id])
        line = self._read(lambda _: delayed_lines.encode(name, position, message, parts.partition), key, value)
        if line is not None:
            self.message_count += 1
            yield line

    def _line(
        self, parts: Parts, position: tuple[Range, int], record: Record, names: list[bytes], key: bytes
    ) -> Iterator[bytes]:
        try:
            line = encode(whole_of(self._names[parts.topic_id]), *position, record, parts.partition, names)
        except (CorruptionError, FormatVersionError) as exc:
            self.problems.add(f"message {record.seq}: {exc}; it was skipped", key)
            return
        self.message_count += 1
        yield line

    def _read(self, decode: Callable[[bytes], T], key: bytes, value: bytes) -> T | None:
        try:
            return decode(value)
        except (CorruptionError, FormatVersionError) as exc:
            self.problems.add(f"{exc}; it was skipped", key)
            return None
