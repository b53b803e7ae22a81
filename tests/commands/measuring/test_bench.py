"""`miniqueue bench` as a process."""

import json
import re
import signal

import pytest


def test_a_table_has_a_line_for_each_step_and_nothing_is_left(miniqueue, client):
    ended = miniqueue.in_a_pipe("bench", "--count", "50", "--connections", "2", "--pipeline", "10", "--size", "1000")
    assert ended.code == 0, ended
    head, *lines = ended.out.splitlines()
    assert re.split(r"  +", head) == [
        "step",
        "messages",
        "seconds",
        "messages/s",
        "payload",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
    ]
    assert [line.split()[:2] for line in lines] == [["publish", "50"], ["consume", "50"], ["deliver", "50"]]
    assert client.topics() == []


def test_programs_get_figures(miniqueue, client):
    rows = json.loads(miniqueue.out("bench", "--count", "3", "-o", "json"))
    assert [(row["step"], row["messages"]) for row in rows] == [("publish", 3), ("consume", 3), ("deliver", 3)]
    assert all(row["p50_ms"] > 0 and row["messages_per_second"] > 0 for row in rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_deletes_its_topic(miniqueue, client, number):
    process = miniqueue.started("bench", "--count", "100000000", "--seconds", "10m", "--size", "0")
    while not (topics := client.topics()):
        pass
    assert topics[0].startswith("miniqueue-bench-")
    while not client.length(topics[0]):
        pass
    process.send_signal(number)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (128 + number, b"")
    assert client.topics() == []


def test_an_error_deletes_the_topic(miniqueue, client):
    code, line = miniqueue.refused("bench", "--size", "2000000", "--count", "1")
    assert code == 69
    assert "TOOBIG" in line or "larger" in line or "protocol" in line.lower(), line
    assert client.topics() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--count", "0"], "flag --count: invalid number: '0'; must be 1 or more"),
        (["--connections", "101"], "flag --connections: invalid number: '101'; must be 1 to 100"),
        (["--seconds", "0"], "flag --seconds: invalid duration: '0'; must be a number of seconds, or a duration"),
        (["--size", "-1"], "flag --size: invalid number: '-1'; must be 0"),
        (["orders"], "got unexpected extra argument"),
    ],
)
def test_a_bad_command_line_is_refused(miniqueue, words, problem):
    code, line = miniqueue.refused("bench", *words)
    assert code == 78
    assert line.startswith(problem)
