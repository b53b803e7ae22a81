"""Makes one imported topic: groups, partitions and lanes, delayed messages, settings, and unique keys.

The keys and values are those that the broker would have written. This module knows neither lines nor a store.
"""

from collections.abc import Sequence

from miniqueue.core.log.delayed import NO_DELAYS, DelaysState
from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.attributes import expires_at_ms, only_for, unique_key
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.lanes import partition_of
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.message.parts import first_partition_of
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import InvalidLineError
from miniqueue.storage.format import dedup, delays, groups, keys, values
from miniqueue.tools.importing.group import Batch
from miniqueue.tools.importing.log import LogImport
from miniqueue.tools.lines.delayed import StoredDelayed
from miniqueue.tools.lines.messages import StoredMessage
from miniqueue.tools.lines.sequence_set import SequenceSet


class DelaysImport:
    """The delayed messages of one new topic, which are in its first partition.

    Attributes:
      state: statistics of the messages so far.
    """

    def __init__(self, topic_id: int, partition: int) -> None:
        self.state = NO_DELAYS
        self._topic_id = topic_id
        self._partition = partition
        self._serials = SequenceSet()

    def take(self, delayed: StoredDelayed, batch: dict[bytes, bytes | None]) -> None:
        """Add a message; raise InvalidLineError if another message has its serial."""
        (due_at_ms, serial), message = delayed.position, delayed.message
        if not self._serials.add(serial):
            raise InvalidLineError(f"another delayed message has the serial {serial}")
        count, size_bytes, last_serial, head_due_at_ms = self.state
        size_bytes += message.content_bytes
        self.state = DelaysState(count + 1, size_bytes, max(serial, last_serial), min(due_at_ms, head_due_at_ms))
        key = delays.delayed(self._topic_id, self._partition, due_at_ms, serial)
        batch[key] = delays.encode_delayed(message)

    def finish(self, batch: dict[bytes, bytes | None]) -> None:
        """Add the statistics, if there are messages."""
        if self.state.message_count:
            batch[delays.delays(self._topic_id, self._partition)] = delays.encode_delays(self.state)


class TopicImport:
    """One new topic.

    Args:
      name: name of the topic.
      topic_id: id of the topic, not used before.
      now_ms: creation time of the topic, and publish time of messages whose line does not contain it.
    """

    def __init__(self, name: bytes, topic_id: int, now_ms: int) -> None:
        self.name = name
        self._first_partition = first_partition_of(name)
        self.topic_id = topic_id
        self._now_ms = now_ms
        self._lanes: dict[int, LogImport] = {}
        self._groups: dict[bytes, int] | None = None  # ids by name
        self._settings: TopicSettings | None = None
        self._delays = DelaysImport(topic_id, self._first_partition)

    @property
    def message_count(self) -> int:
        """Number of messages taken so far; a message that several groups need counts once."""
        return self._delays.state.message_count + sum(lane.message_count for lane in self._lanes.values())

    def take(self, message: StoredMessage, batch: Batch) -> None:
        """Add a message; complete chunks are added to `batch`. Raises InvalidLineError if it cannot be added."""
        number = message.partition
        if (only := only_for(message.attributes)) and only not in self._group_ids:
            raise InvalidLineError(f"the topic has no group {only.decode()!r}, which is the only group of the message")
        if not 0 <= partition_of(number) - self._first_partition < MAX_PARTITIONS:
            raise InvalidLineError(f"partition limit exceeded; a topic has at most {MAX_PARTITIONS} partitions")
        message_id = self._lane(number).take(message, batch)
        if not message.groups or self._key_group in message.groups:
            self._own(message.attributes, message_id, batch)

    def _lane(self, number: int) -> LogImport:
        if number not in self._lanes:
            self._lanes[number] = LogImport(self.topic_id, number, self._group_ids, self._now_ms)
        return self._lanes[number]

    @property
    def _group_ids(self) -> dict[bytes, int]:
        """The ids of the groups by name; they must not change once the topic has a lane."""
        if self._groups is None:
            self._groups = {DEFAULT_GROUP_NAME: DEFAULT_GROUP}
        return self._groups

    @property
    def _key_group(self) -> bytes:
        """The group whose messages hold unique keys."""
        names = self._group_ids
        return DEFAULT_GROUP_NAME if DEFAULT_GROUP_NAME in names else min(names)

    def delay(self, message: StoredDelayed, batch: Batch) -> None:
        """Add a delayed message; raise InvalidLineError if it cannot be added."""
        if message.partition != self._first_partition:
            raise InvalidLineError("a message of a part of a spread topic; the settings of the topic must come first")
        self._delays.take(message, batch)
        self._own(message.message.attributes, bytes(DelayedId(self._first_partition, *message.position)), batch)

    def configure(self, settings: TopicSettings) -> None:
        """Set the settings of the topic; raise InvalidLineError if they are set already."""
        if self._settings is not None:
            raise InvalidLineError("duplicate settings of this topic")
        self._settings = settings

    def read_by(self, names: Sequence[bytes]) -> None:
        """Set the groups of the topic; raise InvalidLineError if they are set or in use already."""
        if self._groups is not None:
            raise InvalidLineError("misplaced groups; they must come once, before the messages of the topic")
        others = [name for name in names if name != DEFAULT_GROUP_NAME]
        self._groups = {name: group_id for group_id, name in enumerate(others, DEFAULT_GROUP + 1)}
        if len(others) < len(names):
            self._groups[DEFAULT_GROUP_NAME] = DEFAULT_GROUP

    def _own(self, attributes: bytes, message_id: bytes, batch: Batch) -> None:
        """Add the claim of a message to its unique key, if it has one; several messages can have the same key."""
        if key := unique_key(attributes):
            claim = dedup.unique(self.topic_id, key, message_id)
            batch[claim] = dedup.encode_unique(expires_at_ms(attributes))

    def end_chunk(self, batch: Batch) -> None:
        """Add the messages of the logs that are in memory, if any, as chunks."""
        for lane in self._lanes.values():
            lane.end_chunk(batch)

    def finish(self, batch: Batch) -> None:
        """Add what remains of each lane, and the entry in the registry.

        The number of partitions is that of the settings, or that of the messages if it is larger.
        """
        self._delays.finish(batch)
        settings = self._settings or DEFAULT_SETTINGS
        first = self._first_partition
        partition_count = max([settings.partitions, *[partition_of(number) - first + 1 for number in self._lanes]])
        for number in range(first, first + partition_count):
            self._lane(number)
        for lane in self._lanes.values():
            lane.finish(batch)
        settings = settings._replace(partitions=partition_count)
        if settings != DEFAULT_SETTINGS:
            batch[keys.settings(self.topic_id)] = values.encode_settings(settings)
        for name, group_id in self._group_ids.items():
            if group_id != DEFAULT_GROUP:
                batch[groups.group(self.topic_id, name)] = values.encode_topic(group_id, self._now_ms)
        batch[keys.topic(self.name)] = values.encode_topic(self.topic_id, self._now_ms)
