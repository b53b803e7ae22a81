"""`miniqueue pub`: an argument, standard input, lines; options; refusals."""

import json
import subprocess
import threading

import pytest

from miniqueue.errors import DisconnectedError
from miniqueue_client import Client
from tests.commands.support import RUN_SECONDS

pytestmark = pytest.mark.acceptance

BAD_WORDS = [
    (["pub"], "missing argument TOPIC; see -h"),
    (["pub", ""], "argument TOPIC: invalid topic: ''; must be UTF-8, and not empty"),
    (["pub", "t", "x", "--delay", "-1"], "flag --delay: invalid duration: '-1'; must be a number of seconds, or a"),
    (["pub", "t", "x", "--at", "soon"], "flag --at: invalid time: 'soon'; must be a time such as 2026-12-01T08:00:00Z"),
    (["pub", "t", "x", "--header", "x"], "flag --header: invalid name=value: 'x'; must be name=value, in UTF-8"),
    (["pub", "t", "x", "--priority", "9"], "flag --priority: invalid value: '9'; must be high, normal or low"),
    (["pub", "t", "x", "--replace"], "flag --replace: requires --unique-key"),
    (["pub", "t", "x", "--lines"], "flag --lines: cannot be used with a payload, or with --reply-within"),
    (["pub", "t", "x", "--reply-within", "1", "--delay", "1"], "flag --reply-within: cannot be used with --delay"),
]


@pytest.mark.parametrize(("words", "line"), BAD_WORDS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_said_in_one_line(miniqueue, client, words, line):
    code, shown = miniqueue.refused(*words)
    assert (code, shown[: len(line)]) == (78, line)
    assert client.topics() == []


def test_an_argument_is_published_and_its_id_printed(miniqueue, client):
    assert miniqueue.out("pub", "orders", "hello") == "0-0\n"
    assert miniqueue.out("pub", "orders", "") == "0-1\n"
    assert miniqueue.out("pub", "orders", "x", "-q") == ""
    assert [message.payload for message in client.peek("orders")] == [b"hello", b"", b"x"]


def test_standard_input_is_published_as_it_is(miniqueue, client):
    assert miniqueue.out("pub", "orders", stdin=b"a\n\x00\xff\n") == "0-0\n"
    assert miniqueue.out("pub", "orders", "-o", "json", stdin=b"") == '{"topic":"orders","id":"0-1"}\n'
    assert [message.payload for message in client.peek("orders")] == [b"a\n\x00\xff\n", b""]


def test_a_payload_that_is_too_large_is_named_and_not_a_protocol_error(miniqueue, client):
    ended = miniqueue("pub", "orders", stdin=bytes((1 << 20) + 1))
    assert ended.code == 69
    assert "the payload has 1048577 bytes" in ended.err
    assert ended.err.endswith("(-max-message-size)\n")
    assert client.topics() == []


def test_options_are_those_of_the_client(miniqueue, client):
    options = ["--key", "ann", "--header", "a=1", "--header", "a=b=2", "--ttl", "1h", "--priority", "high"]
    miniqueue.out("pub", "orders", "x", *options)
    [message] = client.peek("orders")
    assert (message.key, message.headers) == (b"ann", (("a", b"1"), ("a", b"b=2")))
    assert message.expires_at_ms - message.published_at_ms in range(3_540_000, 3_660_000)
    assert message.id == "0.high-0"


def test_a_message_can_be_delayed(miniqueue, client):
    miniqueue.out("pub", "orders", "a", "--delay", "1h30m")
    miniqueue.out("pub", "orders", "b", "--at", "2100-01-01T00:00:00Z")
    first, second = client.peek("orders", state="delayed")
    assert first.due_at_ms - first.published_at_ms in range(5_340_000, 5_460_000)
    assert second.due_at_ms == 4_102_444_800_000


def test_a_duplicate_is_not_stored_and_has_the_id_of_the_first(miniqueue, client):
    assert miniqueue.out("pub", "orders", "x", "--dedup-id", "7") == "0-0\n"
    assert json.loads(miniqueue.out("pub", "orders", "x", "--dedup-id", "7", "-o", "jsonl")) == {
        "topic": "orders",
        "id": "0-0",
        "duplicate": True,
    }
    assert miniqueue.out("pub", "orders", "y", "--unique-key", "k") == "0-1\n"
    assert miniqueue.out("pub", "orders", "z", "--unique-key", "k", "--replace") == "0-2\n"
    assert [message.payload for message in client.peek("orders")] == [b"x", b"z"]


def test_each_line_is_a_message(miniqueue, client):
    assert miniqueue.out("pub", "orders", "--lines", stdin=b'{"n":1}\n\n{"n":3}').split() == ["0-0", "0-1", "0-2"]
    assert [message.payload for message in client.peek("orders")] == [b'{"n":1}', b"", b'{"n":3}']
    out = miniqueue.out("pub", "orders", "--lines", "--key", "k", "-o", "jsonl", stdin=b"4\n5\n")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["0-3", "0-4"]
    assert [message.key for message in client.peek("orders")] == [b"", b"", b"", b"k", b"k"]


def test_thousands_of_lines_are_all_published_in_order(miniqueue, client):
    count = 5000
    miniqueue.out("pub", "orders", "--lines", "-q", stdin=b"".join(b"%d\n" % number for number in range(count)))
    assert client.length("orders") == count
    assert [int(message.payload) for message in client.read("orders", count=count).messages] == list(range(count))


def test_the_same_lines_under_the_same_id_are_published_once(miniqueue, client):
    for _ in range(2):
        miniqueue.out("pub", "orders", "--lines", "--dedup-id", "load-1", stdin=b"a\nb\n")
    assert client.length("orders") == 2


def test_lines_can_be_delayed(miniqueue, client):
    assert len(miniqueue.out("pub", "orders", "--lines", "--delay", "1h", stdin=b"a\nb\n").split()) == 2
    assert len(client.peek("orders", state="delayed")) == 2


def test_a_line_that_is_refused_is_named_and_ends_the_command(miniqueue, client):
    client.create_topic("orders", max_message_bytes=3)
    ended = miniqueue("pub", "orders", "--lines", stdin=b"one\ntwo\nthree\n")
    assert (ended.code, ended.out) == (69, "0-0\n0-1\n")
    assert ended.err.startswith("miniqueue: line 3: the broker refused: TOOBIG ")
    assert ended.err.endswith("; 2 lines published\n")


def test_a_line_that_is_larger_than_any_message_is_named_with_its_size(miniqueue, client):
    ended = miniqueue("pub", "orders", "--lines", stdin=b"one\n" + b"x" * 3_000_000 + b"\n")
    assert (ended.code, ended.out) == (69, "0-0\n")
    assert ended.err == (
        "miniqueue: line 2: the payload has 3000000 bytes, more than the broker accepts (-max-message-size); "
        "1 line published\n"
    )


def test_a_broker_that_is_lost_leaves_the_number_of_lines_that_are_published(miniqueue, monkeypatch):
    publish_each, published = Client.publish_each, []

    def publish_and_lose(self, topic, messages):
        if published:
            raise DisconnectedError("lost")
        published.append(publish_each(self, topic, messages))
        return published[-1]

    monkeypatch.setattr(Client, "publish_each", publish_and_lose)
    lines = b"".join(b"%d\n" % number for number in range(1500))
    ended = miniqueue("pub", "orders", "--lines", "-q", stdin=lines)
    assert (ended.code, ended.out) == (69, "")
    assert ended.err == "miniqueue: lost; 1000 lines published, later ones perhaps\n"


def test_a_slow_writer_waits_for_nothing(miniqueue, client):
    process = miniqueue.started("pub", "orders", "--lines", stdin=subprocess.PIPE)
    watchdog = threading.Timer(RUN_SECONDS, process.kill)
    watchdog.start()
    with process:
        for number in range(3):
            process.stdin.write(b"%d\n" % number)
            process.stdin.flush()
            assert process.stdout.readline() == b"0-%d\n" % number
        process.stdin.close()
    watchdog.cancel()
    assert process.returncode == 0


def test_a_reader_that_has_ended_is_no_error(miniqueue, client):
    process = miniqueue.started("pub", "orders", "--lines", stdin=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(b"x\n" * 10)
    process.stdin.close()
    assert process.stderr.read() == b""
    assert process.wait(RUN_SECONDS) == 0
    process.stderr.close()


def test_on_a_terminal_a_payload_is_not_read_from_the_keyboard(miniqueue):
    shown = miniqueue.on_a_terminal("pub", "orders")
    assert (shown.code, shown.out) == (
        78,
        "miniqueue: missing argument PAYLOAD; or redirect standard input, as in `miniqueue pub orders < file`\n",
    )


def test_a_request_prints_its_reply(miniqueue, client):
    def answer():
        [message] = client.receive("sums", wait_seconds=60)
        client.reply("sums", message, message.payload + b" = 3")

    thread = threading.Thread(target=answer)
    thread.start()
    assert miniqueue.out("pub", "sums", "1 + 2", "--reply-within", "60s") == "1 + 2 = 3\n"
    thread.join()


def test_a_request_without_a_reply_is_refused(miniqueue, client):
    code, line = miniqueue.refused("pub", "sums", "1 + 2", "--reply-within", "10ms")
    assert (code, line[:27]) == (69, "the broker refused: TIMEOUT")
