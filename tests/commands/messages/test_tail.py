"""`miniqueue tail`: the log by time, what is new, and that nothing is disturbed."""

import gzip
import json
import signal
import time

import pytest

from tests.commands.support import RUN_SECONDS

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["tail"], 78, "missing argument TOPIC; see -h"),
    (["tail", "t", "-n", "x"], 78, "flag --last: invalid number: 'x'; must be 0 to 1000000"),
    (["tail", "t", "-n", "1", "--from-time", "now"], 78, "flags --from-time and --last: only one can be used"),
    (["tail", "none", "--no-follow"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
]


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, client, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def wait_for_next_millisecond():
    now_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now_ms:
        pass


@pytest.fixture
def diary(client):
    """A topic with four partitions, all of whose messages are acknowledged."""
    client.create_topic("diary", retention="forever", partitions=4)
    for number in range(20):
        client.publish("diary", f"{number:02}", key=f"{number}")
        wait_for_next_millisecond()  # messages of several partitions are ordered by it
    for message in client.receive("diary", count=100):
        client.ack("diary", message)
    return client


def test_the_last_messages_of_all_partitions_are_printed(miniqueue, diary):
    lines = miniqueue.out("tail", "diary", "--no-follow").split()
    assert sorted(lines) == [f"{number:02}" for number in range(10, 20)]
    assert sorted(miniqueue.out("tail", "diary", "-n", "3", "--no-follow").split()) == ["17", "18", "19"]
    assert miniqueue.out("tail", "diary", "-n", "0", "--no-follow") == ""


def test_a_span_of_time_is_printed(miniqueue, diary):
    rows = [
        json.loads(line) for line in miniqueue.out("tail", "diary", "-n", "20", "--no-follow", "-ojsonl").splitlines()
    ]
    assert [row["published_at_ms"] for row in rows] == sorted(row["published_at_ms"] for row in rows)
    start, end = rows[5]["published_at_ms"], rows[15]["published_at_ms"]
    span = miniqueue.out("tail", "diary", "--from-time", str(start), "--to-time", str(end)).split()
    assert span == [row["text"] for row in rows if start <= row["published_at_ms"] < end]
    assert len(miniqueue.out("tail", "diary", "--from-time", "-1h", "--to-time", "now").split()) == 20


def test_nothing_is_disturbed(miniqueue, client):
    client.publish_many("orders", [b"one", b"two"])
    [held] = client.receive("orders")
    before = client.stats("orders")
    assert miniqueue.out("tail", "orders", "--no-follow") == "one\ntwo\n"
    names = ("ready", "leased", "depth", "consumers")
    assert [client.stats("orders")[name] for name in names] == [before[name] for name in names]
    assert client.ack("orders", held) == [True]
    assert [group.name for group in client.groups("orders")] == ["default"]


def test_what_is_published_is_printed_as_it_comes(miniqueue, client):
    client.publish("orders", b"zero")
    process = miniqueue.started("tail", "orders", "--interval", "10ms")
    assert process.stdout.readline() == b"zero\n"
    client.publish("orders", b"one")
    assert process.stdout.readline() == b"one\n"
    client.publish("orders", b"urgent", priority="high")  # in a lane of its own, which is new
    assert process.stdout.readline() == b"urgent\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=RUN_SECONDS) == (b"", b"")
    assert process.returncode == 130


def test_a_number_of_messages_can_be_the_end(miniqueue, client):
    client.publish_many("orders", [b"one", b"two", b"three"])
    assert miniqueue.out("tail", "orders", "--count", "2") == "one\ntwo\n"


@pytest.fixture
def export(tmp_path):
    """An export of a topic, one second between its messages."""
    lines = [
        f'{{"topic":"orders","id":"0-{number}","published_at":{1_700_000_000_000 + number * 1000},"text":"{number}"}}'
        for number in range(20)
    ]
    path = tmp_path / "lines.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(path)


def test_an_export_is_printed_without_a_broker(without_url, export):
    words = "tail", "orders", "--backup", export, "--url", "redis://127.0.0.1:1"
    assert without_url.out(*words, "-n", "3") == "17\n18\n19\n"
    assert without_url.out(*words, "-n", "3", "--count", "2") == "17\n18\n"
    assert without_url.out(*words, "--from-time", "1700000003000", "--to-time", "1700000005000") == "3\n4\n"
    assert without_url.out(*words, "-n", "1", "-0") == "19\0"
    [row] = without_url.out(*words, "--last", "1", "-o", "jsonl").splitlines()
    assert json.loads(row) == {"topic": "orders", "id": "0-19", "published_at_ms": 1_700_000_019_000, "text": "19"}


def test_a_pipe_gets_an_export(without_url, export):
    assert without_url.in_a_pipe("tail", "orders", "--backup", export, "-n", "2") == (0, "18\n19\n", "")


@pytest.mark.parametrize(
    ("path", "code", "line"),
    [
        ("lines.jsonl.gz", 78, "there is no topic 'none' in '"),
        ("nothing", 71, "'"),
        (".", 65, "/"),
    ],
)
def test_a_backup_that_cannot_be_read_is_one_line(without_url, export, tmp_path, path, code, line):
    refused, shown = without_url.refused("tail", "none", "--backup", str(tmp_path / path))
    assert (refused, shown[: len(line)]) == (code, line)
