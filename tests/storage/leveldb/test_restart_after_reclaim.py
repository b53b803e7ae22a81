"""Compacting makes LevelDB begin a new log; the last commit is in a table then, and that is no loss."""

import pytest

from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode


@pytest.mark.parametrize("mode", list(SyncMode))
async def test_store_opens_again_when_the_last_commit_left_the_log_before_a_sync(tmp_path, mode):
    store = await LevelDBStore.open(tmp_path / "store", sync=mode)
    await store.write({b"\x11": b"1", b"\x20": b"deleted soon"})
    await store.write({b"\x11": b"2", b"\x20": None})
    await store.reclaim(b"\x01", b"\xff")
    await store.sync()
    await store.close()
    store = await LevelDBStore.open(tmp_path / "store", sync=mode)
    assert await store.get(b"\x11") == b"2"
    await store.close()
