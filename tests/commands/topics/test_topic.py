"""`miniqueue topic`, `stats`, and `usage`."""

import json

import pytest

pytestmark = pytest.mark.acceptance

NO_TERMINAL = "use --yes; there is no terminal on which it could be confirmed"
BAD_WORDS = [
    (
        ["topic"],
        78,
        "miniqueue topic: missing command; must be create, delete, pause, purge, resume, set, settings, or",
    ),
    (["topic", "shwo"], 78, "argument 'shwo': no such command; did you mean show?; see -h"),
    (["topics", "--limit", "3"], 78, "flag '--limit': no such flag; see -h"),
    (["topic", "create", "orders", "retenton=1d"], 78, "no such setting: 'retenton'; did you mean retention?"),
    (["topic", "create", "orders", "zzz=1"], 78, "no such setting: 'zzz'; see miniqueue topic settings"),
    (
        ["topic", "create", "orders", "x"],
        78,
        "argument SETTING=VALUE: invalid setting=value: 'x'; must be setting=value",
    ),
    (["topic", "set", "orders"], 78, "missing argument SETTING=VALUE; see -h"),
    (["topic", "set", "orders", "partitions=x"], 69, "the broker refused: BADSETTING"),
    (["topic", "show", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
    (["topic", "delete", "orders"], 78, f"to delete the topic 'orders' with 2 messages, {NO_TERMINAL}"),
    (["topic", "purge", "orders"], 78, f"to remove the ready and delayed messages of 'orders', {NO_TERMINAL}"),
    (["topic", "pause", "orders", "--side", "up"], 78, "flag --side: invalid value: 'up'; must be in, out or both"),
    (["stats", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
]


@pytest.fixture(autouse=True)
def orders(client):
    client.publish_many("orders", [b"one", b"two"])
    return client


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def test_a_topic_is_created_changed_and_deleted(miniqueue, client):
    assert miniqueue.out("topic", "create", "diary", "retention=forever", "max-deliveries=5") == "diary: created\n"
    assert miniqueue.out("topic", "set", "diary", "max_deliveries=default", "partitions=4") == "diary: changed\n"
    settings = client.topic_settings("diary")
    assert (settings["retention"], settings["max_deliveries"], settings["partitions"]) == ("forever", "0", "4")
    assert miniqueue.out("topic", "delete", "diary", "--yes", "-o", "json") == '{"topic":"diary","done":"deleted"}\n'
    assert client.topics() == ["orders"]


def test_a_topic_is_shown(miniqueue, client):
    client.set_topic("orders", max_deliveries=7)
    statistics, groups, settings = miniqueue.out("topic", "show", "orders").split("\n\n")
    assert ["topic", "orders"] in [line.split() for line in statistics.splitlines()]
    assert ["ready", "2"] in [line.split() for line in statistics.splitlines()]
    assert [line.split()[:3] for line in groups.splitlines()] == [["group", "lag", "ready"], ["default", "2", "2"]]
    assert [line.split() for line in settings.splitlines()] == [
        ["setting", "value", "default"],
        ["max_deliveries", "7", "0"],
    ]
    shown = json.loads(miniqueue.out("topic", "show", "orders", "-o", "json"))
    assert (shown["ready"], shown["settings"], shown["groups"][0]["lag"]) == (2, {"max_deliveries": "7"}, 2)
    assert len(json.loads(miniqueue.out("topic", "show", "orders", "--all", "-ojsonl"))["settings"]) > 30


def test_the_settings_are_listed(miniqueue):
    assert "retention" in miniqueue.out("topic", "settings")
    listed = {each["setting"]: each for each in json.loads(miniqueue.out("topic", "settings", "-o", "json"))}
    assert listed["expired"] == {
        "setting": "expired",
        "meaning": "what happens to an expired message",
        "values": "drop or dead-letter",
        "default": "drop",
    }
    assert listed["partitions"]["default"] == "1"


def test_a_topic_is_paused_and_resumed(miniqueue, client):
    assert miniqueue.out("topic", "pause", "orders", "--side", "in", "--for", "1h") == "orders: paused\n"
    assert [client.stats("orders")[name] for name in ("paused_in", "paused_out")] == [True, False]
    assert miniqueue.out("topic", "resume", "orders") == "orders: resumed\n"
    assert client.stats("orders")["paused_in"] is False


def test_a_topic_is_purged(miniqueue, client):
    client.publish("orders", b"later", delay_seconds=3600)
    out = miniqueue.out("topic", "purge", "orders", "--state", "delayed", "--yes")
    assert out == "orders: 1 message removed\n"
    assert miniqueue.out("topic", "purge", "orders", "--older-than", "1h", "--yes") == "orders: 0 messages removed\n"
    assert json.loads(miniqueue.out("topic", "purge", "orders", "--yes", "-o", "jsonl"))["count"] == 2


def test_what_is_destroyed_is_asked_about_on_a_terminal(miniqueue, client):
    shown = miniqueue.on_a_terminal("topic", "delete", "orders", typed=b"\n")
    assert (shown.code, client.topics()) == (1, ["orders"])
    shown = miniqueue.on_a_terminal("topic", "delete", "orders", typed=b"yes\n")
    assert shown.out.splitlines()[-1] == "Delete the topic 'orders' with 2 messages? [y/N] orders: deleted"
    assert (shown.code, client.topics()) == (0, [])


def test_statistics(miniqueue):
    assert ["topics", "1"] in [line.split() for line in miniqueue.out("stats").splitlines()]
    lines = [line.split() for line in miniqueue.out("stats", "orders").splitlines()]
    assert ["topic", "orders"] in lines
    assert ["ready", "2"] in lines
    assert json.loads(miniqueue.out("stats", "orders", "-o", "json"))["ready"] == 2


def test_a_unit_is_with_the_value_and_not_with_the_title_too(miniqueue):
    lines = [line.rsplit("  ", 1) for line in miniqueue.out("stats", "orders").splitlines()]
    texts = {title.strip(): text for title, text in lines}
    assert (texts["size"], texts["unread"], texts["retained"], texts["retained size"]) == ("6 B", "0s", "0", "0 B")
    assert texts["retained age"] == "–"
    assert not [title for title in texts if title.split()[-1] in ("seconds", "bytes", "ms")]


def test_usage(miniqueue):
    rows = json.loads(miniqueue.out("usage", "-o", "json"))
    assert {"user": None, "of": "topics", "used": 1, "limit": 20000} in rows
    assert ["–", "topics", "1", "20000"] in [line.split() for line in miniqueue.out("usage").splitlines()]
