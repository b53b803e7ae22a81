"""Makes one imported topic: groups, partitions and lanes, what is delayed, settings, and unique keys.

It knows no lines and no store.
"""

from collections.abc import Sequence

from miniqueue.core.attributes import expires_at_ms, only_for, unique_key
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.lanes import partition_of
from miniqueue.core.partition import DEFAULT_GROUP
from miniqueue.core.partitioning import MAX_PARTITIONS
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import InvalidLineError
from miniqueue.storage import dedup_keys, dedup_records, group_keys, keys, records
from miniqueue.tools.delayed_lines import StoredDelayed
from miniqueue.tools.delays_import import DelaysImport
from miniqueue.tools.group_import import Batch
from miniqueue.tools.log_import import LogImport
from miniqueue.tools.message_lines import StoredMessage


class TopicImport:
    """One new topic.

    Args:
      name: of the topic.
      topic_id: new.
      now_ms: the time of its creation, and of messages whose line does not say when they were published.
    """

    def __init__(self, name: bytes, topic_id: int, now_ms: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self._now_ms = now_ms
        self._lanes: dict[int, LogImport] = {}
        self._groups: dict[bytes, int] | None = None  # ids by names
        self._settings: TopicSettings | None = None
        self._delays = DelaysImport(topic_id)

    @property
    def message_count(self) -> int:
        """How many were taken so far; one that several groups are to get counts once."""
        return self._delays.state.message_count + sum(lane.message_count for lane in self._lanes.values())

    def take(self, message: StoredMessage, batch: Batch) -> None:
        """Add a message; what is complete goes into `batch`. Raises InvalidLineError when it cannot be."""
        number = message.partition
        if (only := only_for(message.attributes)) and only not in self._group_ids:
            raise InvalidLineError(f"the topic has no group {only.decode()!r}, and no other gets the message")
        if partition_of(number) >= MAX_PARTITIONS:
            raise InvalidLineError(f"a topic has {MAX_PARTITIONS} partitions at most")
        message_id = self._lane(number).take(message, batch)
        if not message.groups or self._key_group in message.groups:
            self._own(message.attributes, message_id, batch)

    def _lane(self, number: int) -> LogImport:
        if number not in self._lanes:
            self._lanes[number] = LogImport(self.topic_id, number, self._group_ids, self._now_ms)
        return self._lanes[number]

    @property
    def _group_ids(self) -> dict[bytes, int]:
        """The groups of the topic, which may not change once it has a lane."""
        if self._groups is None:
            self._groups = {DEFAULT_GROUP_NAME: DEFAULT_GROUP}
        return self._groups

    @property
    def _key_group(self) -> bytes:
        """The group with whose messages unique keys go."""
        names = self._group_ids
        return DEFAULT_GROUP_NAME if DEFAULT_GROUP_NAME in names else min(names)

    def delay(self, message: StoredDelayed, batch: Batch) -> None:
        """Add a message that is not due; raises InvalidLineError when it cannot be."""
        self._delays.take(message, batch)
        self._own(message.message.attributes, bytes(DelayedId(0, *message.place)), batch)

    def configure(self, settings: TopicSettings) -> None:
        """Give the topic settings; raises InvalidLineError if it has some already."""
        if self._settings is not None:
            raise InvalidLineError("the settings of this topic came before")
        self._settings = settings

    def read_by(self, names: Sequence[bytes]) -> None:
        """Give the topic its groups; raises InvalidLineError if that is too late."""
        if self._groups is not None:
            raise InvalidLineError("the groups of a topic come once, in front of its messages")
        others = [name for name in names if name != DEFAULT_GROUP_NAME]
        self._groups = {name: group_id for group_id, name in enumerate(others, DEFAULT_GROUP + 1)}
        if len(others) < len(names):
            self._groups[DEFAULT_GROUP_NAME] = DEFAULT_GROUP

    def _own(self, attributes: bytes, message_id: bytes, batch: Batch) -> None:
        """Give a message the unique key that it has, if any; of those with one key, which may be, each has it."""
        if key := unique_key(attributes):
            claim = dedup_keys.unique(self.topic_id, key, message_id)
            batch[claim] = dedup_records.encode_unique(expires_at_ms(attributes))

    def end_chunk(self, batch: Batch) -> None:
        """Add the messages of the logs that wait in memory, if any, as chunks."""
        for lane in self._lanes.values():
            lane.end_chunk(batch)

    def finish(self, batch: Batch) -> None:
        """Add what remains of each lane, and the entry in the registry.

        There are as many partitions as the settings say, or, if those are more, as the messages have.
        """
        self._delays.finish(batch)
        settings = self._settings or DEFAULT_SETTINGS
        partition_count = max([settings.partitions, *[partition_of(number) + 1 for number in self._lanes]])
        for number in range(partition_count):
            self._lane(number)
        for lane in self._lanes.values():
            lane.finish(batch)
        settings = settings._replace(partitions=partition_count)
        if settings != DEFAULT_SETTINGS:
            batch[keys.settings(self.topic_id)] = records.encode_settings(settings)
        for name, group_id in self._group_ids.items():
            if group_id != DEFAULT_GROUP:
                batch[group_keys.group(self.topic_id, name)] = records.encode_topic(group_id, self._now_ms)
        batch[keys.topic(self.name)] = records.encode_topic(self.topic_id, self._now_ms)
