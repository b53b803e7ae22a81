"""The marks of an axis of the plots."""

import pytest

from benchmarks.plots import ticks


@pytest.mark.parametrize(
    ("least", "most", "marks"),
    [
        (30_000, 650_000, [20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000]),
        (101, 102, [100, 200]),
        (100, 100, [50, 100, 200]),
        (7, 7, [5, 10]),
    ],
)
def test_an_axis_has_marks_on_both_sides_of_all_values(least, most, marks):
    assert ticks(least, most) == marks
