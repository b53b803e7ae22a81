"""Puts lines of messages, of settings and of groups into a store as new topics: all of them, or none.

    first line of a topic     NEXT_TOPIC, and PURGE of the new id: "deleted, its keys not yet all"
    lines                     chunks, gaps and records under that id, in batches
    end                       one batch: names, settings, groups, heads, cursors, and no PURGE any more

So an import that breaks off anywhere has added nothing that shows, and the next start removes what it has left. It
is the same with a wrong line. Importing twice is refused at the first line, because the topic is there.
"""

from collections.abc import Iterable

from miniqueue.broker import opening
from miniqueue.errors import InvalidLineError
from miniqueue.server.escaping import escape
from miniqueue.storage import keys, records, schedule_keys, schedule_records
from miniqueue.storage.port import Store
from miniqueue.tools import delayed_lines, group_lines, schedule_lines, settings_lines
from miniqueue.tools.group_import import Batch
from miniqueue.tools.message_lines import decode
from miniqueue.tools.schedule_lines import StoredSchedule
from miniqueue.tools.topic_import import TopicImport

#: Of lines whose messages become one batch; what is in memory is not much more.
BATCH_BYTES = 1 << 20
#: Of the lines of schedules, which are in memory up to the end.
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
        self._begun: dict[TopicImport, None] = {}  # those with a chunk that the next batch must end
        self._line_bytes = 0  # since the last batch

    @classmethod
    async def begin(cls, store: Store, now_ms: int) -> "Importer":
        """Look at what the store holds already; raises StorageError."""
        return cls(store, await opening.read_content(store, {}, 0), now_ms)

    async def take_all(self, lines: Iterable[bytes]) -> tuple[int, int]:
        """Import every line that is not blank; return how many messages and topics they were.

        Raises:
          InvalidLineError: with the number of the line; nothing was imported.
          StorageError: it is not known whether everything was imported, or nothing.
        """
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(number, line)
                if self._line_bytes >= BATCH_BYTES:
                    await self._write()
        await self._finish()
        return sum(topic.message_count for topic in self._topics.values()), len(self._topics)

    def _take(self, number: int, line: bytes) -> None:
        try:
            if (schedule := schedule_lines.decode(line)) is not None:
                self._take_schedule(schedule, len(line))
                return
            if (found := settings_lines.decode(line)) is not None:
                topic = self._topic(found.topic)
                topic.configure(found.settings)
            elif (groups := group_lines.decode(line)) is not None:
                topic = self._topic(groups.topic)
                topic.read_by(groups.names)
            elif (delayed := delayed_lines.decode(line)) is not None:
                topic = self._topic(delayed.topic)
                topic.delay(delayed, self._batch)
            else:
                message = decode(line)
                topic = self._topic(message.topic)
                topic.take(message, self._batch)
        except InvalidLineError as exc:
            raise InvalidLineError(f"line {number}: {exc}; nothing was imported") from exc
        self._begun[topic] = None
        self._line_bytes += len(line)

    def _take_schedule(self, found: StoredSchedule, line_bytes: int) -> None:
        if found.name in self._schedules:
            raise InvalidLineError(f"schedule {escape(found.name.decode())} is in the store already")
        self._schedules[found.name] = found
        self._schedule_bytes += line_bytes
        if self._schedule_bytes > MAX_SCHEDULE_BYTES:
            raise InvalidLineError("the schedules are too much for one import")

    def _topic(self, name: bytes) -> TopicImport:
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        if name in self._taken_names:
            raise InvalidLineError(f"topic {escape(name.decode())} is in the store already")
        topic = self._topics[name] = TopicImport(name, self._next_topic_id, self._now_ms)
        self._next_topic_id += 1
        self._batch[keys.NEXT_TOPIC] = records.encode_number(self._next_topic_id)
        self._batch[keys.purge(topic.topic_id)] = b""
        return topic

    async def _finish(self) -> None:
        for name, found in self._schedules.items():
            if found is not None:
                self._batch[schedule_keys.tick(name)] = records.encode_number(found.next_at_ms)
                self._batch[schedule_keys.schedule(name)] = schedule_records.encode_schedule(found.schedule)
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
