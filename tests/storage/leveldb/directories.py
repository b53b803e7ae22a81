"""Make, open and compare store directories, for tests."""

import asyncio
import hashlib
from pathlib import Path
from random import Random

from miniqueue.storage.leveldb.files.log import survey
from miniqueue.storage.leveldb.set_aside import SetAside
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode
from tests.storage.contract import everything

BATCH_COUNT = 60


def open_and_close(path: Path) -> tuple[list[tuple[bytes, bytes]], tuple[SetAside, ...]]:
    """Open the store and return what is in it and what was set aside."""

    async def body():
        store = await LevelDBStore.open(path)
        try:
            return await everything(store), store.set_aside
        finally:
            await store.close()

    return asyncio.run(body())


def fill(path: Path, value_bytes: int = 1000) -> Path:
    """Make a store of `BATCH_COUNT` batches, none acknowledged, all of them in its newest log, and return the log."""

    async def body():
        store = await LevelDBStore.open(path, sync=SyncMode.NEVER)
        for number in range(BATCH_COUNT):
            await store.write({b"%03d" % number: Random(number).randbytes(value_bytes)})
        await store.close()

    asyncio.run(body())
    return max((path / "db").glob("*.log"))


def fingerprint(directory: Path) -> dict[str, str]:
    """Return a hash of every file; LevelDB's own diary and our lock's owner may change."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in ("LOG", "LOG.old", "miniqueue.lock")
    }


def keys_up_to(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def used_bytes(log: Path) -> int:
    """Return where the batches of a log end; zeroes may be behind them."""
    return survey(log.read_bytes(), verify_checksums=True).end_offset
