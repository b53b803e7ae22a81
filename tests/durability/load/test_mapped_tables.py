"""What was read of tables leaves RAM when it is too much, stays otherwise, and can be read again."""

import mmap
import os
from pathlib import Path

import pytest

from miniqueue.storage.leveldb.mapped_tables import is_limit_exceeded, limit_mapped_tables
from tests.durability.load.measuring import file_bytes

MIB = 1 << 20
SIZE_BYTES = 16 * MIB


@pytest.fixture
def content() -> bytes:
    return os.urandom(SIZE_BYTES)


def mapped(path: Path, content: bytes) -> mmap.mmap:
    """Map a file as LevelDB maps a table; what is dirty would not leave RAM."""
    with path.open("wb+") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


@pytest.mark.parametrize("name", ["000007.ldb", "000007.sst"])
def test_the_pages_of_a_table_leave_ram_and_can_be_read_again(tmp_path, content, name):
    with mapped(tmp_path / name, content) as table:
        assert table[:] == content
        before_bytes = file_bytes(os.getpid())
        limit_mapped_tables(0)
        assert file_bytes(os.getpid()) < before_bytes - SIZE_BYTES // 2
        assert table[:] == content


@pytest.mark.parametrize(("name", "max_bytes"), [("000007.ldb", 1 << 40), ("other", 0)])
def test_pages_stay_if_they_are_within_the_limit_or_not_of_a_table(tmp_path, content, name, max_bytes):
    with mapped(tmp_path / name, content) as file:
        assert file[:] == content
        before_bytes = file_bytes(os.getpid())
        limit_mapped_tables(max_bytes)
        assert file_bytes(os.getpid()) > before_bytes - SIZE_BYTES // 2


def test_the_limit_is_exceeded_if_more_of_files_is_in_ram():
    """It is checked often, and tables are released only then."""
    in_ram_bytes = file_bytes(os.getpid())
    assert is_limit_exceeded(in_ram_bytes // 2)
    assert not is_limit_exceeded(in_ram_bytes * 2)
