import pytest

from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import format_message_id, parse_message_id


def test_an_id_is_partition_and_number():
    assert format_message_id(0, 17) == b"0-17"
    assert parse_message_id(b"0-17") == (0, 17)


def test_the_id_of_a_message_of_a_priority_says_so():
    assert format_message_id(1 << 16, 17) == b"0.high-17"
    assert parse_message_id(b"0.high-17") == (1 << 16, 17)
    assert parse_message_id(b"5.low-0") == (2 << 16 | 5, 0)


@pytest.mark.parametrize(
    "word",
    [
        b"",
        b"17",
        b"0-",
        b"-1",
        b"0-1-2",
        b"0-x",
        b" 0-1",
        b"0--1",
        b"0-" + b"1" * 20,
        b"0.normal-1",
        b"65536-1",
        b"0.-1",
    ],
)
def test_anything_else_is_none(word):
    with pytest.raises(InvalidOptionError):
        parse_message_id(word)
