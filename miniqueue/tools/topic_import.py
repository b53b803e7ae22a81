"""Makes one imported topic: partitions and lanes, what is delayed, settings, and the unique keys of its messages.

It knows no lines and no store.
"""

from miniqueue.core.attributes import expires_at_ms, unique_key
from miniqueue.core.delayed_id import DelayedId
from miniqueue.core.lanes import partition_of
from miniqueue.core.partitioning import MAX_PARTITIONS
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import InvalidLineError
from miniqueue.storage import dedup_keys, dedup_records, keys, records
from miniqueue.tools.delayed_lines import StoredDelayed
from miniqueue.tools.delays_import import DelaysImport
from miniqueue.tools.log_import import Batch, LogImport
from miniqueue.tools.message_lines import StoredMessage


class TopicImport:
    """One new topic.

    Args:
      name: of the topic.
      topic_id: new.
      now_ms: the time of its creation, and of messages whose line does not say when they were published.

    Attributes:
      message_count: taken so far.
    """

    def __init__(self, name: bytes, topic_id: int, now_ms: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.message_count = 0
        self._now_ms = now_ms
        self._lanes = {0: LogImport(topic_id, 0, now_ms)}
        self._settings: TopicSettings | None = None
        self._delays = DelaysImport(topic_id)

    def take(self, message: StoredMessage, batch: Batch) -> None:
        """Add a message; what is complete goes into `batch`. Raises InvalidLineError when it cannot be."""
        number = message.partition
        if partition_of(number) >= MAX_PARTITIONS:
            raise InvalidLineError(f"a topic has {MAX_PARTITIONS} partitions at most")
        self._own(message.attributes, self._lane(number).take(message, batch), batch)
        self.message_count += 1

    def _lane(self, number: int) -> LogImport:
        if number not in self._lanes:
            self._lanes[number] = LogImport(self.topic_id, number, self._now_ms)
        return self._lanes[number]

    def delay(self, message: StoredDelayed, batch: Batch) -> None:
        """Add a message that is not due; raises InvalidLineError when it cannot be."""
        self._delays.take(message, batch)
        self._own(message.message.attributes, bytes(DelayedId(0, *message.place)), batch)
        self.message_count += 1

    def configure(self, settings: TopicSettings) -> None:
        """Give the topic settings; raises InvalidLineError if it has some already."""
        if self._settings is not None:
            raise InvalidLineError("the settings of this topic came before")
        self._settings = settings

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
        partition_count = max(settings.partitions, *[partition_of(number) + 1 for number in self._lanes])
        for number in range(partition_count):
            self._lane(number)
        for lane in self._lanes.values():
            lane.finish(batch)
        settings = settings._replace(partitions=partition_count)
        if settings != DEFAULT_SETTINGS:
            batch[keys.settings(self.topic_id)] = records.encode_settings(settings)
        batch[keys.topic(self.name)] = records.encode_topic(self.topic_id, self._now_ms)
