"""What one reading of a log may ask for, as clients write it."""

import pytest

from miniqueue.core.options import read
from miniqueue.errors.requests import InvalidOptionError


@pytest.mark.parametrize(
    ("parse", "word", "number"),
    [
        (read.parse_offset, b"0", 0),
        (read.parse_offset, b"1000000000000000000", 10**18),
        (read.parse_count, b"0", 0),
        (read.parse_count, b"10000", 10_000),
        (read.parse_max_bytes, b"4194304", 4 << 20),
        (read.parse_partition, b"17", 17),
    ],
)
def test_numbers_within_their_bounds_are_taken(parse, word, number):
    assert parse(word) == number


@pytest.mark.parametrize(
    ("parse", "word"),
    [
        (read.parse_offset, b"-1"),
        (read.parse_offset, b""),
        (read.parse_offset, b"1.5"),
        (read.parse_offset, b"1000000000000000001"),
        (read.parse_offset, b"9" * 100),
        (read.parse_offset, "٣".encode()),
        (read.parse_count, b"10001"),
        (read.parse_max_bytes, b"0"),
        (read.parse_max_bytes, b"4194305"),
        (read.parse_partition, b"0-17"),
        (read.parse_partition, b"-1"),
        (read.parse_partition, b"9" * 12),
    ],
)
def test_everything_else_is_refused(parse, word):
    with pytest.raises(InvalidOptionError):
        parse(word)


def test_a_partition_is_written_as_it_is_parsed():
    assert read.partition_word(17) == b"17"
