"""The rows of a task are published with ids, and again when the broker takes them later."""

import pyarrow as pa
import pytest

from miniqueue.client import RefusedError
from miniqueue.spark import publishing
from miniqueue.spark.losses import NotWrittenError
from miniqueue.spark.publishing import publish_rows
from tests.spark.fake_client import FakeClient


def batch(*values):
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})


def publish(client, *batches, id_prefix="run/3", batch_messages=2, block_seconds=60.0):
    return publish_rows(
        client, "t", batches, id_prefix=id_prefix, batch_messages=batch_messages, block_seconds=block_seconds
    )


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(publishing, "PAUSE_SECONDS", 0)


def test_each_row_has_an_id_of_its_own_whatever_the_batches_are():
    one, other = FakeClient(), FakeClient()
    assert publish(one, batch("a", "b", "c")) == 3
    assert publish(other, batch("a"), batch(), batch("b", "c"), batch_messages=100) == 3
    assert one.published == other.published
    assert one.published[2] == ("PUB", "t", "c", "DEDUP", "run/3/2")


def test_rows_can_go_without_ids():
    client = FakeClient()
    publish(client, batch("a"), id_prefix="")
    assert client.published == [("PUB", "t", "a")]


@pytest.mark.parametrize("word", ["LIMIT", "FULL", "PAUSED", "READONLY", "DRAINING", "UNKNOWN"])
def test_what_the_broker_takes_later_is_asked_again(word):
    client = FakeClient()
    client.refusals = [None, RefusedError(word, "x"), RefusedError(word, "x"), None]
    assert publish(client, batch("a", "b", "c")) == 3
    assert [words[2] for words in client.published] == ["a", "b", "c"]


def test_a_broker_that_takes_nothing_for_too_long_fails_the_task():
    client = FakeClient()
    client.refusals = [RefusedError("FULL", "x")] * 100
    with pytest.raises(NotWrittenError, match=r"row 0 of the task: FULL x"):
        publish(client, batch("a"), block_seconds=-1)


def test_a_row_that_is_refused_for_good_fails_the_task_and_is_named():
    client = FakeClient()
    client.refusals = [None, None, RefusedError("TOOBIG", "x")]
    with pytest.raises(NotWrittenError, match=r"row 2 of the task: TOOBIG"):
        publish(client, batch("a", "b", "c"))
