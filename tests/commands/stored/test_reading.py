"""Messages from backups and exports, made by a real broker."""

import gzip
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from miniqueue import cli
from miniqueue.commands.stored.reading import stored_messages
from miniqueue.errors import ConfigError, InvalidLineError, NotAStoreError, StorageError
from miniqueue_client import Client
from tests.client.broker import RespBroker


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A folder with a store and two exports; and what a client read of the topics before, by topic."""
    folder = tmp_path_factory.mktemp("stored")
    broker = RespBroker(folder)
    with Client(broker.url) as client:
        client.create_topic("orders", partitions=3, retention="forever")
        for n in range(20):
            headers = [("a", b"\xff"), ("a", "2")]
            client.publish("orders", b"%d" % n, key=f"key {n}", headers=headers, ttl_seconds=1e6)
        client.publish("orders", b"\xff", key="high", priority="high")
        client.ack("orders", *client.receive("orders", count=5))
        client.publish("orders", b"later", delay_seconds=1e6)
        client.set_schedule("report", "orders", b"x", every_seconds=1e6)
        client.publish("letters", b"bad")
        client.reject("letters", *client.receive("letters"), reason="too bad")
        client.publish("returned", b"again")
        client.nack("returned", *client.receive("returned"), sync=True)
        found = {topic: sorted_by_id(read(client, topic)) for topic in ("orders", "letters.dlq", "returned")}
    broker.end()
    lines = folder / "lines.jsonl"
    assert cli.main(["export", "-db", str(folder / "data"), "-o", str(lines)], {}) == 0
    (folder / "lines.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    return folder, found


def read(client, topic):
    return [
        message
        for bounds in client.partitions(topic)
        for message in client.read(topic, bounds.partition, bounds.earliest, count=1000).messages
    ]


def sorted_by_id(messages):
    return sorted(messages, key=lambda message: message.id)


@pytest.mark.parametrize("topic", ["orders", "letters.dlq"])
def test_a_backup_of_shards_has_what_a_client_reads_from_the_log(seen, topic, tmp_path):
    folder, found = seen
    directory = tmp_path / "of-3"
    assert cli.main(["reshard", "-shards", "3", str(folder / "data"), str(directory)], {}) == 0
    assert sorted_by_id(stored_messages(directory, topic)) == found[topic]
    with pytest.raises(ConfigError, match=f"there is no topic 'unknown' in '{directory}'"):
        list(stored_messages(directory, "unknown"))


@pytest.mark.parametrize("topic", ["orders", "letters.dlq"])
def test_a_backup_has_what_a_client_reads_from_the_log(seen, topic):
    folder, found = seen
    messages = list(stored_messages(folder / "data", topic))
    assert sorted_by_id(messages) == found[topic]
    assert [message.published_at_ms for message in messages] == sorted(m.published_at_ms for m in messages)


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_an_export_has_what_was_not_consumed(seen, name):
    folder, found = seen
    messages = {message.id: message for message in stored_messages(folder / name, "orders")}
    assert len(messages) == 16
    assert [message for message in found["orders"] if message.id in messages] == sorted_by_id(messages.values())
    [letter] = stored_messages(folder / name, "letters.dlq")
    assert [letter] == found["letters.dlq"]
    assert letter.origin.reason == "too bad"
    [returned] = stored_messages(folder / name, "returned")
    assert returned.payload == b"again"


def test_a_span_of_time(seen):
    folder, found = seen
    times = sorted(message.published_at_ms for message in found["orders"])
    middle = datetime.fromtimestamp(times[10] / 1000, UTC)
    later = list(stored_messages(folder / "data", "orders", from_time=middle))
    earlier = list(stored_messages(folder / "data", "orders", to_time=middle))
    assert sorted_by_id(earlier + later) == found["orders"]
    assert max(m.published_at_ms for m in earlier) < times[10] <= min(m.published_at_ms for m in later)
    assert list(stored_messages(folder / "data", "orders", middle + timedelta(days=1))) == []


def test_nothing_is_written_to_a_backup(seen, tmp_path):
    copy = tmp_path / "backup"
    shutil.copytree(seen[0] / "data", copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    list(stored_messages(copy, "orders"))
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["data", "lines.jsonl", "lines.jsonl.gz"])
def test_a_topic_that_is_not_there_is_an_error(seen, name):
    with pytest.raises(ConfigError, match="there is no topic 'nothing' in '"):
        list(stored_messages(seen[0] / name, "nothing"))


def test_an_export_of_a_topic_without_messages_is_empty(tmp_path):
    (tmp_path / "lines").write_bytes(b'{"topic":"orders","settings":{"trace":true}}\n')
    assert list(stored_messages(tmp_path / "lines", "orders")) == []


def test_a_line_without_an_id_is_read(tmp_path):
    (tmp_path / "lines").write_bytes(b'{"topic":"orders","text":"x"}\n')
    [message] = stored_messages(tmp_path / "lines", "orders")
    assert (message.id, message.payload, message.published_at_ms) == ("0-0", b"x", 0)


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b'{"topic":"orders","text":"x"}\nno JSON\n', InvalidLineError, "line 2: the line is not JSON"),
        (b'{"topic":"orders","text":1}\n', InvalidLineError, "line 1: invalid 'text'"),
        (
            gzip.compress(b'{"topic":"orders","text":"x"}\n' * 1000)[:-20],
            StorageError,
            "ended before the end-of-stream",
        ),
        (b"\x1f\x8bnonsense", StorageError, "Unknown compression method"),
    ],
)
def test_a_bad_file_is_an_error(tmp_path, content, error, text):
    (tmp_path / "lines").write_bytes(content)
    with pytest.raises(error, match=text):
        list(stored_messages(tmp_path / "lines", "orders"))


def test_a_file_that_is_missing_and_a_directory_that_is_no_store_are_errors(tmp_path):
    with pytest.raises(StorageError, match="No such file or directory"):
        list(stored_messages(tmp_path / "nothing", "orders"))
    with pytest.raises(NotAStoreError, match="is not a miniqueue store"):
        list(stored_messages(tmp_path, "orders"))
