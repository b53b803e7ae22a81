"""Where reading begins and ends, and how it is divided."""

import re
from datetime import UTC, datetime

import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.offsets import (
    Range,
    check_offsets,
    divided,
    ends_of,
    limited,
    parse_offsets,
    parse_time,
    ranges_between,
    starts_of,
)
from miniqueue_client import Bounds

BOUNDS = {"b": [Bounds("0", 5, 10)], "a": [Bounds("0", 0, 100), Bounds("0.high", 3, 3)]}


def test_partitions_have_a_beginning_and_an_end():
    assert starts_of(BOUNDS) == {"a": {"0": 0, "0.high": 3}, "b": {"0": 5}}
    assert list(ends_of(BOUNDS)) == ["a", "b"]  # in one order: Spark compares offsets as text


def test_offsets_are_json():
    assert parse_offsets('{"t":{"0":17,"0.high":3}}') == {"t": {"0": 17, "0.high": 3}}
    for text in ("17", "[]", '{"t":17}', '{"t":{"0":"x"}}', "earlyest"):
        with pytest.raises(ConfigError):
            parse_offsets(text)


@pytest.mark.parametrize("offset", ["-2", "-1", "1.9", '"5"', "true", "null", "NaN", "[]"])
def test_an_offset_is_a_whole_number_and_no_sign_for_earliest_or_latest(offset):
    with pytest.raises(ConfigError, match=r"^invalid offset: .*; must be an integer of 0 or more"):
        parse_offsets(f'{{"t":{{"0":{offset}}}}}')


@pytest.mark.parametrize(
    "given", [{}, {"b": {"0": 0}}, {"a": {"0": 100, "0.high": 3, "0.low": 0}}, {"new": {"0": 0, "1": 0}}]
)
def test_offsets_up_to_the_end_can_be_also_of_what_has_no_messages_yet(given):
    check_offsets(given, {**BOUNDS, "new": []})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"b": {"0": 11}}, "11 is after the end of b, partition 0, which is 10"),
        ({"a": {"0.low": 1}}, "1 is after the end of a, partition 0.low, which is 0"),
        ({"new": {"0": 1}}, "1 is after the end of new, partition 0, which is 0"),
        ({"a": {"1": 0, "0.high": 3}}, "a has no partition 1; there are 0, 0.high"),
        ({"a": {"x": 0}, "b": {"0": 99}}, "a has no partition x; there are 0, 0.high; 99 is after the end of b, "),
    ],
)
def test_offsets_that_no_message_can_have_are_named(given, said):
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        check_offsets(given, {**BOUNDS, "new": []})


@pytest.mark.parametrize("text", ["2027", "20260101", "1767225600", "0", "99999999999"])
def test_a_number_too_small_for_milliseconds_is_no_time(text):
    with pytest.raises(ConfigError, match=f"^invalid time: '{text}' is {int(text)} ms after the start of 1970; "):
        parse_time(text)


def test_a_time_is_iso_or_milliseconds():
    assert parse_time("1767225600000") == parse_time("2026-01-01T00:00:00Z") == datetime(2026, 1, 1, tzinfo=UTC)
    assert parse_time("2026-01-01") == datetime(2026, 1, 1)
    for text in ("yesterday", "²", "1" + "0" * 15, "1" * 30):
        with pytest.raises(ConfigError, match="invalid time: "):
            parse_time(text)


def test_ranges_lie_between_and_are_not_empty():
    start, end = {"a": {"0": 40}}, {"a": {"0": 100, "0.high": 3}, "b": {"0": 0}}
    assert ranges_between(start, end) == [Range("a", "0", 40, 100), Range("a", "0.high", 0, 3)]


def test_an_end_in_front_of_the_start_is_nothing_or_a_topic_that_was_made_anew():
    start, end = {"a": {"0": 40}}, {"a": {"0": 10}}
    assert ranges_between(start, end) == []
    assert ranges_between(start, end, restarts=True) == [Range("a", "0", 0, 10)]


@pytest.mark.parametrize("max_count", [1, 2, 7, 50, 109, 110, 1000])
def test_a_limit_is_kept_shared_and_leads_to_the_end(max_count):
    start, end = {"a": {"0": 0}, "b": {"0": 5}}, {"a": {"0": 100, "0.low": 5}, "b": {"0": 10}}
    at, steps = start, 0
    while (until := limited(at, end, max_count)) != at:
        counts = [one.size for one in ranges_between(at, until)]
        assert 0 < sum(counts) <= max_count
        at, steps = until, steps + 1
    assert at == end
    assert steps <= 110 // max_count + 3


def test_a_topic_that_was_made_anew_is_read_in_parts_from_its_beginning():
    at, end, read = {"a": {"0": 40}}, {"a": {"0": 10}}, []
    while at != end:
        until = limited(at, end, 4)
        read += ranges_between(at, until, restarts=True)
        at = until
    assert read == [Range("a", "0", 0, 4), Range("a", "0", 4, 8), Range("a", "0", 8, 10)]


def test_ranges_are_divided_by_their_sizes_without_gaps():
    ranges = [Range("a", "0", 0, 100), Range("b", "0", 5, 8)]
    pieces = divided(ranges, 4)
    assert [piece for piece in pieces if piece.topic == "b"] == [Range("b", "0", 5, 8)]
    in_a = [piece for piece in pieces if piece.topic == "a"]
    assert len(in_a) == 4
    assert [piece.start for piece in in_a] == [0, *(piece.end for piece in in_a[:-1])]
    assert divided(ranges, 1) == ranges
    assert divided([], 4) == []
    assert len(divided([Range("a", "0", 0, 2)], 10)) == 2
