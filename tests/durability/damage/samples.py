"""Stores to damage: made by the real broker, each with a record of what every commit made of it.

    life of topics ─▶ Broker ─▶ RecordingStore ─▶ LevelDBStore ─▶ directory        copied, damaged, opened again
                                      │
                                      └▶ batches ─▶ MemoryStore ─▶ Broker ─▶ drained      what must come out of it

What a store held after each commit is what a broker reads from a store in memory with the batches up to there,
so nothing that opens, checks or repairs directories has a part in it.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from miniqueue.broker import Broker
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.message.message import Record
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.acknowledged import ACKNOWLEDGED_FILE_NAME
from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Batch, Store
from tests.durability.clients.messages import payload_of
from tests.fakes import START_MS, ManualClock
from tests.storage.leveldb.directories import used_bytes
from tests.storage.leveldb.files.leveldb_log import log_of
from tests.storage.leveldb.files.log_batches import batches_of

#: LevelDB's smallest: a log is full, and becomes a table, after some fifty commits.
SMALL_BUFFER = DatabaseOptions(write_buffer_bytes=64 << 10, compression="snappy")
#: When stores are drained: everything that was delayed is due.
LATE_MS = START_MS + 10**10
PATIENCE_SECONDS = 60
#: Behind the last batch of a log.
KEPT_ZEROES_BYTES = 100
_PREFETCH = 10_000


class Message(NamedTuple):
    """A message as it was delivered."""

    checksum: str
    counts: tuple[int, ...]


@dataclass
class Content:
    """What a broker hands out, in order, and says of itself.

    Attributes:
      messages: the messages of each topic.
      settled: how many messages of each topic were published, and how many acknowledged.
      errors: why reading each topic ended before its last message.
    """

    messages: dict[bytes, list[Message]] = field(default_factory=dict)
    settled: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    errors: dict[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A store in good order.

    Attributes:
      directory: to be copied, never opened.
      states: what it held after each commit; the last is what it holds.
      marks: what `miniqueue.acknowledged` held after each commit.
      acknowledged: the number of the last commit that was confirmed to a client.
    """

    name: str
    directory: Path
    states: list[Content]
    marks: list[bytes]
    acknowledged: int

    @property
    def newest_log(self) -> str:
        return max(path.name for path in (self.directory / "db").glob("*.log"))


@dataclass
class Recording:
    """Every batch that was written, and the mark after every commit."""

    batches: list[Batch] = field(default_factory=list)
    marks: list[bytes] = field(default_factory=lambda: [bytes(40)])


class RecordingStore:
    """A store that remembers what was written to it."""

    def __init__(self, store: Store, recording: Recording, mark: Path) -> None:
        self._store = store
        self._recording = recording
        self._mark = mark

    async def write(self, batch: Batch, *, is_synced: bool = False) -> None:
        await self._store.write(batch, is_synced=is_synced)
        self._recording.batches.append(dict(batch))
        self._recording.marks.append(self._mark.read_bytes())

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


# --- draining -------------------------------------------------------------------------------------------------


def make_broker(open_store: Callable[[], Awaitable[Store]], now_ms: int = LATE_MS) -> Broker:
    """Make a broker whose own ticker never runs."""
    return Broker(open_store, clock=ManualClock(now_ms), period_seconds=1e6)


async def drained(broker: Broker) -> Content:
    """Take every message of every topic, without settling any."""
    content = Content()
    for topic in broker.topics():
        await _drain(broker, topic, content)
    return content


async def _drain(broker: Broker, topic: bytes, content: Content) -> None:
    before = broker.stats()[topic]
    wanted = before.ready + before.delayed
    leases: list[Lease] = []
    errors: list[MiniqueueError] = []
    progress = asyncio.Event()

    def deliver(more: list[Lease]) -> None:
        leases.extend(more)
        progress.set()

    def fail(error: MiniqueueError) -> None:
        errors.append(error)
        progress.set()

    consumer = broker.consumer(topic, deliver, fail, _PREFETCH)
    try:
        consumer.request()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not errors and sum(lease.count for lease in leases) < wanted:
                progress.clear()
                await progress.wait()
    except (MiniqueueError, TimeoutError) as error:
        errors.append(error if isinstance(error, MiniqueueError) else MiniqueueError("stuck"))
    content.messages[topic] = [_message(record) for lease in leases for record in lease.records()]
    content.settled[topic] = (before.published, before.acknowledged)
    if errors:
        content.errors[topic] = str(errors[0])


def _message(record: Record) -> Message:
    return Message(hashlib.sha256(record.payload).hexdigest(), tuple(record.counts))


async def _state_after(batches: list[Batch]) -> Content:
    store = MemoryStore()
    for batch in batches:
        await store.write(batch)

    async def open_store() -> Store:
        return store

    broker = make_broker(open_store)
    await broker.start()
    content = await drained(broker)
    await broker.stop()
    return content


async def _states(batches: list[Batch]) -> list[Content]:
    """Return the state after each commit, that after none first."""
    return [await _state_after(batches[:end]) if end else Content() for end in range(len(batches) + 1)]


# --- lives ----------------------------------------------------------------------------------------------------


class Life:
    """Does with topics what clients do, one commit at a time."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._next_id = 1

    async def publish(self, topic: bytes, count: int, size_bytes: int | None = None) -> None:
        payloads = [payload_of(self._next_id + n)[:size_bytes] for n in range(count)]
        self._next_id += count
        await self.broker.publish(topic, payloads).commit.wait()

    async def delete(self, topic: bytes) -> None:
        """Delete a topic, and wait until nothing is left of it: what comes later must be later in the log too."""
        start, stop = keys.purges()
        await self.broker.delete_topic(topic)
        while await self.broker._engine.journal.store.scan(start, stop, max_items=1, max_bytes=1):
            await self.broker._engine.journal.committer.flush()

    async def settle(self, topic: bytes, *acts: str) -> None:
        """Take a message for each act, settle it so, and commit; `hold` lets the connection end with it."""
        for act in acts:
            taken = asyncio.Event()
            consumer = self.broker.consumer(topic, lambda _, taken=taken: taken.set(), _give_up)
            consumer.request()
            await asyncio.wait_for(taken.wait(), PATIENCE_SECONDS)
            if act == "dack":
                consumer.dack(3600)
            elif act != "hold":
                getattr(consumer, act)()
            consumer.close()
        await self.broker._engine.journal.committer.flush()


def _give_up(error: MiniqueueError) -> None:
    raise AssertionError(error)


async def short_life(life: Life) -> None:
    """All that can happen to a message, in a log of some 3 kB."""
    await life.publish(b"a", 3, 20)
    await life.publish(b"doomed", 2, 20)
    await life.settle(b"a", "ack", "nack")
    await life.publish(b"b", 2, 30)
    await life.settle(b"a", "back", "dack")
    await life.delete(b"doomed")
    await life.publish(b"a", 2, 20)
    await life.settle(b"b", "ack", "hold")
    await life.publish(b"b", 1, 200)


async def long_life(life: Life) -> None:
    """Enough for many tables, also of what was settled and deleted since."""
    for round_number in range(24):
        topics = (b"a", b"b", b"c")
        for topic in topics:
            await life.publish(topic, 6)
            await life.publish(topic, 1)
        await life.settle(topics[round_number % 3], "ack", "nack", "back", "dack", "hold", "ack", "ack")
        await life.publish(b"doomed", 4)
        if round_number == 3:
            await life.delete(b"doomed")  # compacts: the tables made after it stay as they are
    for _ in range(4):
        await life.publish(b"a", 2, 100)
        await life.settle(b"b", "ack", "dack")


async def _live(directory: Path, life: Callable[[Life], Awaitable[None]], options: DatabaseOptions) -> Recording:
    recording = Recording()

    async def open_store() -> RecordingStore:
        store = await LevelDBStore.open(directory, options=options)
        return RecordingStore(store, recording, directory / ACKNOWLEDGED_FILE_NAME)

    broker = make_broker(open_store, START_MS)
    await broker.start()
    await life(Life(broker))
    await broker.stop()
    return recording


def _make(directory: Path, name: str, life: Callable[[Life], Awaitable[None]], options: DatabaseOptions) -> Sample:
    async def body() -> Sample:
        recording = await _live(directory / name, life, options)
        _cut_zeroes(directory / name)
        states = await _states(recording.batches)
        return Sample(name, directory / name, states, recording.marks, acknowledged=len(states) - 1)

    return asyncio.run(body())


def _cut_zeroes(directory: Path) -> None:
    """Leave only some of what is written ahead in the logs: damage to one zero is like damage to the next."""
    for log in (directory / "db").glob("*.log"):
        os.truncate(log, min(log.stat().st_size, used_bytes(log) + KEPT_ZEROES_BYTES))


def make_fresh(directory: Path) -> Sample:
    """A store with everything in one small log."""
    return _make(directory, "fresh", short_life, DatabaseOptions())


def make_aged(directory: Path) -> Sample:
    """A store with many tables, and a log."""
    return _make(directory, "aged", long_life, SMALL_BUFFER)


def make_idle(fresh: Sample, directory: Path) -> Sample:
    """A store that was opened and stopped without a commit: its log is empty."""

    async def body() -> None:
        await (await LevelDBStore.open(directory / "idle", options=SMALL_BUFFER)).close()

    shutil.copytree(fresh.directory, directory / "idle")
    asyncio.run(body())
    return replace(fresh, name="idle", directory=directory / "idle")


def make_unacknowledged(fresh: Sample, directory: Path, count: int) -> Sample:
    """A store whose last `count` commits were confirmed to no client."""
    place = directory / f"unacknowledged-{count}"
    shutil.copytree(fresh.directory, place)
    acknowledged = fresh.acknowledged - count
    (place / ACKNOWLEDGED_FILE_NAME).write_bytes(fresh.marks[acknowledged])
    return replace(fresh, name=place.name, directory=place, acknowledged=acknowledged)


def make_two_logs(fresh: Sample, directory: Path) -> Sample:
    """A store stopped between the beginning of a new log and the writing of a table from the one before."""
    shutil.copytree(fresh.directory, directory / "two-logs")
    database = directory / "two-logs" / "db"
    older = database / fresh.newest_log
    batches = batches_of(older.read_bytes())
    half = len(batches) // 2
    older.write_bytes(log_of(*batches[:half])[0] + bytes(KEPT_ZEROES_BYTES))
    newer = database / f"{int(older.stem) + 10:06d}.log"
    newer.write_bytes(log_of(*batches[half:])[0])
    return replace(fresh, name="two-logs", directory=directory / "two-logs")
