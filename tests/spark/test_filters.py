"""Conditions make a read smaller, and never leave out what they hold for."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual

from miniqueue.spark.filters import Narrowing
from miniqueue.spark.offsets import Range

RANGES = [Range("a", "0", 0, 100), Range("a", "0.high", 0, 10), Range("b", "1", 50, 60)]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], RANGES),
        ([EqualTo(("topic",), "a")], RANGES[:2]),
        ([In(("topic",), ("b", "c"))], RANGES[2:]),
        ([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], RANGES[2:]),
        ([EqualTo(("partition",), 1)], RANGES[2:]),
        ([GreaterThan(("offset",), 54)], [Range("a", "0", 55, 100), Range("b", "1", 55, 60)]),
        (
            [GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 8), LessThanOrEqual(("offset",), 8)],
            [Range("a", "0", 5, 8), Range("a", "0.high", 5, 8)],
        ),
        ([EqualTo(("offset",), 55)], [Range("a", "0", 55, 56), Range("b", "1", 55, 56)]),
        ([IsNotNull(("topic",)), EqualTo(("value",), b"x"), EqualTo(("headers", "name"), "x")], RANGES),
    ],
)
def test_conditions_narrow_what_is_read(filters, left):
    narrowing = Narrowing()
    narrowing.add(filters)
    assert narrowing.narrowed(RANGES) == left


def test_times_are_kept_for_the_broker():
    narrowing = Narrowing()
    narrowing.add([EqualTo(("published_at",), NOON)])
    assert (narrowing.since, narrowing.until) == (NOON, NOON)
    narrowing.add([GreaterThan(("published_at",), NOON.replace(hour=13)), LessThan(("published_at",), NOON)])
    assert (narrowing.since, narrowing.until) == (NOON.replace(hour=13), NOON)
