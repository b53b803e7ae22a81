"""Ranges of a log are read page by page, and what is missing is reported."""

from queue import Queue

import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.errors import LostMessagesError
from miniqueue.spark.log_source import bounds_of, check_topics, offsets_at, read_range
from miniqueue.spark.offsets import Range
from miniqueue.spark.options import Options, Use
from miniqueue_client import Bounds
from tests.spark.fake_client import FakeClient

LOGS = {"t": (10, [b"%d" % n for n in range(10, 20)])}


class AskedClient(FakeClient):
    """Tells from which offsets it was read."""

    def __init__(self, logs):
        super().__init__(logs)
        self.asked = Queue()

    def execute(self, call):
        self.asked.put(call.words[3])
        return super().execute(call)


def values(client, wanted, **options):
    batches = list(read_range(client, wanted, **options))
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_a_range_is_read_to_its_end_and_not_beyond():
    assert values(FakeClient(LOGS), Range("t", "0", 12, 17), may_miss=False) == [b"12", b"13", b"14", b"15", b"16"]


@pytest.mark.parametrize(
    ("wanted", "lost", "left"),
    [
        (Range("t", "0", 7, 12), 3, [b"10", b"11"]),
        (Range("t", "0", 5, 8), 3, []),
        (Range("t", "0", 18, 25), 5, [b"18", b"19"]),
        (Range("t", "0", 25, 30), 5, []),
        (Range("u", "0", 0, 2), 2, []),
    ],
)
def test_what_is_gone_is_an_error_or_left_out_and_told(wanted, lost, left, caplog):
    with pytest.raises(LostMessagesError, match=rf"^{lost} messages of {wanted.topic}"):
        values(FakeClient(LOGS), wanted, may_miss=False)
    assert values(FakeClient(LOGS), wanted, may_miss=True) == left
    assert caplog.messages == [f"{lost} messages of {wanted.topic}, partition 0, are left out: they are gone"]


def test_the_next_page_is_asked_for_while_one_is_used_and_no_more():
    client = AskedClient(LOGS)
    batches = read_range(client, Range("t", "0", 10, 20), may_miss=False)
    next(batches)
    assert [client.asked.get(timeout=60) for _ in range(2)] == [10, 13]
    batches.close()
    assert client.asked.empty()


def test_of_an_empty_range_nothing_is_asked():
    client = AskedClient(LOGS)
    assert values(client, Range("t", "0", 12, 12), may_miss=False) == []
    assert client.asked.empty()


def test_a_topic_that_does_not_exist_has_no_partitions():
    assert bounds_of(FakeClient(LOGS), ["t", "u"]) == {"t": [Bounds("0", 10, 20)], "u": []}


def test_topics_that_are_not_there_are_named_unless_messages_may_be_missing():
    """Found by a reader: a topic that was misspelled had no messages, and that was a success."""
    client = FakeClient(LOGS)
    check_topics(client, Options({"topic": "t"}, Use.BATCH_READ))
    check_topics(client, Options({"topic": "t,u", "failOnDataLoss": "false"}, Use.BATCH_READ))
    with pytest.raises(
        ConfigError,
        match=r"^there is no topic u on redis://localhost:6379; .*there is no topic v on redis://localhost:6379$",
    ):
        check_topics(client, Options({"topic": "u,t,v"}, Use.BATCH_READ))


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ({}, {"t": {"0": 10}, "u": {}}),
        ({"startingOffsets": "latest"}, {"t": {"0": 20}, "u": {}}),
        ({"startingOffsets": '{"t":{"0":15}}'}, {"t": {"0": 15}, "u": {}}),
        ({"startingOffsets": '{"u":{"0":0}}'}, {"t": {"0": 10}, "u": {"0": 0}}),
        ({"startingOffsets": '{"u":{"0":3}}', "failOnDataLoss": "false"}, {"t": {"0": 10}, "u": {"0": 3}}),
    ],
)
def test_a_read_begins_where_the_options_say(given, offsets):
    options = Options({"topic": "t,u", **given}, Use.BATCH_READ)
    assert offsets_at(FakeClient(LOGS), options, "starting", "earliest") == offsets


def test_offsets_of_a_topic_that_is_not_read_are_a_mistake():
    options = Options({"topic": "t", "startingOffsets": '{"x":{"0":3}}'}, Use.BATCH_READ)
    with pytest.raises(ConfigError, match="x"):
        offsets_at(FakeClient(LOGS), options, "starting", "earliest")


@pytest.mark.parametrize("side", ["starting", "ending"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"t":{"0":99999}}', "99999 is after the end of t, partition 0, which is 20"),
        ('{"t":{"7":0}}', "t has no partition 7; there are 0"),
        ('{"u":{"0":3}}', "3 is after the end of u, partition 0, which is 0"),
    ],
)
def test_offsets_that_never_were_are_not_told_to_be_gone(side, given, said):
    """Found by a reader: `endingOffsets` behind the end said that messages had gone which had never been."""
    options = Options({"topic": "t,u", f"{side}Offsets": given}, Use.BATCH_READ)
    with pytest.raises(ConfigError, match=f"^{side}Offsets: {said}$"):
        offsets_at(FakeClient(LOGS), options, side, "latest")
