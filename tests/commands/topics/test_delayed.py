"""`miniqueue delayed` and `miniqueue schedule`."""

import json

import pytest

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["delayed", "ls", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
    (["delayed", "due", "orders"], 78, "name the ids of messages, or use --all"),
    (
        ["delayed", "due", "orders", "--all", "--at", "now", "--delay", "1"],
        78,
        "flags --at and --delay: only one can be",
    ),
    (["delayed", "cancel", "orders", "0-0", "--all"], 78, "name the ids of messages, or use --all"),
    (
        ["delayed", "cancel", "orders", "--all"],
        78,
        "to delete all delayed messages of 'orders', use --yes; there is no",
    ),
    (["schedule", "show", "none"], 69, "the broker refused: NOSCHEDULE"),
    (["schedule", "set", "s", "orders", "x"], 78, "set either --cron or --every"),
    (["schedule", "set", "s", "orders", "x", "--cron", "x"], 69, "the broker refused: "),
    (["schedule", "delete", "s"], 78, "to delete the schedule 's', use --yes; there is no terminal"),
]


@pytest.fixture(autouse=True)
def orders(client):
    client.publish("orders", b"first", delay_seconds=3600, key="ann")
    client.publish("orders", b"second", delay_seconds=7200)
    return client


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def ids(miniqueue):
    return [json.loads(line)["id"] for line in miniqueue.out("delayed", "ls", "orders", "-o", "jsonl").splitlines()]


def test_delayed_messages_are_listed_next_due_first(miniqueue):
    header, *lines = miniqueue.out("delayed", "ls", "orders").splitlines()
    assert header.split() == ["id", "due", "published", "key", "payload"]
    assert [line.split()[-1] for line in lines] == ["first", "second"]
    assert [line.split()[-1] for line in miniqueue.out("delayed", "ls", "orders", "-n", "1").splitlines()[1:]] == [
        "first"
    ]


def test_delayed_messages_are_made_due(miniqueue, client):
    first, second = ids(miniqueue)
    assert miniqueue.out("delayed", "due", "orders", second) == "orders: 1 message rescheduled\n"
    [message] = client.receive("orders", wait_seconds=60)
    assert message.payload == b"second"
    assert miniqueue.out("delayed", "due", "orders", "--all", "--delay", "2h") == "orders: 1 message rescheduled\n"
    assert ids(miniqueue) != [first]


def test_delayed_messages_are_cancelled(miniqueue, client):
    first, _ = ids(miniqueue)
    assert miniqueue.out("delayed", "cancel", "orders", first, "--yes") == "orders: 1 message cancelled\n"
    assert miniqueue.out("delayed", "cancel", "orders", "--all", "--yes") == "orders: 1 message cancelled\n"
    assert client.length("orders") == 0


def test_schedules_are_set_listed_fired_and_deleted(miniqueue, client):
    words = ["schedule", "set", "nightly", "reports", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--key", "k"]
    assert miniqueue.out(*words, stdin=b"run").startswith("nightly: set, next at 20")
    miniqueue.out(
        "schedule", "set", "tick", "pings", "x", "--every", "90s", "--header", "a=1", "--until", "2100-01-01T00:00:00Z"
    )
    lines = [line.split() for line in miniqueue.out("schedule", "ls").splitlines()]
    assert lines[0] == ["schedule", "topic", "when", "next", "missed"]
    assert lines[1][:8] == ["nightly", "reports", "0", "3", "*", "*", "*", "Europe/Berlin"]
    assert lines[2][:5] == ["tick", "pings", "every", "1m", "30s"]
    shown = json.loads(miniqueue.out("schedule", "show", "tick", "-o", "json"))
    assert (shown["text"], shown["every_seconds"], shown["headers"]) == ("x", 90.0, [["a", "1"]])
    assert ["key", "k"] in [line.split() for line in miniqueue.out("schedule", "show", "nightly").splitlines()]
    lines = [line.split(maxsplit=1) for line in miniqueue.out("schedule", "show", "tick").splitlines()]
    assert ["every", "1m 30s"] in lines
    assert ["headers", "a=1"] in lines
    assert miniqueue.out("schedule", "fire", "nightly") == "0-0\n"
    assert [(message.payload, message.key) for message in client.peek("reports")] == [(b"run", b"k")]
    assert miniqueue.out("schedule", "delete", "tick", "--yes") == "tick: deleted\n"
    assert [json.loads(line)["name"] for line in miniqueue.out("schedule", "ls", "-o", "jsonl").splitlines()] == [
        "nightly"
    ]
