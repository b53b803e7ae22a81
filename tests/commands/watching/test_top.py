"""`miniqueue top` as a process."""

import json
import signal

import pytest


@pytest.fixture
def topics(client):
    client.publish_many("orders", [b"x"] * 30)
    client.publish_many("letters", [b"x"] * 2)
    client.set_topic("letters", max_deliveries=1)
    client.reject("letters", *client.receive("letters"), reason="bad")
    client.create_topic("empty")


def test_it_prints_once(miniqueue, client, topics):
    ended = miniqueue("top", "--once", "-o", "jsonl")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [(row["topic"], row["lag"], row["dead"]) for row in rows] == [
        ("orders", 30, 0),
        ("letters", 1, 1),
        ("letters.dlq", 1, 0),
        ("empty", 0, 0),
    ]


def test_a_pipe_gets_a_plain_table(miniqueue, client):
    client.create_topic("orders")
    assert miniqueue.in_a_pipe("top", "--once") == (
        0,
        "topic   lag  ready  leased  delayed  dead  oldest  in/s  out/s  consumers\n"
        "orders    0      0       0        0     0       –     0      0          0\n",
        "",
    )


def test_topics_are_chosen_and_sorted(miniqueue, client, topics):
    out = miniqueue.out("top", "--once", "--sort", "topic", "--reverse", "--rows", "2", "-o", "json", "*e*")
    assert [row["topic"] for row in json.loads(out)] == ["orders", "letters.dlq"]


def test_without_once_a_pipe_gets_everything_again(miniqueue, client, topics):
    process = miniqueue.started("top", "--interval", "10ms", "-o", "jsonl", "--rows", "1")
    lags = [json.loads(process.stdout.readline())["lag"] for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert lags == [30, 30, 30]
    assert process.returncode == 130


def test_a_terminal_shows_pages_and_obeys_keys(miniqueue, client, topics):
    ended = miniqueue.on_a_terminal("top", "--interval", "5s", "--rows", "2", typed=b"tn\x1b[Aq", NO_COLOR="1")
    assert ended.code == 0
    screens = ended.out.split("\x1b[H")
    shown = [[topic for topic in ("empty", "letters.dlq", "letters ", "orders") if topic in part] for part in screens]
    assert [topics for topics in shown if topics] == [
        ["letters ", "orders"],
        ["empty", "letters "],
        ["letters.dlq", "orders"],
        ["empty", "letters "],
    ]
    assert "by topic · page 2 of 2" in ended.out


def test_a_terminal_is_restored_at_the_end(miniqueue, client, topics):
    ended = miniqueue.on_a_terminal("top", "--interval", "5s", typed=b"q", NO_COLOR="1")
    assert ended.code == 0
    assert ended.out.endswith("\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--sort", "age"], "flag --sort: invalid value: 'age'; must be lag, topic, dead, oldest, in or out"),
        (["--interval", "0"], "flag --interval: invalid duration: '0'; must be a number of seconds, or a duration"),
        (["--rows", "0"], "flag --rows: invalid number: '0'; must be 1"),
    ],
)
def test_a_bad_command_line_is_refused(miniqueue, words, problem):
    code, line = miniqueue.refused("top", *words)
    assert code == 78
    assert line.startswith(problem)
