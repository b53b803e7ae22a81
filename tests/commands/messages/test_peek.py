"""`miniqueue peek`: messages by state, by conditions, and by id, as tables and as JSON."""

import json
import re

import pytest

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["peek"], 78, "missing argument TOPIC; see -h"),
    (
        ["peek", "orders", "--state", "x"],
        78,
        "flag --state: invalid value: 'x'; must be ready, leased, delayed or dead",
    ),
    (["peek", "orders", "--state", "leased", "--key", "x"], 78, "flag --state: leased messages are not searched"),
    (["peek", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
    (["peek", "orders", "9-9"], 69, "the broker refused: NO"),
]


@pytest.fixture(autouse=True)
def orders(client):
    client.publish("orders", b"one", key="ann", headers={"tenant": b"eu"})
    client.publish("orders", b"\x1b[2J\xff")
    client.publish("orders", b"later", delay_seconds=3600)
    return client


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def without_times(text):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "(time)", text)


def test_ready_messages_are_a_table(miniqueue):
    assert without_times(miniqueue.out("peek", "orders")) == (
        "id   state  published                 due  deliveries  key  payload\n"
        "0-0  ready  (time)  –             0  ann  one\n"
        "0-1  ready  (time)  –             0  –    \\x1b[2J\\xff\n"
    )


def test_delayed_messages_have_a_due_time(miniqueue):
    _, line = without_times(miniqueue.out("peek", "orders", "--state", "delayed")).splitlines()
    assert line.split()[1:] == ["delayed", "(time)", "(time)", "0", "–", "later"]


def test_messages_are_objects(miniqueue):
    [one, two] = json.loads(miniqueue.out("peek", "orders", "-o", "json"))
    assert (one["text"], one["key"], one["headers"]) == ("one", "ann", [["tenant", "eu"]])
    assert two["msg"] == "G1sySv8="
    assert json.loads(miniqueue.out("peek", "orders", "0-0", "-o", "jsonl"))["text"] == "one"


@pytest.mark.parametrize(
    "condition", [["--key", "ann"], ["--header", "tenant=eu"], ["--contains", "ne"], ["--older-than", "0.000001"]]
)
def test_conditions_choose_messages(miniqueue, condition):
    lines = miniqueue.out("peek", "orders", "--state", "ready", "-n", "1", *condition, "-o", "jsonl").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["one"]


def test_more_messages_than_a_page_are_shown(miniqueue, client):
    client.publish_many("many", [b"x"] * 2500)
    assert len(miniqueue.out("peek", "many", "-n", "2200", "-o", "jsonl").splitlines()) == 2200
    assert len(miniqueue.out("peek", "many", "-n", "9999", "-o", "jsonl").splitlines()) == 2500
    assert len(miniqueue.out("peek", "many", "-n", "2200", "--contains", "x", "-o", "jsonl").splitlines()) == 2200


def test_a_terminal_that_is_narrow_folds_payloads(miniqueue, client):
    client.publish("wide", b"word " * 30)
    shown = miniqueue.on_a_terminal("peek", "wide", NO_COLOR="1", TERM="dumb").out
    assert max(map(len, shown.splitlines())) <= 100
    assert shown.count("word") == 30


def test_no_messages_are_said_on_a_terminal(miniqueue):
    shown = miniqueue.on_a_terminal("peek", "orders", "--state", "dead").out
    assert shown == "There are no dead messages in orders.\n"
