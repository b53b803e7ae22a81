"""The rows of a task are published with ids, and again when the broker takes them later."""

import re
import threading

import pyarrow as pa
import pytest

from miniqueue.spark import publishing
from miniqueue.spark.errors import NotWrittenError
from miniqueue.spark.publishing import publish_rows
from miniqueue.spark.waiting import Waiting
from miniqueue_client import ConnectError, DisconnectedError, RefusedError
from miniqueue_client.calls import messages
from miniqueue_client.calls.errors import UntrustedError
from tests.spark.fake_client import FakeClient


def batch(*values):
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})


def publish(client, *rows, batches=None, id_prefix="run/3", batch_messages=2, block_seconds=60.0):
    waiting = Waiting("redis://queue", block_seconds)
    return publish_rows(
        client, "t", batches or rows, id_prefix=id_prefix, batch_messages=batch_messages, waiting=waiting
    )


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(publishing, "PAUSE_SECONDS", 0)


def keyed(*values):
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), "key": pa.array(values, pa.string())})


def urgent(*values):
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), "priority": ["high"] * len(values)})


def tagged(*values):
    headers = [[{"name": "h", "value": value}] for value in values]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), "headers": headers})


def payloads_of(client):
    """Return the payloads of each batch, one behind the other."""
    return [words[4] for words in client.published]


def test_values_alone_go_in_batches():
    client = FakeClient()
    assert publish(client, batch("a", "b", "c")) == 3
    first, second = client.published
    assert (first[:2], first[3:]) == (("PUBPACKED", "t"), (b"\1\0\0\0\1\0\0\0", b"ab"))
    assert re.fullmatch(r"run/3/0\?digest=[0-9a-f]{24}", first[2])
    assert re.fullmatch(r"run/3/2\?digest=[0-9a-f]{24}", second[2])


@pytest.mark.parametrize("make", [batch, keyed, urgent])
def test_a_task_whose_batches_ended_too_early_has_sent_nothing_that_its_next_run_does_not(make):
    """Found by kills: where the JVM is gone Python takes the end of what it sent for the end of the rows."""
    batches = [make("a", "b", "c"), make(), make("d"), make("e", "f", "g", "h", "i")]
    whole = FakeClient()
    publish(whole, *batches)
    for count in range(len(batches)):
        cut = FakeClient()
        publish(cut, *batches[:count])
        assert cut.published == whole.published[: len(cut.published)]


def test_rows_with_keys_go_in_batches_too():
    client = FakeClient()
    publish(client, keyed("a", "", "c"))
    first, second = client.published
    sizes = b"\1\0\0\0\0\0\0\0"
    assert (first[:2], first[3:]) == (("PUBPACKED", "t"), (sizes, b"a", sizes, b"a"))
    assert second[3:] == (b"\1\0\0\0", b"c", b"\1\0\0\0", b"c")


def test_rows_with_other_options_go_one_by_one_with_an_id_each():
    one, other = FakeClient(), FakeClient()
    assert publish(one, urgent("a", "b", "c")) == 3
    assert publish(other, urgent("a"), urgent("b", "c"), batch_messages=100) == 3
    assert one.published == other.published
    assert one.published[2][:-1] == ("PUB", "t", b"c", "PRIORITY", "high", "DEDUP")
    assert re.fullmatch(r"run/3/2\?digest=[0-9a-f]{24}", one.published[2][-1])


class DedupClient(FakeClient):
    """Keeps what is published once for each id, as a broker does, until it has published `room` requests."""

    def __init__(self, remembered=None, room=1000):
        super().__init__()
        self.remembered = {} if remembered is None else remembered
        self.room = room

    def execute_all(self, calls):
        return [self._one(call) for call in calls]

    def _one(self, call):
        dedup_id = call.words[-1] if call.words[0] == "PUB" else call.words[2]
        name, _, digest = dedup_id.partition("?digest=")
        if self.remembered.setdefault(name, digest) != digest:
            return RefusedError("MISMATCH", "x")
        if self.room <= 0:
            raise ValueError("the task is killed")
        self.room -= 1
        self.published.append(call.words)
        return "0-0"


#: What a row may have besides its payload, of which each row of a task has another.
COLUMNS = {
    "key": pa.array(["k", "l", "m", "n"]),
    "headers": pa.array([[{"name": "h", "value": value}] for value in "abcd"]),
    "ttl_seconds": pa.array([1.0, 2.0, 3.0, 4.0]),
    "delay_seconds": pa.array([1.0, 2.0, 3.0, 4.0]),
    "at": pa.array([2_000_000_000 + n for n in range(4)], pa.timestamp("s", tz="UTC")),
    "priority": pa.array(["high", "low", "normal", "low"]),
    "unique_key": pa.array(["k", "l", "m", "n"]),
}


@pytest.mark.parametrize("batch_messages", [1, 2])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_retry_with_its_rows_in_another_order_fails_also_if_the_payloads_are_alike(column, batch_messages):
    """The checksum in the ids covered the payloads alone: rows were taken for others, and dropped."""
    frame = pa.RecordBatch.from_pydict({"value": ["same"] * 4, column: COLUMNS[column]})
    killed, retried = DedupClient(room=1), DedupClient()
    with pytest.raises(ValueError, match="killed"):
        publish(killed, frame, batch_messages=batch_messages)
    retried.remembered = {name: killed.remembered[name] for name in list(killed.remembered)[:1]}
    with pytest.raises(NotWrittenError, match=r"rows? 0.* of the task: an earlier attempt has published other rows"):
        publish(retried, frame.take(pa.array([3, 1, 2, 0])), batch_messages=batch_messages)


@pytest.mark.parametrize("make", [batch, keyed, urgent])
def test_a_retry_with_rows_that_differ_fails_and_one_with_the_same_rows_does_not(make):
    first = DedupClient()
    publish(first, make("a", "b", "cc", ""))
    assert publish(DedupClient(first.remembered), make("a", "b", "cc", "")) == 4
    for other in (make("b", "a", "cc", ""), make("a", "b", "c", ""), make("a", "b", "cc"), make("a")):
        if make is urgent and other.column("value").to_pylist() in (["a", "b", "cc"], ["a"]):
            continue  # each row has an id of its own: rows that are missing are there already
        with pytest.raises(NotWrittenError, match="sortWithinPartitions"):
            publish(DedupClient(first.remembered), other)


def test_batches_are_cut_where_a_command_ends(monkeypatch):
    monkeypatch.setattr(publishing, "BATCH_BYTES", 10)
    client = FakeClient()
    publish(client, batch("12345", "67890", "1", "x" * 20, "2"), batch_messages=100)
    assert payloads_of(client) == [b"1234567890", b"1", b"x" * 20, b"2"]


def test_batches_have_no_more_messages_than_a_command(monkeypatch):
    monkeypatch.setattr(messages, "MAX_AT_ONCE", 2)
    client = FakeClient()
    publish(client, keyed("a", "b", "", "d", "e"), batch_messages=100)
    assert payloads_of(client) == [b"ab", b"d", b"e"]


@pytest.mark.parametrize(
    ("make", "word"), [(batch, "PUBPACKED"), (keyed, "PUBPACKED"), (urgent, "PUB"), (tagged, "PUBEACH")]
)
def test_rows_without_ids_are_published_without_any(make, word):
    one, other = FakeClient(), FakeClient()
    publish(one, make("a"), id_prefix="")
    publish(other, make("a"), id_prefix="")
    assert one.published[0][0] == word
    assert "DEDUP" not in one.published[0]
    assert word == "PUB" or one.published[0][2] == ""
    assert one.published == other.published


def test_a_task_without_rows_publishes_nothing():
    client = FakeClient()
    assert (publish(client), publish(client, batch())) == (0, 0)
    assert client.published == []


class SlowClient(FakeClient):
    """Accepts nothing until the test allows it."""

    def __init__(self):
        super().__init__()
        self.may_take = threading.Event()

    def execute_all(self, calls):
        assert self.may_take.wait(60)
        return super().execute_all(calls)


def test_the_next_request_is_made_while_the_broker_takes_one():
    client = SlowClient()

    def batches():
        yield batch("a", "b")
        client.may_take.set()
        yield batch("c", "d")

    assert publish(client, batches=batches()) == 4
    assert payloads_of(client) == [b"ab", b"cd"]


def test_rows_that_cannot_be_had_leave_no_request_under_way():
    client = SlowClient()

    def batches():
        yield batch("a", "b")
        client.may_take.set()
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"):
        publish_rows(client, "t", batches(), id_prefix="", batch_messages=2, waiting=Waiting("redis://queue", 60.0))
    assert payloads_of(client) == [b"ab"]


@pytest.mark.parametrize("make", [batch, keyed])
def test_no_request_overtakes_one_that_has_to_wait_for_room(make):
    smooth, rough = FakeClient(), FakeClient()
    rough.refusals = [None, *[RefusedError(word, "x") for word in ("LIMIT", "FULL", "PAUSED")]]
    assert publish(smooth, make(*"abcdefg")) == publish(rough, make(*"abcdefg")) == 7
    assert rough.published == smooth.published


def test_a_broker_that_takes_nothing_for_now_is_told_of(monkeypatch, caplog):
    monkeypatch.setattr("miniqueue.spark.waiting.QUIET_SECONDS", 0)
    client = FakeClient()
    client.refusals = [RefusedError("PAUSED", "x")] * 3
    assert publish(client, batch("a")) == 1
    assert caplog.messages == ["rows wait for redis://queue, up to 60 s more: PAUSED x"]


def test_nothing_follows_a_request_that_is_refused_for_good():
    client = FakeClient()
    client.refusals = [None, RefusedError("NOPERM", "x")]
    with pytest.raises(NotWrittenError, match="one of the rows 2 to 3 of the task: NOPERM"):
        publish(client, batch(*"abcdefg"))
    assert payloads_of(client) == [b"ab"]


@pytest.mark.parametrize("word", ["LIMIT", "FULL", "PAUSED", "READONLY", "DRAINING", "UNKNOWN"])
def test_what_the_broker_takes_later_is_asked_again(word):
    client = FakeClient()
    client.refusals = [None, RefusedError(word, "x"), RefusedError(word, "x"), None]
    assert publish(client, urgent("a", "b", "c")) == 3
    assert [words[2] for words in client.published] == [b"a", b"b", b"c"]


class AwayClient(FakeClient):
    """Cannot reach its broker so many times, after all that it tries by itself."""

    def __init__(self, error, times):
        super().__init__()
        self.errors = [error] * times

    def execute_all(self, calls):
        if self.errors:
            raise self.errors.pop()
        return super().execute_all(calls)


AWAY = [ConnectError("x"), DisconnectedError("x"), *(RefusedError(word, "x") for word in ("READONLY", "UNKNOWN"))]


@pytest.mark.parametrize("make", [batch, keyed, urgent])
@pytest.mark.parametrize("error", AWAY, ids=repr)
def test_a_broker_that_is_away_for_longer_than_the_client_tries_is_waited_for(make, error):
    smooth, rough = FakeClient(), AwayClient(error, 3)
    assert publish(smooth, make("a", "b", "c")) == publish(rough, make("a", "b", "c")) == 3
    assert rough.published == smooth.published


@pytest.mark.parametrize("error", AWAY, ids=repr)
def test_a_broker_that_is_away_for_too_long_fails_the_task(error):
    with pytest.raises(type(error)):
        publish(AwayClient(error, 1), batch("a"), block_seconds=-1)


def test_a_broker_that_is_not_trusted_is_not_waited_for():
    client = AwayClient(UntrustedError("x"), 1)
    with pytest.raises(UntrustedError):
        publish(client, batch("a"))
    assert client.published == []


def test_a_row_without_an_id_that_may_be_stored_is_not_sent_again():
    client = AwayClient(DisconnectedError("x"), 1)
    with pytest.raises(DisconnectedError):
        publish(client, batch("a"), id_prefix="")
    assert client.published == []


@pytest.mark.parametrize(
    ("make", "named"), [(urgent, "row 0"), (keyed, "one of the rows 0 to 1"), (batch, "one of the rows 0 to 1")]
)
def test_a_broker_that_takes_nothing_for_too_long_fails_the_task(make, named):
    client = FakeClient()
    client.refusals = [RefusedError("FULL", "x")] * 100
    with pytest.raises(NotWrittenError, match=f"{named} of the task: FULL x"):
        publish(client, make("a", "b"), block_seconds=-1)


def test_a_row_that_is_refused_for_good_fails_the_task_and_is_named():
    client = FakeClient()
    client.refusals = [None, None, RefusedError("BADOPTION", "x")]
    with pytest.raises(NotWrittenError, match=r"row 2 of the task: BADOPTION"):
        publish(client, urgent("a", "b", "c"))


@pytest.mark.parametrize("word", ["TOOBIG", "ERR"])
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (urgent, r"row 1 of the task \(100 bytes; "),
        (keyed, r"one of the rows 0 to 1 of the task \(the longest is row 1, \d+ bytes; "),
        (batch, r"one of the rows 0 to 1 of the task \(the longest is row 1, 100 bytes; "),
    ],
)
def test_a_row_that_is_too_long_is_found_among_the_others(make, named, word):
    client = FakeClient()
    client.refusals = [None, RefusedError(word, "x")] if make is urgent else [RefusedError(word, "x")]
    with pytest.raises(NotWrittenError, match=rf"^{named}-max-message-size of the broker says how many\): {word} x"):
        publish(client, make("a", "b" * 100, "c" * 200))
