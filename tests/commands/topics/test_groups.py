"""`miniqueue groups` and `miniqueue group`."""

import json

import pytest

pytestmark = pytest.mark.acceptance

NO_TERMINAL = "use --yes; there is no terminal on which it could be confirmed"
BAD_WORDS = [
    (
        ["group"],
        78,
        "miniqueue group: missing command; must be create, delete, holders, members, pause, resume, or seek; see",
    ),
    (["group", "create", "orders"], 78, "missing argument GROUP; see -h"),
    (["group", "create", "orders", "default"], 69, "the broker refused: GROUPEXISTS"),
    (
        ["group", "create", "orders", "g", "--start", "soon"],
        78,
        "flag --start: invalid start: 'soon'; must be earliest",
    ),
    (["group", "seek", "orders", "default"], 78, "missing flag --to; see -h"),
    (
        ["group", "seek", "orders", "default", "--to", "latest"],
        78,
        f"to move the group 'default' of 'orders' from 2 messages to get to 0, {NO_TERMINAL}",
    ),
    (["group", "delete", "orders", "g"], 78, f"to delete the group 'g' of 'orders', {NO_TERMINAL}"),
    (["groups", "none"], 69, "the broker refused: NOTOPIC There is no such topic: none"),
]


@pytest.fixture(autouse=True)
def orders(client):
    client.publish_many("orders", [b"one", b"two"])
    return client


@pytest.mark.parametrize(("words", "code", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, code, line):
    refused, shown = miniqueue.refused(*words)
    assert (refused, shown[: len(line)]) == (code, line)


def test_groups_are_created_listed_and_deleted(miniqueue):
    assert miniqueue.out("group", "create", "orders", "archive", "--start", "0-1") == "orders archive: created\n"
    assert [line.split()[:3] for line in miniqueue.out("groups", "orders").splitlines()] == [
        ["group", "lag", "ready"],
        ["archive", "1", "1"],
        ["default", "2", "2"],
    ]
    rows = json.loads(miniqueue.out("groups", "orders", "-o", "json"))
    assert [(row["name"], row["lag"], row["position"]) for row in rows] == [
        ("archive", 1, ["0-1"]),
        ("default", 2, ["0-0"]),
    ]
    assert miniqueue.out("group", "delete", "orders", "archive", "--yes") == "orders archive: deleted\n"


def test_a_group_is_moved(miniqueue, client):
    out = miniqueue.out("group", "seek", "orders", "default", "--to", "latest", "--dry-run")
    assert out == "orders default: had 2 messages to get, would have 0\n"
    assert client.length("orders") == 2
    out = miniqueue.out("group", "seek", "orders", "default", "--to", "0-1", "--yes", "-o", "json")
    assert json.loads(out) == {"topic": "orders", "group": "default", "before": 2, "after": 1, "dry_run": False}
    assert client.length("orders") == 1
    miniqueue.out("group", "seek", "orders", "default", "--to", "now", "--yes")
    assert client.length("orders") == 0


def test_a_group_is_paused_and_resumed(miniqueue, client):
    assert miniqueue.out("group", "pause", "orders", "default", "--for", "1h") == "orders default: paused\n"
    assert client.groups("orders")[0].paused
    assert miniqueue.out("group", "resume", "orders", "default") == "orders default: resumed\n"
    assert not client.groups("orders")[0].paused


def test_members_are_listed(miniqueue, client):
    assert miniqueue.out("group", "members", "orders") == "member  partitions\n"
    client.receive("orders", member="ann")
    assert miniqueue.out("group", "members", "orders").splitlines()[1].split() == ["ann", "0"]


def test_who_holds_messages_is_listed(miniqueue, client):
    client.publish_many("orders", ["a", "b"])
    assert miniqueue.out("group", "holders", "orders") == "user  address  leased  first ends in\n"
    client.receive("orders", count=2, lease_seconds=3600)
    user, address, leased, *_ = miniqueue.out("group", "holders", "orders").splitlines()[1].split()
    assert (user, address, leased) == ("–", "127.0.0.1", "2")
    assert json.loads(miniqueue.out("group", "holders", "orders", "-o", "jsonl"))["leased"] == 2
