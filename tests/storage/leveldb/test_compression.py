"""Tables with and without compression: how long they are, and that a store may change its mind."""

import pytest

from miniqueue.storage.leveldb.database import DatabaseOptions, create_database, open_database, pairs_between

TEXT = b'{"status":"paid","currency":"EUR","country":"DE"}' * 20
COUNT = 500


@pytest.fixture
def path(tmp_path):
    create_database(tmp_path / "db")
    return tmp_path / "db"


def opened(path, compression):
    return open_database(path, DatabaseOptions(write_buffer_bytes=64 << 10, compression=compression))


def add(path, compression, first):
    """Add so many values, all in tables when this returns; return how much longer the tables are."""
    before = table_bytes(path)
    database = opened(path, compression)
    for number in range(first, first + COUNT):
        database.put(b"%06d" % number, TEXT)
    database.close()
    opened(path, compression).close()  # which makes a table of what is in the log
    return table_bytes(path) - before


def table_bytes(path):
    return sum(table.stat().st_size for table in path.glob("*.ldb"))


def test_tables_are_as_long_as_what_is_in_them_unless_snappy_is_asked_for(path):
    assert add(path, "none", 0) > COUNT * len(TEXT)
    assert add(path, "snappy", COUNT) < COUNT * len(TEXT) / 2


@pytest.mark.parametrize("compressions", [("none", "snappy"), ("snappy", "none")])
def test_what_was_written_the_other_way_is_read(path, compressions):
    for start, compression in enumerate(compressions):
        add(path, compression, start * COUNT)
    database = opened(path, compressions[1])
    found = list(pairs_between(database, b"", b"\xff"))
    database.close()
    assert found == [(b"%06d" % number, TEXT) for number in range(2 * COUNT)]
