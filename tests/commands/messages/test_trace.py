"""`miniqueue trace`: each step with its time, attempts, what groups did, and what is retained."""

import json
import re

import pytest

from miniqueue.commands.messages.timeline import Outcome, attempts_of, json_steps, lines_of, outcomes_of, summary_of
from miniqueue_client import Client, Step
from miniqueue_client.calls.trace_steps import TracePosition

pytestmark = pytest.mark.acceptance

START_MS = 1_700_000_000_000


def step(event, seconds, position=("orders", "0-17"), **members):
    return Step(event, START_MS + round(seconds * 1000), *position, **members)


DEAD = ("orders.dlq", "0-0")
STEPS = [
    step("published", 0, by="resp 127.0.0.1:1 client 7 user shop"),
    step("committed", 0.001),
    step("delivered", 0.002, group="default", by="client 9", receipt="5f-1"),
    step("timed_out", 30.5, group="default"),
    step("delivered", 31, group="default", receipt="5f-2"),
    step("nacked", 32, group="default", reason="exit code 3"),
    step("dead_lettered", 32, group="default", went_to=TracePosition(*DEAD)),
    step("arrived", 32, DEAD, came_from=TracePosition("orders", "0-17"), reason="max_deliveries"),
    step("committed", 32.001, DEAD),
    step("delivered", 92, DEAD, group="ops"),
]


def test_a_line_for_each_step_and_each_place():
    assert lines_of(STEPS, "orders", "0-17") == [
        "2023-11-14 22:13:20.000Z            published      by resp 127.0.0.1:1 client 7 user shop",
        "2023-11-14 22:13:20.001Z      +1ms  committed",
        "2023-11-14 22:13:20.002Z      +1ms  delivered      by client 9  group default  attempt 1  receipt 5f-1",
        "2023-11-14 22:13:50.500Z      +30s  timed out      group default",
        "2023-11-14 22:13:51.000Z    +500ms  delivered      group default  attempt 2  receipt 5f-2",
        "2023-11-14 22:13:52.000Z       +1s  nacked         group default  reason exit code 3",
        "2023-11-14 22:13:52.000Z       +0s  dead lettered  to orders.dlq 0-0  group default",
        "-- orders.dlq 0-0",
        "2023-11-14 22:13:52.000Z       +0s  arrived        from orders 0-17  reason max_deliveries",
        "2023-11-14 22:13:52.001Z      +1ms  committed",
        "2023-11-14 22:14:52.000Z      +59s  delivered      group ops  attempt 1",
    ]


def test_what_each_group_did():
    assert outcomes_of(STEPS) == [
        Outcome("orders", "0-17", "default", 2, "dead_lettered", 31.999),
        Outcome("orders.dlq", "0-0", "ops", 1, "", 59.999),
    ]
    assert summary_of(STEPS) == [
        "group default at orders 0-17: 2 attempts, dead lettered after 31s",
        "group ops at orders.dlq 0-0: 1 attempt, not done with it",
        "in all 1m 32s",
    ]
    assert attempts_of(STEPS) == [0, 0, 1, 0, 2, 0, 0, 0, 0, 1]


def test_steps_as_json_have_the_time_since_the_one_before():
    assert json_steps(STEPS)[6:8] == [
        {
            "event": "dead_lettered",
            "at_ms": START_MS + 32_000,
            "after_seconds": 0.0,
            "topic": "orders",
            "id": "0-17",
            "group": "default",
            "to": {"topic": "orders.dlq", "id": "0-0"},
        },
        {
            "event": "arrived",
            "at_ms": START_MS + 32_000,
            "after_seconds": 0.0,
            "topic": "orders.dlq",
            "id": "0-0",
            "reason": "max_deliveries",
            "from": {"topic": "orders", "id": "0-17"},
        },
    ]


@pytest.mark.parametrize(
    ("event", "reason", "text"),
    [
        ("sought", "0-24", "sought  group g  next 0-24"),
        ("left_out", "18002", "left out  group g  18002 steps"),
        ("rejected", "{} é", "rejected  group g  reason {} é"),
        ("rejected", "\x1b[2J\n", "rejected  group g  reason \\x1b[2J\\n"),
    ],
)
def test_what_is_no_reason_is_not_called_one_and_foreign_text_is_escaped(event, reason, text):
    [line] = lines_of([step(event, 0, group="g", reason=reason)], "orders", "0-17")
    assert line == f"2023-11-14 22:13:20.000Z            {text}"


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["trace"], 78, "missing argument TOPIC; see -h"),
        (["trace", "t"], 78, "missing argument ID; see -h"),
        (["trace", "t", "0-0", "-url", "http://x"], 78, "invalid broker URL: http://x; must be redis://host:port or"),
        (["trace", "t", "0-0", "-token-file", "none"], 78, "flag --token-file: no secret can be read from 'none'"),
        (["trace", "t", "0-0", "-resp-port", "x"], 78, "flag -resp-port: 'x': invalid port; must be 0 to"),
        (["trace", "t", "0-0"], 69, "the broker refused: NO"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(miniqueue, client, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


@pytest.fixture
def traced(client: Client) -> Client:
    """A client of a broker with a message that was returned once and then acknowledged."""
    client.create_topic("orders", trace=True, retention_seconds=3600, retention_messages=1000)
    client.publish("orders", b"one")
    [message] = client.receive("orders")
    client.nack("orders", message)
    [message] = client.receive("orders")
    client.ack("orders", message)
    return client


def without_figures(text):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z|\+?[\d.]+m?s\b", "#", text)


def test_the_whole_story_is_printed(miniqueue, traced):
    lines = without_figures(miniqueue.out("trace", "orders", "0-0")).splitlines()
    assert [line.split()[1] for line in lines[:1]] + [line.split()[2] for line in lines[1:6]] == [
        "published",
        "committed",
        "delivered",
        "nacked",
        "delivered",
        "acknowledged",
    ]
    assert lines[6:] == [
        "",
        "group default: 2 attempts, acknowledged after #",
        "in all #",
        "in the log, retained until #, at most 1000 messages",
    ]


def test_the_flags_of_earlier_versions_work(without_url, traced, broker, url, tmp_path):
    assert without_url("trace", "-url", url, "orders", "0-0").code == 0
    assert without_url("trace", "-resp-port", str(broker.resp_port), "orders", "0-0").code == 0
    settings = tmp_path / "settings.toml"
    settings.write_text(f"resp-port = {broker.resp_port}\n")
    assert without_url("trace", f"-config={settings}", "orders", "0-0").code == 0


def test_it_is_also_json(miniqueue, traced):
    shown = json.loads(miniqueue.out("trace", "orders", "0-0", "-o", "json"))
    assert (shown["groups"][0]["attempts"], shown["groups"][0]["end"], shown["retained"]["in_log"]) == (
        2,
        "acknowledged",
        True,
    )
    assert [step["event"] for step in shown["steps"]][-1] == "acknowledged"
    lines = miniqueue.out("trace", "orders", "0-0", "-o", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == shown["steps"]
