"""Writes lines of messages, settings, groups, and schedules to a store as new topics: all of them, or none.

    first line of a topic     NEXT_TOPIC, and PURGE of the new id: "deleted, some of its keys remain"
    lines                     chunks, gaps, and records under that id, in batches
    end                       one batch: names, settings, groups, heads, cursors, schedules; PURGE is deleted

If an import aborts at any point, for example because a line is invalid, no topic is visible, and the next startup of
the broker removes what was written. Importing a file twice is refused at the first line, because its topic exists. With
shards, there is an importer for each, and their ends come one after the other.
"""

from collections.abc import Iterable, Sequence

from miniqueue.broker.stored import opening
from miniqueue.core.message.parts import whole_of
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import InvalidLineError
from miniqueue.server.process.escaping import escape
from miniqueue.storage.format import keys, schedules, values
from miniqueue.storage.port import Store
from miniqueue.tools.importing.group import Batch
from miniqueue.tools.importing.line import Line, decode
from miniqueue.tools.importing.spread import Routes
from miniqueue.tools.importing.topic import TopicImport
from miniqueue.tools.lines.delayed import StoredDelayed
from miniqueue.tools.lines.groups import StoredGroups
from miniqueue.tools.lines.schedules import StoredSchedule
from miniqueue.tools.lines.settings import StoredSettings

#: Size of the lines whose messages become one batch; memory use is not much larger.
BATCH_BYTES = 1 << 20
#: Maximum size of the lines of schedules, which are in memory until the end.
MAX_SCHEDULE_BYTES = 256 << 20


class Importer:
    """One import into a store that this process has open; make one with `begin`."""

    def __init__(self, store: Store, content: opening.StoreContent, now_ms: int) -> None:
        self._store = store
        self._taken_names = {topic.name for topic in content.topics}
        self._next_topic_id = content.next_topic_id
        self._now_ms = now_ms
        self._topics: dict[bytes, TopicImport] = {}
        self._schedules: dict[bytes, StoredSchedule | None] = dict.fromkeys(content.ticks)
        self._schedule_bytes = 0
        self._batch: Batch = {}
        self._begun: dict[TopicImport, None] = {}  # topics with a chunk that the next batch must end
        self._line_bytes = 0  # size of the lines since the last batch

    @classmethod
    async def begin(cls, store: Store, now_ms: int) -> "Importer":
        """Read the existing topics and schedules of a store; raise StorageError."""
        return cls(store, await opening.read_content(store, {}, 0), now_ms)

    @property
    def message_count(self) -> int:
        """Number of messages so far."""
        return sum(topic.message_count for topic in self._topics.values())

    @property
    def topic_names(self) -> set[bytes]:
        """The names of the topics so far, without parts."""
        return set(map(whole_of, self._topics))

    def take(self, line: Line, line_bytes: int) -> None:
        """Take a line of this length; raise InvalidLineError."""
        if isinstance(line, StoredSchedule):
            self._take_schedule(line, line_bytes)
            return
        topic = self._topic(line.topic)
        if isinstance(line, StoredSettings):
            topic.configure(line.settings)
        elif isinstance(line, StoredGroups):
            topic.read_by(line.names)
        elif isinstance(line, StoredDelayed):
            topic.delay(line, self._batch)
        else:
            topic.take(line, self._batch)
        self._begun[topic] = None
        self._line_bytes += line_bytes

    async def write_if_large(self) -> None:
        """Write what was taken, if it is a whole batch; raise StorageError."""
        if self._line_bytes >= BATCH_BYTES:
            await self._write()

    def _take_schedule(self, stored: StoredSchedule, line_bytes: int) -> None:
        if stored.name in self._schedules:
            raise InvalidLineError(f"schedule {escape(stored.name.decode())} exists already in the store")
        self._schedules[stored.name] = stored
        self._schedule_bytes += line_bytes
        if self._schedule_bytes > MAX_SCHEDULE_BYTES:
            raise InvalidLineError(f"too many schedules; their lines can have at most {MAX_SCHEDULE_BYTES} bytes")

    def _topic(self, name: bytes) -> TopicImport:
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        if name in self._taken_names:
            raise InvalidLineError(f"topic {escape(name.decode())} exists already in the store")
        topic = self._topics[name] = TopicImport(name, self._next_topic_id, self._now_ms)
        self._next_topic_id += 1
        self._batch[keys.NEXT_TOPIC] = values.encode_number(self._next_topic_id)
        self._batch[keys.purge(topic.topic_id)] = b""
        return topic

    async def finish(self) -> None:
        """Write the rest, and make the topics visible; raise StorageError: they all are, or none is."""
        for name, stored in self._schedules.items():
            if stored is not None:
                self._batch[schedules.tick(name)] = values.encode_number(stored.next_at_ms)
                self._batch[schedules.schedule(name)] = schedules.encode_schedule(stored.schedule)
        if self._topics or self._batch:
            for topic in self._topics.values():
                topic.finish(self._batch)
                self._batch[keys.purge(topic.topic_id)] = None
            await self._write()

    async def _write(self) -> None:
        batch, self._batch = self._batch, {}
        for topic in self._begun:
            topic.end_chunk(batch)
        self._begun.clear()
        self._line_bytes = 0
        await self._store.write(batch)


async def import_all(importers: Sequence[Importer], lines: Iterable[bytes]) -> tuple[int, int]:
    """Import every line that is not blank; return the numbers of messages and of topics.

    Args:
      importers: one for each shard, in their order; the only one for the store of one process.
      lines: the lines.

    Raises:
      InvalidLineError: a line is invalid; the text has its number; nothing was imported.
      StorageError: a store failed; into each store everything was imported, or nothing.
    """
    routes = Routes(Placing(0, len(importers)))
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            for shard, line in routes.of(decode(text)):
                importers[shard].take(line, len(text))
        except InvalidLineError as exc:
            raise InvalidLineError(f"line {number}: {exc}; nothing was imported") from exc
        for importer in importers:
            await importer.write_if_large()
    for importer in importers:
        await importer.finish()
    names = {name for each in importers for name in each.topic_names}
    return sum(each.message_count for each in importers), len(names)
