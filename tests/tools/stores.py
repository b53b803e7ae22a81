"""Stores for the tests of the tools: made by the real broker, changed by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plyvel

from miniqueue.broker import Broker
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.fakes import FakeConsumer, ManualClock
from tests.serving import eventually

TOPIC_ID = 1


def run_on(directory: Path, act: Callable[[Broker, ManualClock], Awaitable[Any]]) -> None:
    """Run a broker on a store while `act` runs; stop it in good order."""

    async def body():
        clock = ManualClock()
        broker = Broker(lambda: LevelDBStore.open(directory), clock=clock, period_seconds=1e6)
        await broker.start()
        try:
            await act(broker, clock)
        finally:
            await broker.stop()

    asyncio.run(body())


async def holding(broker: Broker, topic: bytes) -> FakeConsumer:
    """Return a consumer that holds the next message."""
    consumer = FakeConsumer(broker, topic)
    consumer.consumer.request()
    await eventually(lambda: not consumer.consumer.is_waiting)
    return consumer


async def publish(broker: Broker, topic: bytes, *payloads: bytes) -> None:
    """Publish in one commit."""
    await broker.publish(topic, list(payloads)).commit.wait()


async def fill(broker: Broker, clock: ManualClock) -> None:
    """Bring a topic into every state that there is.

    chunks of `letters`   0 ─ 3          4 5       6 7       8 9
    then                  0 back, 1 out  acked:    6 dacked  untouched
                          2 nacked       a gap     7 acked
                          3 acked                  (deleted)
    """
    for first in (0, 4, 6, 8):
        await publish(broker, b"letters", *(b"letter %d" % n for n in range(first, first + (4 if not first else 2))))
        clock.advance(seconds=1)
    held = [await holding(broker, b"letters") for _ in range(8)]
    held[0].consumer.back()
    held[2].consumer.nack()
    for number in (3, 4, 5, 7):
        held[number].consumer.ack()
    held[6].consumer.dack(3600)
    await publish(broker, b"empty", b"x")
    (await holding(broker, b"empty")).consumer.ack()
    await broker._engine.journal.committer.flush()


def make(directory: Path) -> Path:
    """Make the store of `fill`."""
    run_on(directory, fill)
    return directory


@contextmanager
def opened(directory: Path) -> Iterator[Any]:
    """The bare database of a store."""
    database = plyvel.DB(str(directory / "db"))
    try:
        yield database
    finally:
        database.close()


def contents(directory: Path) -> dict[bytes, bytes]:
    """Return every key and value."""
    with opened(directory) as database:
        return dict(database)
