import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.message.numerals import joined, numeral_runs

#: Where lengths change, or what is shared.
EDGES = [0, 9, 10, 99, 100, 999, 1000, 1999, 9999, 999_999, 10**18]


@given(st.sampled_from(EDGES), st.integers(-20, 20), st.integers(0, 2500))
def test_numbers_are_spelled_as_python_spells_them(edge, offset, count):
    start = max(0, edge + offset)
    expected = [b"%d" % number for number in range(start, start + count)]
    assert [
        beginning + ending for beginning, endings in numeral_runs(start, start + count) for ending in endings
    ] == expected
    assert joined(start, start + count, b" ") == b" ".join(expected)


@given(st.sampled_from(EDGES), st.integers(1, 2500))
def test_numbers_that_share_a_beginning_have_the_same_length(start, count):
    for beginning, endings in numeral_runs(start, start + count):
        assert len({len(beginning + ending) for ending in endings}) == 1


@pytest.mark.parametrize(("start", "stop"), [(5, 5), (2000, 2000), (7, 3)])
def test_no_numbers_are_nothing(start, stop):
    assert list(numeral_runs(start, stop)) == []
    assert joined(start, stop, b" ") == b""
