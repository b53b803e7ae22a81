"""Damage in tables, which LevelDB meets only when it reads them."""

import asyncio
from pathlib import Path

import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.leveldb.view import viewed
from tests.storage.contract import everything
from tests.storage.leveldb.directories import fill, open_and_close


def fill_table(path: Path) -> Path:
    """Make a store that has everything in one table, and return the table."""
    fill(path)
    open_and_close(path)
    (table,) = (path / "db").glob("*.ldb")
    return table


@pytest.mark.parametrize("place", [0.01, 0.5, 0.9])
def test_scan_that_meets_damage_never_ends_as_if_nothing_came_behind_it(tmp_path, place):
    table = fill_table(tmp_path)
    content = bytearray(table.read_bytes())
    content[int(len(content) * place)] ^= 1
    table.write_bytes(content)
    with pytest.raises(CorruptionError):
        open_and_close(tmp_path)


def test_scan_of_all_blocks_damaged_is_not_a_scan_of_nothing(tmp_path):
    table = fill_table(tmp_path)
    content = bytearray(table.read_bytes())
    for offset in range(0, len(content) * 9 // 10, 1000):
        content[offset] ^= 1
    table.write_bytes(content)
    with pytest.raises(CorruptionError):
        open_and_close(tmp_path)
    with pytest.raises(CorruptionError), viewed(tmp_path) as view:
        list(view.pairs())


def test_scan_that_ends_early_gives_its_place_back(tmp_path):
    fill(tmp_path)

    async def body():
        store = await LevelDBStore.open(tmp_path)
        found = await store.scan(b"", b"\xff", max_items=2, max_bytes=1 << 20)
        assert [key for key, _ in found] == [b"000", b"001"]
        assert [key for key, _ in await store.scan(b"010", b"012", max_items=9, max_bytes=9999)] == [b"010", b"011"]
        assert len(await everything(store)) == 60
        await store.close()

    asyncio.run(body())
