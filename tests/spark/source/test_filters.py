"""Conditions make a read smaller, and never leave out what they hold for."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual

from miniqueue.spark.filters import Narrowing
from miniqueue.spark.offsets import Range
from miniqueue.spark.options import Options, Use
from miniqueue.spark.readers import BatchReader
from tests.spark.fake_client import FakeClient

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


class SetBackClient(FakeClient):
    """Has a log that was written while the clock was set back; finds a time as a broker does, halving the log."""

    times = (NOON, NOON + timedelta(hours=2), NOON - timedelta(hours=1), NOON, NOON + timedelta(hours=1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_from(self, topic, at, partition, *, count):
        return SimpleNamespace(next=bisect_left(self.times, at))


class SetBackOptions(Options):
    def client(self):
        return SetBackClient({"t": (0, [b"x"] * len(SetBackClient.times))})


@pytest.mark.parametrize("make", [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
@pytest.mark.parametrize("time", [*SetBackClient.times, NOON + timedelta(minutes=90)])
def test_no_row_of_a_time_is_skipped_after_the_clock_was_set_back(make, time):
    reader = BatchReader(SetBackOptions({"topic": "t"}, Use.BATCH_READ))
    reader.pushFilters([make(("published_at",), time)])
    assert [partition.range for partition in reader.partitions()] == [Range("t", "0", 0, 5)]
