"""Where the micro-batches of a stream end: at what is new, also in new partitions; and what cannot be, in words."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from miniqueue.errors import ConfigError
from miniqueue.spark.errors import TopicRestartedError
from miniqueue.spark.offsets import Range
from miniqueue.spark.options import Options, Use
from miniqueue.spark.readers import RangeOfLog, StreamReader
from miniqueue_client import Bounds
from tests.spark.fake_client import FakeClient

ALL = ReadAllAvailable()


@pytest.fixture
def make(monkeypatch):
    """Return a reader of topics `a` and `b`, with a client of these logs."""

    def make_reader(logs, **options):
        monkeypatch.setattr(Options, "client", lambda _: FakeClient(logs))
        return StreamReader(Options({"topic": "a,b", **options}, Use.STREAM_READ))

    return make_reader


def log(count):
    return (0, [b"x"] * count)


def test_a_checkpoint_of_another_topic_is_refused_and_that_topic_is_named(make):
    reader = make({"a": log(5), "b": log(0)})
    with pytest.raises(ConfigError, match="the checkpoint belongs to a stream that also reads orders"):
        reader.latestOffset({"a": {"0": 1}, "orders": {"0": 17}}, ALL)


def test_a_topic_that_is_read_besides_begins_with_its_first_message(make):
    reader = make({"a": log(5), "b": log(3)})
    start = {"a": {"0": 5}}
    end = reader.latestOffset(start, ALL)
    assert end == {"a": {"0": 5}, "b": {"0": 3}}
    assert reader.partitions(start, end) == [RangeOfLog(Range("b", "0", 0, 3))]


def test_a_topic_that_is_not_there_yet_is_read_when_it_is_made(make):
    logs = {"b": log(2)}
    reader = make(logs)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start == {"a": {}, "b": {"0": 2}}
    logs["a"] = log(3)
    assert reader.partitions(start, reader.latestOffset(start, ALL)) == [RangeOfLog(Range("a", "0", 0, 3))]


@pytest.mark.parametrize("logs", [{"b": log(0)}, {"a": log(2), "b": log(0)}])
def test_a_topic_that_was_deleted_under_a_stream_is_an_error_or_begins_anew(make, logs):
    start = {"a": {"0": 17}, "b": {}}
    count = len(logs.get("a", (0, []))[1])
    with pytest.raises(TopicRestartedError, match=rf"a, partition 0, was read to offset 17 and ends at {count}: "):
        make(logs).latestOffset(start, ALL)
    reader = make(logs, failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert reader.partitions(start, end) == ([RangeOfLog(Range("a", "0", 0, 2))] if count else [])


def test_a_partition_that_was_added_is_read_from_its_first_message_and_counts_for_the_limit(make, monkeypatch):
    reader = make({"a": log(5), "b": log(0)})
    grown = {"a": [Bounds("0", 0, 9), Bounds("1", 0, 6)], "b": []}
    monkeypatch.setattr(FakeClient, "partitions", lambda _, topic: grown[topic])
    start = {"a": {"0": 5}, "b": {}}
    end = reader.latestOffset(start, ReadMaxRows(5))
    assert end == {"a": {"0": 7, "1": 3}, "b": {}}
    assert reader.partitions(start, end) == [RangeOfLog(Range("a", "0", 5, 7)), RangeOfLog(Range("a", "1", 0, 3))]


def test_what_comes_while_a_stream_reads_what_there_was_is_left_for_the_next_run(make):
    logs = {"a": log(5), "b": log(0)}
    reader = make(logs, maxMessagesPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    logs["a"] = log(50)
    at, limit, ends = {"a": {"0": 0}, "b": {"0": 0}}, reader.getDefaultReadLimit(), []
    while (end := reader.latestOffset(at, limit)) != at:
        ends.append(end["a"]["0"])
        at = end
    assert ends == [3, 5]
    assert reader.reportLatestOffset() == {"a": {"0": 50}, "b": {"0": 0}}
