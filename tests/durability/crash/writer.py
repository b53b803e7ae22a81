"""Writes batches to a store for a time, and records each in a file when it is acknowledged.

python -m tests.durability.crash.writer store acks count always|interval|never

With `interval` it also syncs now and then, by a call of its own or with a write, and notes that.
"""

import asyncio
import os
import sys
from pathlib import Path

from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode
from tests.durability.clients.messages import payload_of

OPTIONS = DatabaseOptions(write_buffer_bytes=64 << 10)
#: Each batch adds a key and removes the one that is as many batches older.
KEPT = 40
#: With `interval`: of so many batches the last is synced, with all before it.
BATCHES_PER_SYNC = 10
#: After each batch then: for 20 ms after a log has begun everything is synced, and logs begin all the time here.
PAUSE_SECONDS = 0.004
ACKNOWLEDGED, SYNCED = b".", b"s"


def batch(number: int) -> dict[bytes, bytes | None]:
    return {key(number): payload_of(number), key(number - KEPT): None}


def content(count: int) -> dict[bytes, bytes]:
    """Return what a store holds after so many batches."""
    return {key(number): payload_of(number) for number in range(max(0, count - KEPT), count)}


def key(number: int) -> bytes:
    return b"%09d" % (number + KEPT)


async def write(store_directory: Path, acks: Path, count: int, sync: SyncMode) -> None:
    descriptor = os.open(acks, os.O_WRONLY | os.O_CREAT)
    store = await LevelDBStore.open(store_directory, sync=sync, options=OPTIONS)
    for number in range(count):
        is_due = sync is SyncMode.INTERVAL and (number + 1) % BATCHES_PER_SYNC == 0
        is_synced = is_due and number // BATCHES_PER_SYNC % 2 == 0
        await store.write(batch(number), is_synced=is_synced)
        os.write(descriptor, ACKNOWLEDGED)
        if sync is SyncMode.INTERVAL:
            await asyncio.sleep(PAUSE_SECONDS)
        if is_due:
            if not is_synced:
                await store.sync()
            os.write(descriptor, SYNCED)
    await store.close()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), SyncMode(sys.argv[4])))
