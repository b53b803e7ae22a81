import pytest

from miniqueue.core.message.ids import first_id, following_ids, format_message_id, joined_ids, parse_message_id, runs_of
from miniqueue.errors.requests import InvalidOptionError


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


@pytest.mark.parametrize(
    ("places", "runs"),
    [
        ([(0, 17)], b"0-17"),
        ([(0, 17), (0, 18), (0, 19)], b"0-17"),
        ([(0, 17), (0, 18), (3, 5), (0, 19), (0, 20)], b"0-17*2,3-5,0-19"),
        ([(3, 5), (1 << 16, 6), (1 << 16, 7), (3, 6)], b"3-5,0.high-6*2,3-6"),
    ],
)
def test_ids_of_a_batch_are_told_by_their_runs(places, runs):
    assert joined_ids(places) == runs
    assert following_ids(runs, len(places)) == [format_message_id(*place) for place in places]
    assert first_id(runs) == format_message_id(*places[0])
    told = [(parse_message_id(first), count) for first, count in runs_of(runs, len(places))]
    assert [(number, seq + n) for (number, seq), count in told for n in range(count)] == places
