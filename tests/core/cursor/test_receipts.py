import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.receipts import first_receipt, parse_receipts, part_of_receipt, parts_of_receipts, runs
from miniqueue.errors import UnknownReceiptError


@pytest.mark.parametrize(
    ("receipts", "expected"),
    [
        ([], []),
        ([7], [(7, 8)]),
        ([1, 2, 3], [(1, 4)]),
        ([1, 2, 5, 6, 9], [(1, 3), (5, 7), (9, 10)]),
        ([3, 2, 1], [(3, 4), (2, 3), (1, 2)]),
        ([1, 3, 2, 4], [(1, 2), (3, 4), (2, 3), (4, 5)]),
        ([5, 5], [(5, 6), (5, 6)]),
    ],
)
def test_runs(receipts, expected):
    assert list(runs(receipts)) == expected


@given(st.lists(st.integers(0, 20)))
def test_runs_name_every_receipt_in_its_order(receipts):
    assert [n for start, stop in runs(receipts) for n in range(start, stop)] == receipts


def test_words_become_numbers():
    assert parse_receipts([b"1", b"007"]) == [1, 7]
    assert parse_receipts([b"12", b"3", b"4"]) == [12, 3, 4]


@given(st.integers(0, 10**19 - 1001), st.integers(8, 1000))
def test_many_consecutive_words_become_a_range(start, count):
    words = [b"%d" % number for number in range(start, start + count)]
    assert parse_receipts(words) == range(start, start + count)
    assert list(runs(parse_receipts(words))) == [(start, start + count)]


@given(st.lists(st.integers(95, 105), min_size=1, max_size=20))
def test_words_become_the_numbers_that_each_of_them_says(numbers):
    assert list(parse_receipts([b"%d" % number for number in numbers])) == numbers


@pytest.mark.parametrize(
    "words",
    [
        [],
        [b""],
        [b"x"],
        [b"1", b"-2"],
        [b"1.5"],
        [b"9" * 20],
        [b"1_0"],
        [b"1 2"],
        [b"1", b"2 3"],
        [b"1", b""],
        ["\u0661".encode()],
    ],
)
def test_other_words_are_no_receipts(words):
    with pytest.raises(UnknownReceiptError) as caught:
        parse_receipts(words)
    assert (caught.value.unknown_count, caught.value.count) == (len(words), len(words))


@pytest.mark.parametrize("prefixes", [[b""], [b"ab-"], [b"ab-", b"ab-"], [b"ab-", b"cd-", b"ab-"], [b"ab-", b""]])
def test_parts_are_found_in_receipts(prefixes):
    parts = {b"": 5, b"ab-": 3, b"cd-": 7}
    words = [b"%b%d" % (prefix, first_receipt(2, parts[prefix])) for prefix in prefixes]
    assert parts_of_receipts(words) == list(map(part_of_receipt, words)) == [parts[prefix] for prefix in prefixes]


def test_parts_are_found_in_receipts_of_streams():
    parts = [3, 3, 0, 63, 3]
    words = [b"%d" % (first_receipt(4095, part) + number) for number, part in enumerate(parts)]
    assert parts_of_receipts(words) == parts
    assert parts_of_receipts([*words, b"1" * 20]) == [*parts, 0]


@pytest.mark.parametrize("words", [[], [b""], [b"-"], [b"x", b"y"], [b"a-x", b"a-y"]])
def test_other_words_name_the_first_part(words):
    assert parts_of_receipts(words) == [0] * len(words)
