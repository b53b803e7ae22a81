"""What `miniqueue bench` computes from times."""

import pytest

from miniqueue.commands.measuring.samples import Samples, percentile


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 5.0), (51, 6.0), (95, 10.0), (99, 10.0), (100, 10.0)])
def test_a_percentile_is_a_value_that_was_measured(percent, expected):
    assert percentile([float(n) for n in range(1, 11)], percent) == expected


def test_a_percentile_of_one_value_is_that_value_and_of_none_is_unknown():
    assert percentile([3.0], 99) == 3.0
    assert percentile([], 99) is None


def test_figures_are_computed_from_all_round_trips():
    samples = Samples("publish", 1000, 100_000, 0.5, [0.003, 0.001, 0.002])
    assert samples.row() == {
        "step": "publish",
        "messages": 1000,
        "seconds": 0.5,
        "messages_per_second": 2000.0,
        "bytes_per_second": 200_000.0,
        "p50_ms": 2.0,
        "p95_ms": 3.0,
        "p99_ms": 3.0,
        "max_ms": 3.0,
    }


def test_what_cannot_be_computed_is_unknown():
    row = Samples("publish").row()
    assert (row["messages_per_second"], row["p50_ms"]) == (None, None)
