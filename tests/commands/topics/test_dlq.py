"""`miniqueue dlq`: dead letters are listed, shown, redriven, and dropped."""

import json

import pytest

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["dlq", "ls", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
    (["dlq", "show", "orders"], 78, "missing argument ID; see -h"),
    (["dlq", "show", "orders", "9-9"], 69, "the broker refused: NO"),
    (["dlq", "redrive", "orders", "0-0", "--limit", "1"], 78, "flag --limit: cannot be used with ids"),
    (["dlq", "redrive", "orders", "0-0", "--rate", "5"], 78, "flag --rate: cannot be used with ids"),
    (["dlq", "drop", "orders"], 78, "to delete 3 dead letters of 'orders', use --yes; there is no terminal"),
    (["dlq", "redrive", "orders", "--rate", "x"], 78, "flag --rate: invalid rate: 'x'; must be a number more than 0"),
]


@pytest.fixture(autouse=True)
def orders(client):
    """A topic with three dead letters."""
    client.create_topic("orders", max_deliveries=1)
    for number in range(3):
        client.publish("orders", f"order {number}", key=f"key {number}")
    first, second, third = client.receive("orders", count=3)
    # With `sync`, the dead letters are committed, and so can be seen, when the settles return.
    client.reject("orders", first, reason="no such customer", sync=True)
    client.nack("orders", second, third, reason="timeout of the bank", sync=True)
    return client


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def texts(miniqueue, *words):
    return [json.loads(line)["text"] for line in miniqueue.out("dlq", "ls", *words, "-o", "jsonl").splitlines()]


def test_topics_with_dead_letters_are_listed(miniqueue, client):
    client.create_topic("parcels", dead_letter_topic="lost")
    lines = [line.split() for line in miniqueue.out("dlq", "ls").splitlines()]
    assert [[line[0], line[1], line[-1]] for line in lines[1:]] == [["orders", "3", "orders.dlq"]]
    [row] = json.loads(miniqueue.out("dlq", "ls", "-o", "json"))
    assert (row["topic"], row["count"], row["dead_letter_topic"]) == ("orders", 3, "orders.dlq")


def test_dead_letters_are_listed_with_their_reasons(miniqueue):
    lines = miniqueue.out("dlq", "ls", "orders").splitlines()
    assert lines[0].split() == ["id", "died", "reason", "failure", "group", "key", "payload"]
    assert "no such customer" in lines[1]
    assert "max_deliveries" in lines[2]
    assert "timeout of the bank" in lines[2]


@pytest.mark.parametrize("topic", ["orders", "orders.dlq"])
def test_dead_letters_are_chosen(miniqueue, topic):
    assert texts(miniqueue, topic, "--reason", "max_deliveries") == ["order 1", "order 2"]
    assert texts(miniqueue, topic, "--key", "key 0") == ["order 0"]
    assert texts(miniqueue, topic, "--contains", "der 2") == ["order 2"]
    assert texts(miniqueue, topic, "-n", "1") == ["order 0"]
    assert texts(miniqueue, topic, "--older-than", "1h") == []


def test_a_dead_letter_is_shown(miniqueue):
    lines = [line.split(maxsplit=2) for line in miniqueue.out("dlq", "show", "orders", "0-1").splitlines()]
    assert ["text", "order", "1"] in lines
    assert ["origin", "reason", "max_deliveries"] in lines
    shown = json.loads(miniqueue.out("dlq", "show", "orders", "0-1", "-o", "json"))
    assert (shown["text"], shown["failure"], shown["origin"]["topic"]) == ("order 1", "timeout of the bank", "orders")


def test_dead_letters_are_redriven(miniqueue, client):
    assert miniqueue.out("dlq", "redrive", "orders", "--dry-run") == "orders: 3 dead letters would be redriven\n"
    assert miniqueue.out("dlq", "redrive", "orders", "0-0") == "orders: 1 dead letter redriven\n"
    out = miniqueue.out("dlq", "redrive", "orders", "--reason", "max_deliveries", "--limit", "1", "--rate", "100")
    assert out == "orders: 1 dead letter redriven\n"
    assert miniqueue.out("dlq", "redrive", "orders", "--to", "other") == "orders: 1 dead letter redriven\n"
    assert (client.length("orders"), client.length("orders.dlq"), client.length("other")) == (2, 0, 1)


def test_dead_letters_are_dropped(miniqueue, client):
    assert miniqueue.out("dlq", "drop", "orders", "0-2", "--yes") == "orders: 1 dead letter dropped\n"
    assert miniqueue.out("dlq", "drop", "orders", "--dry-run") == "orders: 2 dead letters would be dropped\n"
    out = miniqueue.out("dlq", "drop", "orders", "--reason", "no such customer", "--yes", "-o", "json")
    assert json.loads(out) == {"topic": "orders", "done": "dropped", "count": 1, "dry_run": False}
    assert client.length("orders.dlq") == 1


def test_a_person_is_asked_before_they_are_dropped(miniqueue, client):
    shown = miniqueue.on_a_terminal("dlq", "drop", "orders", typed=b"y\n")
    assert "Delete 3 dead letters of 'orders'? [y/N]" in shown.out
    assert client.length("orders.dlq") == 0


def test_a_terminal_shows_how_far_a_redrive_is(miniqueue, client):
    shown = miniqueue.on_a_terminal("dlq", "redrive", "orders", "--limit", "2")
    assert shown.code == 0
    assert shown.out.endswith("orders: 2 dead letters redriven\n")
    assert "redriving" in shown.out
    assert "of 2 messages" in shown.out
    assert client.length("orders") == 2
    [task] = [task for task in client.tasks() if task.limit == 2]
    assert (task.status, task.count) == ("done", 2)
