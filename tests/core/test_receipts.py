import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.receipts import parse_receipts, runs
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


@pytest.mark.parametrize(
    "words", [[], [b""], [b"x"], [b"1", b"-2"], [b"1.5"], [b"9" * 20], [b"1_0"], ["\u0661".encode()]]
)
def test_other_words_are_no_receipts(words):
    with pytest.raises(UnknownReceiptError) as caught:
        parse_receipts(words)
    assert (caught.value.unknown_count, caught.value.count) == (len(words), len(words))
