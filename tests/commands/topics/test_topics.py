"""`miniqueue topics` and `miniqueue ping`: tables on a terminal and in a pipe, and JSON."""

import json

import pytest

pytestmark = pytest.mark.acceptance


@pytest.fixture(autouse=True)
def topics(client):
    client.publish("orders", b"one")
    client.publish("orders", b"two", delay_seconds=3600)
    client.create_topic("parcels.eu")


def test_topics_are_listed_in_a_pipe(miniqueue):
    lines = miniqueue.out("topics").splitlines()
    assert [line.split()[:5] for line in lines] == [
        ["topic", "ready", "leased", "delayed", "consumers"],
        ["orders", "1", "0", "1", "0"],
        ["parcels.eu", "0", "0", "0", "0"],
    ]


def test_topics_are_listed_as_json(miniqueue):
    [orders, parcels] = json.loads(miniqueue.out("topics", "-o", "json"))
    assert (orders["topic"], orders["ready"], parcels["topic"], parcels["ready"]) == ("orders", 1, "parcels.eu", 0)
    lines = miniqueue.out("topics", "-o", "jsonl").splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["orders", "parcels.eu"]


def test_a_pattern_chooses_topics(miniqueue):
    assert miniqueue.out("topics", "parcels.*", "--names") == "parcels.eu\n"
    assert miniqueue.out("topics", "x*", "-o", "json") == "[]\n"


def test_a_terminal_has_colors_unless_it_is_not_to_have_them(miniqueue):
    shown = miniqueue.on_a_terminal("topics")
    assert "\x1b[1m" in shown.out
    plain = miniqueue.on_a_terminal("topics", NO_COLOR="1").out
    assert "\x1b" not in plain
    assert "\x1b" not in miniqueue.on_a_terminal("topics", TERM="dumb").out
    assert [line.split()[:2] for line in plain.splitlines()] == [
        ["topic", "ready"],
        ["─" * len(plain.splitlines()[1])],
        ["orders", "1"],
        ["parcels.eu", "0"],
    ]


def test_a_terminal_gets_no_control_characters_of_names(miniqueue, client):
    topic = "a\u202eb"  # U+202E reverses the text
    client.create_topic(topic)
    assert miniqueue.on_a_terminal("topics", "a*", "--names").out == "a\\u202eb\n"
    assert miniqueue.on_a_terminal("peek", topic).out == "There are no ready messages in a\\u202eb.\n"
    assert miniqueue.in_a_pipe("topics", "a*", "--names").out == f"{topic}\n"


def test_a_pipe_never_has_colors(miniqueue):
    assert "\x1b" not in miniqueue.in_a_pipe("topics", TERM="xterm-256color").out


def test_no_topics_are_a_hint_on_a_terminal(miniqueue, client):
    for topic in client.topics():
        client.delete_topic(topic)
    shown = miniqueue.on_a_terminal("topics").out
    assert shown == "There are no topics. Publish to create one: miniqueue pub orders 'hello'\n"


def test_topics_are_completed(miniqueue, without_url):
    typed = {"COMP_WORDS": "miniqueue peek ord", "COMP_CWORD": "2", "_MINIQUEUE_COMPLETE": "bash_complete"}
    assert miniqueue.in_a_pipe(**typed).out == "plain,orders\n"
    nowhere = {**typed, "COMP_WORDS": "miniqueue peek --url redis://localhost:1 ord", "COMP_CWORD": "4"}
    assert miniqueue.in_a_pipe(**nowhere).out == "\n"


def test_ping(miniqueue, url):
    assert miniqueue.out("ping").startswith(f"{url} replied in ")
    lines = miniqueue.out("ping", "--count", "2", "--interval", "0", "-o", "jsonl").splitlines()
    assert [json.loads(line)["url"] for line in lines] == [url, url]
