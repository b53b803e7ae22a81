"""Numbers of variable length: every size, and what is none."""

import pytest

from miniqueue.storage.leveldb.files.blocks import varint


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xac\x02", 300),
        (b"\x80\x00", 0),
        (b"\xff" * 9 + b"\x01", (1 << 64) - 1),
    ],
)
def test_a_number_and_where_it_ends(content, number):
    assert varint(b"x" + content + b"\xff", 1) == (number, 1 + len(content))


@pytest.mark.parametrize("content", [b"", b"\x80", b"\xff" * 9])
def test_a_number_cut_short_is_an_index_error(content):
    with pytest.raises(IndexError):
        varint(content, 0)


@pytest.mark.parametrize("size", [10, 11, 100_000])
def test_a_number_longer_than_64_bits_is_an_index_error(size):
    with pytest.raises(IndexError):
        varint(b"\xff" * size + b"\x01", 0)
