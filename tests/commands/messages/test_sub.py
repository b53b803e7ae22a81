"""`miniqueue sub`: payloads in order, acknowledged after they were written; programs; spans; signals."""

import json
import os
import signal
import stat
import threading
from datetime import UTC, datetime

import pytest

from miniqueue.commands.messages.program import Programs, run_program
from tests.commands.support import RUN_SECONDS

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["sub"], "missing argument TOPIC; see -h"),
    (["sub", "t", "--count", "0"], "flag --count: invalid number: '0'; must be 1 or more"),
    (["sub", "t", "--to-time", "now"], "flag --to-time: requires --from-time"),
    (["sub", "t", "--from-time", "now", "--group", "g"], "flag --from-time: reads with a group of its own; leave out"),
    (["sub", "t", "--reply"], "flags --reply, --retry-after, and --parallel: require a program, after --"),
    (["sub", "t", "--", "no-such-program"], "argument PROGRAM: no such program: 'no-such-program'"),
]


@pytest.mark.parametrize(("words", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, words, line):
    code, shown = miniqueue.refused(*words)
    assert (code, shown[: len(line)]) == (78, line)


@pytest.fixture
def orders(client):
    client.publish_many("orders", [b"one", b"two", b"three"])
    return client


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_payloads_are_printed_and_acknowledged(miniqueue, orders):
    assert miniqueue.out("sub", "orders", "--count", "2") == "one\ntwo\n"
    assert orders.length("orders") == 1
    assert miniqueue.out("sub", "orders", "--until-empty") == "three\n"
    assert miniqueue.out("sub", "orders", "--until-empty") == ""
    assert orders.length("orders") == 0


def test_a_group_has_messages_of_its_own(miniqueue, orders):
    orders.create_group("orders", "archive")
    assert miniqueue.out("sub", "orders", "--group", "archive", "--until-empty", "-0") == "one\0two\0three\0"
    assert orders.length("orders") == 3


def test_objects_have_all_attributes(miniqueue, client):
    client.publish("orders", b"\xff", key="ann", headers={"a": b"1", "b": b"\xff"})
    [line] = miniqueue.out("sub", "orders", "--until-empty", "-o", "jsonl").splitlines()
    row = json.loads(line)
    assert row.pop("published_at_ms") > 0
    assert row == {
        "topic": "orders",
        "id": "0-0",
        "deliveries": 1,
        "key": "ann",
        "headers": [["a", "1"], ["b", {"base64": "/w=="}]],
        "msg": "/w==",
    }


def test_a_terminal_executes_nothing_of_a_payload(miniqueue, client):
    client.publish("orders", b"a\tb\n\x1b[2J\xff caf\xc3\xa9")
    shown = "a\tb\n\\x1b[2J\\xff café\n"
    assert miniqueue.on_a_terminal("tail", "orders", "--no-follow").out.expandtabs() == shown.expandtabs()
    assert miniqueue.on_a_terminal("sub", "orders", "--count", "1").out.expandtabs() == shown.expandtabs()


def test_hundreds_of_messages_are_each_printed_once(miniqueue, client):
    client.publish_many("orders", [b"%d" % number for number in range(350)])
    assert miniqueue.out("sub", "orders", "--until-empty").split() == [str(number) for number in range(350)]
    assert client.length("orders") == 0


def test_a_program_is_run_for_each_message(miniqueue, client, tmp_path):
    client.publish("orders", b"a\nb", key="ann", headers={"trace-id": b"7", "x": b"y z"})
    handle = program(
        tmp_path / "handle",
        'echo "$1|$MESSAGE_TOPIC|$MESSAGE_ID|$MESSAGE_KEY|$MESSAGE_DELIVERIES"\n'
        'echo "$MESSAGE_HEADER_TRACE_ID|$MESSAGE_HEADER_X|$MESSAGE_HEADERS"; cat',
    )
    ended = miniqueue.in_a_pipe("sub", "orders", "--until-empty", "--", handle, "--loud")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == '--loud|orders|0-0|ann|1\n7|y z|[["trace-id", "7"], ["x", "y z"]]\na\nb'
    assert client.length("orders") == 0


def test_a_message_of_a_program_that_fails_is_returned_with_the_reason(miniqueue, orders, tmp_path):
    handle = program(tmp_path / "handle", "exit 3")
    ended = miniqueue("sub", "orders", "--count", "1", "--retry-after", "1h", "--", handle)
    assert (ended.code, ended.err) == (1, "miniqueue: message 0-0 of orders: exit code 3; returned\n")
    [message] = orders.peek("orders", state="delayed")
    assert (message.id, message.failure) == ("0-0", "exit code 3")


def test_a_program_that_always_fails_lets_until_empty_end(miniqueue, orders, tmp_path):
    handle = program(tmp_path / "handle", 'test "$MESSAGE_ID" != 0-0')
    ended = miniqueue("sub", "orders", "--until-empty", "--", handle)
    assert ended.code == 1
    assert orders.length("orders") == 1


def test_a_program_that_is_killed_is_a_failure(miniqueue, orders, tmp_path):
    handle = program(tmp_path / "handle", "kill -9 $$")
    ended = miniqueue("sub", "orders", "--count", "1", "--", handle)
    assert ended.err == "miniqueue: message 0-0 of orders: killed by SIGKILL; returned\n"
    assert orders.length("orders") == 3


def test_a_program_need_not_read_its_input(miniqueue, client):
    client.publish("orders", b"x" * 1_000_000)
    assert miniqueue.out("sub", "orders", "--count", "1", "--", "true") == ""
    assert client.length("orders") == 0


def test_the_output_of_a_program_can_be_the_reply(miniqueue, client, url):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(client.request("sums", b"1 + 2")))
    thread.start()
    assert miniqueue.out("sub", "sums", "--count", "1", "--reply", "--", "cat") == ""
    thread.join()
    assert replies == [b"1 + 2"]


def test_the_lease_of_a_message_is_extended_while_its_program_runs(miniqueue, orders, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    [message] = orders.receive("orders")
    ticks = []

    def tick():
        ticks.append(orders.extend("orders", message, seconds=60))
        gate.write_bytes(b"")  # the program reads it to its end

    ended = run_program(
        ["cat", str(gate)], message, os.environ, Programs(), keeps_output=False, every_seconds=0.01, tick=tick
    )
    assert (ended.failure, ticks) == ("", [[True]])


def test_a_program_that_is_started_while_all_are_ended_is_ended_too(orders):
    [message] = orders.receive("orders")
    programs = Programs()
    programs.end()
    ended = run_program(
        ["sleep", "60"], message, os.environ, programs, keeps_output=False, every_seconds=60, tick=lambda: None
    )
    assert ended.failure == "killed by SIGTERM"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_program_end_and_loses_nothing(miniqueue, orders, tmp_path, number):
    handle = program(tmp_path / "handle", f'cat; echo; cat "{tmp_path}/gate"; echo done')
    process, gate = begun(miniqueue, tmp_path, "sub", "orders", "--", handle)
    assert process.stdout.readline() == b"one\n"
    process.send_signal(number)
    gate.write_bytes(b"")  # the program reads it to its end
    assert process.communicate(timeout=RUN_SECONDS) == (b"done\n", b"")
    assert process.returncode == 128 + number
    assert [message.id for message in orders.peek("orders")] == ["0-1", "0-2"]


def begun(miniqueue, tmp_path, *words):
    """Start a command whose programs wait until something is written to a file."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    return miniqueue.started(*words), gate


@pytest.mark.parametrize("sleep", ["exec sleep 60", "sleep 60; true", "sleep 60 | cat"])
def test_a_second_signal_ends_the_program_and_returns_its_message(miniqueue, orders, tmp_path, sleep):
    handle = program(tmp_path / "handle", f"cat; echo; {sleep}")
    process = miniqueue.started("sub", "orders", "--", handle)
    assert process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM), err
    assert sorted(message.id for message in orders.peek("orders")) == ["0-0", "0-1", "0-2"]


def test_programs_run_at_the_same_time(miniqueue, client, tmp_path):
    client.publish_many("orders", [b"one", b"two"])
    os.mkfifo(tmp_path / "gate")
    gate = tmp_path / "gate"
    handle = program(tmp_path / "handle", f'if test "$MESSAGE_ID" = 0-0; then cat {gate}; else echo met > {gate}; fi')
    ended = miniqueue.in_a_pipe("sub", "orders", "--count", "2", "-j", "4", "--", handle)
    assert ended == (0, "met\n", "")
    assert client.length("orders") == 0


def test_many_programs_at_a_time_handle_each_message_once(miniqueue, client, tmp_path):
    client.publish_many("orders", [b"%d" % number for number in range(30)])
    handle = program(tmp_path / "handle", 'echo "$(cat)"; test "$MESSAGE_ID" != 0-7')
    ended = miniqueue.in_a_pipe("sub", "orders", "--until-empty", "--parallel=3", "--", handle)
    assert (ended.code, ended.err) == (1, "miniqueue: message 0-7 of orders: exit code 1; returned\n")
    assert sorted(map(int, ended.out.split())) == list(range(30))
    assert client.length("orders") == 1


def test_a_broker_that_refuses_ends_all_programs_that_run_at_a_time(miniqueue):
    code, line = miniqueue.refused("sub", "or ders", "-j", "3", "--", "true")
    assert (code, line[:28]) == (69, "the broker refused: BADTOPIC")


def test_a_second_signal_ends_all_programs_and_returns_their_messages(miniqueue, orders, tmp_path):
    handle = program(tmp_path / "handle", 'echo "$(cat)"; exec sleep 60')
    process = miniqueue.started("sub", "orders", "-j", "3", "--", handle)
    assert {process.stdout.readline() for _ in range(3)} == {b"one\n", b"two\n", b"three\n"}
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=RUN_SECONDS)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert sorted(message.id for message in orders.peek("orders")) == ["0-0", "0-1", "0-2"]


def test_a_consumer_that_waits_ends_at_a_signal(miniqueue, orders):
    process = miniqueue.started("sub", "orders")
    assert [process.stdout.readline() for _ in range(3)] == [b"one\n", b"two\n", b"three\n"]
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=RUN_SECONDS) == (b"", b"")
    assert process.returncode == 143
    assert orders.length("orders") == 0


def test_what_a_reader_that_has_ended_did_not_get_is_not_acknowledged(miniqueue, client):
    client.publish_many("orders", [b"x" * 100_000] * 20)
    process = miniqueue.started("sub", "orders", "--until-empty")
    process.stdout.read(150_000)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(RUN_SECONDS) == 0
    process.stderr.close()
    assert client.stats("orders")["leased"] == 0
    assert client.length("orders") >= 18


@pytest.fixture
def retained(client):
    """A topic that keeps acknowledged messages, with a mark between two of them."""
    client.create_topic("diary", retention="forever", partitions=2)
    marks = []
    for text in ("one", "two", "three"):
        message_id = client.publish("diary", text, key=text)
        marks.append(client.find("diary", message_id).published_at)
        while datetime.now(UTC) <= marks[-1].replace(microsecond=marks[-1].microsecond // 1000 * 1000 + 999):
            pass  # until the next millisecond
    for message in client.receive("diary", count=10):
        client.ack("diary", message)
    return client, marks


def test_a_span_has_acknowledged_messages_and_ends(miniqueue, retained):
    client, (_, second, third) = retained
    assert sorted(miniqueue.out("sub", "diary", "--from-time", "-1h").split()) == ["one", "three", "two"]
    since = second.isoformat()
    assert sorted(miniqueue.out("sub", "diary", "--from-time", since).split()) == ["three", "two"]
    assert miniqueue.out("sub", "diary", "--from-time", since, "--to-time", third.isoformat()).split() == ["two"]
    assert [group.name for group in client.groups("diary")] == ["default"]


def test_a_span_of_a_topic_that_does_not_exist_does_not_create_it(miniqueue, client):
    code, line = miniqueue.refused("sub", "none", "--from-time", "-1h")
    assert (code, line) == (69, "the broker refused: NOTOPIC There is no such topic: none")
    assert client.topics() == []


def test_a_broker_that_is_down_at_first_is_an_error(without_url):
    code, line = without_url.refused("sub", "orders", "--url", "redis://localhost:1")
    assert (code, line[:14]) == (69, "cannot connect")
