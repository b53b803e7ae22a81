"""`miniqueue apply` as a process."""

import json

import pytest

from miniqueue.commands import apply

FILE = """
[topics.orders]
partitions = 4

[topics.orders.groups.audit]
idle_seconds = "1d"

[schedules.report]
topic = "reports"
every_seconds = "1h"
payload = "go"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "topics.toml"
    path.write_text(FILE)
    return str(path)


PLAN = """\
+ topic orders
    partitions 4
+ group orders audit
    idle_seconds 86400
+ schedule report
    topic reports
    zone UTC
    every_seconds 3600
    missed all
    priority normal
    payload go
3 to create
"""


def test_a_file_is_shown_and_applied_once(miniqueue, client, file):
    assert miniqueue("apply", "-f", file) == (0, PLAN + "carried out 3 changes\n", "")
    assert miniqueue("apply", "-f", file) == (0, "nothing to do\n", "")


def test_a_dry_run_changes_nothing(miniqueue, client, file):
    assert miniqueue("apply", "-f", file, "--dry-run") == (0, PLAN, "")
    assert miniqueue("apply", "-f", file, "--check") == (1, PLAN, "")
    assert miniqueue("topics", "--names").out == ""
    assert miniqueue("apply", "-f", file).code == 0
    assert miniqueue("apply", "-f", file, "--check") == (0, "nothing to do\n", "")


def test_programs_get_json(miniqueue, client):
    text = "[topics.a]\ntrace = true\n"
    changes = {"changes": [{"act": "create", "kind": "topic", "name": "a", "values": {"trace": {}}}], "dry_run": False}
    changes["changes"][0]["values"]["trace"] = {"before": False, "after": True}
    assert json.loads(miniqueue("apply", "-f", "-", "-o", "json", stdin=text.encode()).out) == changes
    lines = miniqueue("apply", "-f", "-", "-o", "jsonl", stdin=b"[topics.b]\n[topics.c]").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["b", "c"]


def test_an_export_is_a_file_that_changes_nothing(miniqueue, client, file, tmp_path):
    miniqueue("apply", "-f", file)
    exported = miniqueue("apply", "--export")
    assert exported.code == 0
    assert "[topics.orders.groups.audit]\nidle_seconds = 86400\n" in exported.out
    assert miniqueue("apply", "-f", "-", "--prune", stdin=exported.out.encode()).out == "nothing to do\n"


def test_deleting_must_be_confirmed(miniqueue, client, file):
    miniqueue("apply", "-f", file)
    client.publish("old", b"x")
    plan = "- topic old (1 message)\n1 to delete\n"
    ended = miniqueue("apply", "-f", file, "--prune")
    assert ended.code == 78
    assert ended.out == plan
    assert ended.err.startswith("miniqueue: to carry out these changes, of which one of them deletes, use --yes")
    assert "old" in miniqueue("topics", "--names").out
    ended = miniqueue("apply", "-f", file, "--prune", "--yes")
    assert ended == (0, plan + "carried out 1 change\n", "")
    assert miniqueue("topics", "--names").out == "orders\n"


def test_a_person_is_asked_and_sees_colors(miniqueue, client, file):
    miniqueue("apply", "-f", file)
    client.create_topic("old")
    ended = miniqueue.on_a_terminal("apply", "-f", file, "--prune", typed=b"n\n")
    assert ended.code == 1
    assert "\x1b[31m- topic old\x1b[0m\n1 to delete\n" in ended.out
    assert "Carry out these changes, of which one of them deletes? [y/N] " in ended.out
    assert client.topics() == ["old", "orders"]
    ended = miniqueue.on_a_terminal("apply", "-f", file, "--prune", typed=b"y\n", NO_COLOR="1")
    assert ended.code == 0
    assert "- topic old\n1 to delete\n" in ended.out
    assert client.topics() == ["orders"]


def test_a_pipe_gets_no_colors_and_no_question(miniqueue, client):
    client.create_topic("old")
    ended = miniqueue.in_a_pipe("apply", "-f", "-", "--prune", "--yes", stdin=b"[topics.new]")
    assert ended == (0, "+ topic new\n- topic old\n1 to create, 1 to delete\ncarried out 2 changes\n", "")


def test_users_are_applied_to_the_users_file(miniqueue, client, tmp_path):
    text = '[users.ada]\npublisher = ["orders"]\nmax_topics = 3\n[users.bob]\ncertificate = "CN=bob"'
    users = str(tmp_path / "users.toml")
    ended = miniqueue("apply", "-f", "-", "--users-file", users, stdin=text.encode())
    assert ended.code == 0
    assert ended.err == (f"miniqueue: user ada has no secret yet; miniqueue user passwd -users {users} ada\n")
    passwd = miniqueue("user", "passwd", "-users", users, "ada", stdin=b"secret of ada\n")
    assert passwd.code == 0
    listed = miniqueue("user", "list", "-users", users).out
    assert listed == "ada: password; publisher orders; max_topics 3\nbob: certificate CN=bob; no role\n"
    again = miniqueue("apply", "-f", "-", "--users-file", users, stdin=text.encode())
    assert again == (0, "nothing to do\n", "")
    text = '[users.ada]\nsubscriber = ["orders"]'
    ended = miniqueue("apply", "-f", "-", "--users-file", users, "--prune", "--yes", stdin=text.encode())
    assert ended.out.splitlines()[0] == "~ user ada"
    listed = miniqueue("user", "list", "-users", users).out
    assert listed == "ada: password; subscriber orders\n"


def test_users_are_never_left_out_by_mistake(miniqueue, client):
    text = '[topics.a]\n[users.ada]\npublisher = ["orders"]'
    ended = miniqueue("apply", "-f", "-", stdin=text.encode())
    assert ended == (
        78,
        "",
        "miniqueue: - has users; name the users file with --users-file, or use --no-users\n",
    )
    assert miniqueue("apply", "-f", "-", "--no-users", stdin=text.encode()).out.startswith("+ topic a\n")


def test_what_was_done_before_an_error_is_said(miniqueue, client):
    client.create_topic("b", default_group=False)
    client.create_group("b", "only")
    text = "[topics.a]\n[topics.b]\ngroups = []"
    ended = miniqueue("apply", "-f", "-", "--prune", "--yes", stdin=text.encode())
    assert ended.code == 69
    assert ended.out == "+ topic a\n- group b only\n1 to create, 1 to delete\n"
    assert ended.err.startswith("miniqueue: delete group b only: the broker refused: GROUPINUSE ")
    assert ended.err.endswith("; 1 of 2 changes were carried out\n")


@pytest.mark.parametrize(
    ("words", "text", "problem"),
    [
        ([], "", "missing flag --file; see -h"),
        (["-f", "/nowhere/topics.toml"], "", "flag --file: '/nowhere/topics.toml' cannot be read: No such file or"),
        (["-f", "-", "--export"], "", "flags --export and --file: only one can be used"),
        (["-f", "-"], "[topics.a]\npartitons = 2", "-: topics.a: unknown key partitons; did you mean partitions?"),
        (["-f", "-"], "topics = [", "-: no TOML (at end of document)"),
        (["-f", "-", "--prun"], "", "flag '--prun': no such flag; did you mean --prune?; see -h"),
    ],
)
def test_a_bad_command_line_or_file_is_refused(miniqueue, client, words, text, problem):
    ended = miniqueue("apply", *words, stdin=text.encode())
    assert ended.code == 78
    assert ended.err.startswith(f"miniqueue: {problem}")
    assert ended.err.count("\n") == 1


def test_a_file_that_is_too_large_is_refused_and_not_read_in_part(miniqueue, client, tmp_path, monkeypatch):
    monkeypatch.setattr(apply, "_MAX_FILE_BYTES", 1024)
    file = tmp_path / "topics.toml"
    file.write_text("[topics.a]\n" + "#" * 1013)
    assert miniqueue("apply", "-f", str(file)).code == 0
    file.write_text("[topics.a]\n" + "#" * 1014)
    code, line = miniqueue.refused("apply", "-f", str(file), "--prune")
    assert (code, line) == (78, f"flag --file: '{file}' is larger than 1.0 KiB")


def test_a_broker_that_is_not_there_is_an_error(miniqueue, client, file):
    ended = miniqueue("apply", "-f", file, "--url", "redis://127.0.0.1:1")
    assert ended.code == 69
    assert ended.err.startswith("miniqueue: cannot connect to redis://127.0.0.1:1: ")
