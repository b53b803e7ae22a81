"""Spread topics in an import: which part, and so which store, each of their lines belongs to.

    {"topic":"orders","settings":{"spread":4}}   every shard has them
    {"topic":"orders","id":"3073-17", …}         part 3, in its shard

The id of a message says in which part it is, so the lines of a plain topic all go to part 0, in which they keep their
order. In the store of one process, nothing can be spread: the topic gets the partitions of all parts.

    spread 4, partitions 2      3073-17 ─▶ partition 1 of part 3 ─▶ partition 7 of the plain topic
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias, cast

from miniqueue.core.message.lanes import partition_of
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.message.parts import PART_BITS, part_name, part_of_partition
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.settings import BY_GROUP, TopicSettings
from miniqueue.core.settings.spreading import settings_of_part
from miniqueue.errors import InvalidLineError
from miniqueue.tools.importing.line import Line
from miniqueue.tools.lines.delayed import StoredDelayed
from miniqueue.tools.lines.groups import StoredGroups
from miniqueue.tools.lines.messages import StoredMessage
from miniqueue.tools.lines.schedules import StoredSchedule
from miniqueue.tools.lines.settings import StoredSettings

#: A line that is about one topic.
_OfTopic: TypeAlias = StoredSettings | StoredGroups | StoredDelayed | StoredMessage


class Routes:
    """Finds the store of each line.

    Args:
      placing: the shards of the store.
    """

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._spread: dict[bytes, TopicSettings] = {}  # the settings of spread topics, by name
        self._begun: set[bytes] = set()  # the parts with settings
        self._groups: dict[bytes, StoredGroups] = {}  # the first groups of each topic that becomes a plain one

    def of(self, line: Line) -> Iterator[tuple[int, Line]]:
        """Yield what a line becomes, each with the number of its shard; raises InvalidLineError."""
        if isinstance(line, StoredSchedule):
            yield self._shard_of(line.schedule.topic), line
        elif isinstance(line, StoredSettings) and line.settings.spread and line.part is None:
            yield from self._begin(line)
        elif (settings := self._spread.get(line.topic)) is None:
            if isinstance(line, (StoredSettings, StoredGroups)) and line.part is not None:
                raise InvalidLineError("a part of a topic that is not spread; its settings must come first")
            yield self._shard_of(line.topic), line
        elif self._placing.shard_count == 1:
            yield from ((0, each) for each in self._plain(line, settings))
        else:
            yield from self._in_part(line, settings)

    def _shard_of(self, topic: bytes) -> int:
        return self._placing.shard_of(topic) if self._placing.shard_count > 1 else 0

    def _begin(self, line: StoredSettings) -> Iterator[tuple[int, Line]]:
        settings = self._spread[line.topic] = line.settings
        if self._placing.shard_count > 1:
            yield from ((shard, line) for shard in range(self._placing.shard_count))
            return
        partition_count = settings.spread * settings.partitions
        if partition_count > MAX_PARTITIONS:
            raise InvalidLineError(f"{partition_count} partitions in all parts; at most {MAX_PARTITIONS}")
        plain = settings._replace(spread=0, spread_before=(), partitions=partition_count)
        yield 0, line._replace(settings=plain)

    def _in_part(self, line: _OfTopic, settings: TopicSettings) -> Iterator[tuple[int, Line]]:
        """Yield a line of a part, after the settings of the part."""
        part = part_name(line.topic, _part_of(line, settings))
        shard = self._placing.shard_of(part)
        own = settings_of_part(settings)
        if isinstance(line, StoredSettings):
            own = own._replace(**{name: getattr(line.settings, name) for name in BY_GROUP})
        if part not in self._begun:
            self._begun.add(part)
            yield shard, StoredSettings(part, own)
        elif isinstance(line, StoredSettings):
            raise InvalidLineError("misplaced settings; they must come once, before the messages of the part")
        if isinstance(line, StoredMessage):
            yield shard, replace(line, topic=part)
        elif not isinstance(line, StoredSettings):
            yield shard, cast(Line, line._replace(topic=part))

    def _plain(self, line: _OfTopic, settings: TopicSettings) -> Iterator[Line]:
        """Yield the line of a part as one of a plain topic; what is set for its groups is the same in each part."""
        part = _part_of(line, settings)
        if isinstance(line, StoredMessage):
            within = partition_of(line.partition) & (1 << PART_BITS) - 1
            if within >= settings.partitions:
                raise InvalidLineError(f"partition {within} of a part; each has {settings.partitions}")
            priority = line.partition - partition_of(line.partition)
            yield replace(line, partition=priority | part * settings.partitions + within)
        elif isinstance(line, StoredDelayed):
            due_at_ms, serial = line.position
            yield line._replace(position=(due_at_ms, serial * settings.spread + part), partition=0)
        elif isinstance(line, StoredGroups):
            first = self._groups.setdefault(line.topic, line)
            if {*first.names} != {*line.names}:
                raise InvalidLineError("the parts of the topic have other groups")
            if first is line:
                yield line._replace(part=None)


def _part_of(line: _OfTopic, settings: TopicSettings) -> int:
    """Return the part that a line belongs to; raises InvalidLineError."""
    if isinstance(line, StoredMessage):
        part = part_of_partition(partition_of(line.partition))
    elif isinstance(line, StoredDelayed):
        part = part_of_partition(line.partition)
    else:
        part = line.part or 0
    if part >= settings.spread:
        raise InvalidLineError(f"part {part} of a topic that is spread over {settings.spread}")
    return part
