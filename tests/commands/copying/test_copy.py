"""`miniqueue copy` as a process, which is killed, as are the brokers."""

import json
import random
import signal

import pytest

from miniqueue_client import Client, Outgoing
from tests.acceptance.users import UsersFile
from tests.client.broker import RespBroker
from tests.commands.support import CommandLine

PAYLOADS = [b"%d" % n for n in range(3000)]
#: Messages between two kills.
EACH = 500


@pytest.fixture
def line(tmp_path, capsys):
    """`miniqueue` without a broker."""
    return CommandLine("", tmp_path, capsys)


def payloads_of(client, topic):
    found = []
    for bounds in client.partitions(topic):
        offset = bounds.earliest
        while (page := client.read(topic, bounds.partition, offset, count=1000)).messages:
            found += [message.payload for message in page.messages]
            offset = page.next
    return found


def test_topics_are_copied_once(line, source, target):
    source.publish_many("orders.eu", [b"1", b"2"])
    source.publish_many("orders.us", [b"3"])
    source.publish_many("letters", [b"4"])
    words = "copy", "--from", source.address.url, "--to", target.address.url, "--pattern", "orders.*", "letters"
    assert line.in_a_pipe(*words) == (
        0,
        "topic      copied  lag  expired  missed\n"
        "letters         1    0        0       0\n"
        "orders.eu       2    0        0       0\n"
        "orders.us       1    0        0       0\n",
        "",
    )
    rows = [json.loads(row)["copied"] for row in line(*words, "-o", "jsonl").out.splitlines()]
    assert rows == [0, 0, 0]
    assert payloads_of(target, "orders.eu") == [b"1", b"2"]
    assert [group.name for group in source.groups("letters")] == ["default"]


def test_brokers_are_contexts_or_addresses(line, source, target):
    source.publish("orders", b"1")
    line("context", "add", "old", "--url", source.address.url)
    line("context", "add", "new", "--url", target.address.url)
    assert line("copy", "--from", "old", "--to", "new", "orders").code == 0
    assert payloads_of(target, "orders") == [b"1"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from", "{a}", "--to", "{b}"], "missing topics; name some, or use --pattern; see -h"),
        (["--from", "{a}", "--to", "{a}", "t"], "flags --from and --to: both name the same broker"),
        (["--from", "{a}", "--to", "nowhere", "t"], "flag --to: no such context: 'nowhere'; there are: none"),
        (["--from", "{a}", "t"], "missing flag --to; see -h"),
        (["--from", "{a}", "--to", "{b}", "t"], "the source has no topic t"),
        (["--from", "http://x", "--to", "{b}", "t"], "flag --from: invalid broker URL: http://x; must be redis://"),
    ],
)
def test_a_bad_command_line_is_refused(line, source, target, words, problem):
    urls = {"a": source.address.url, "b": target.address.url}
    code, shown = line.refused("copy", *(word.format(**urls) for word in words))
    assert code == 78
    assert shown.startswith(problem)


def test_a_broker_that_is_down_at_first_is_an_error(line, source):
    words = "copy", "--from", source.address.url, "--to", "redis://localhost:1", "orders"
    code, shown = line.refused(*words)
    assert (code, shown.strip()) == (69, "cannot connect to redis://localhost:1: Connection refused")


def test_lost_messages_are_in_the_exit_code(line, source, target):
    source.create_topic("orders", retention_messages=1, retention_drops_unread=True)
    words = "copy", "--from", source.address.url, "--to", target.address.url, "orders"
    line(*words)
    source.create_group("orders", "copy")
    for n in range(5):
        source.publish("orders", b"%d" % n)
    while source.partitions("orders")[0].earliest < 3:
        pass
    ended = line(*words, "-o", "jsonl")
    assert json.loads(ended.out)["missed"] >= 3
    assert ended.code == 1


@pytest.mark.slow
def test_whatever_is_killed_every_message_is_copied_exactly_once(line, durable):
    """The source, the target, and the copy are killed at random while messages arrive."""
    chance = random.Random(17)
    origin, destination = durable
    highs = [b"high %d" % start for start in range(0, len(PAYLOADS), EACH)]
    words = "copy", "--from", origin.url, "--to", destination.url, "orders", "--follow", "-o", "jsonl"
    words += "--interval", "50ms"
    with Client(origin.url, retries=-1) as source, Client(destination.url, retries=-1) as target:
        source.create_topic("orders", partitions=2, max_deliveries=1)
        copy = line.started(*words)
        for start in range(0, len(PAYLOADS), EACH):
            payloads = PAYLOADS[start : start + EACH]
            source.publish_each("orders", [Outgoing(each, (), b"%d" % (int(each) % 7)) for each in payloads])
            source.publish("orders", b"high %d" % start, priority="high")
            match chance.choice(["copy", "source", "target", "both", "none"]):
                case "copy":
                    wait_for_a_report(copy)
                    copy.kill()
                    copy.communicate()
                    copy = line.started(*words)
                case "source":
                    origin.kill()
                    origin.start()
                case "target":
                    destination.kill()
                    destination.start()
                case "both":
                    destination.kill()
                    origin.kill()
                    origin.start()
                    destination.start()
        while json.loads(copy.stdout.readline())["lag"] or target.length("orders") < len(PAYLOADS) + len(highs):
            pass
        copy.send_signal(signal.SIGINT)
        copy.communicate()
        assert copy.returncode == 130
        assert sorted(payloads_of(target, "orders")) == sorted(PAYLOADS + highs)
        for partition in ("0", "1"):
            messages = target.read("orders", partition, count=10_000, max_bytes=4 << 20).messages
            for key in {message.key for message in messages}:
                numbers = [int(message.payload) for message in messages if message.key == key]
                assert numbers == sorted(numbers)


def wait_for_a_report(copy):
    assert copy.stdout.readline(), copy.stderr.read()


def test_a_copy_that_follows_reports_and_continues(line, source, target):
    source.publish("orders", b"1")
    words = "copy", "--from", source.address.url, "--to", target.address.url, "orders", "--follow"
    copy = line.started(*words, "--interval", "20ms")
    while b"copied 1  lag 0" not in copy.stdout.readline():
        pass
    source.publish("orders", b"2")
    while b"copied 2  lag 0" not in copy.stdout.readline():
        pass
    copy.send_signal(signal.SIGTERM)
    assert copy.communicate()[1] == b""
    assert copy.returncode == 143
    [group] = [group for group in source.groups("orders") if group.name == "copy"]
    assert group.lag == 0
    source.publish("orders", b"3")
    assert line(*words[:-1]).code == 0
    assert payloads_of(target, "orders") == [b"1", b"2", b"3"]


def test_a_terminal_shows_how_far_a_copy_is(line, source, target):
    source.publish_many("orders", PAYLOADS)
    words = "copy", "--from", source.address.url, "--to", target.address.url, "orders"
    ended = line.on_a_terminal(*words)
    assert ended.code == 0
    assert "copying" in ended.out
    assert " of 3,000 messages" in ended.out
    assert "\norders     3000     0         0        0\n" in ended.out


@pytest.fixture
def guarded(tmp_path):
    """A broker with users, and the tokens of those who may do a part of what a copy does."""
    users = UsersFile(tmp_path)
    users.add("reader", "-subscriber", "orders")
    users.add("writer", "-publisher", "orders", "-monitor", "*", "-admin", "orders")
    users.add("copier", "-publisher", "orders miniqueue.copies", "-monitor", "orders miniqueue.copies")
    broker = RespBroker(tmp_path, "-storage", "memory", "-users", str(users.path))
    yield broker, users
    broker.end()


def test_a_missing_role_is_named_with_the_broker(line, source, guarded):
    broker, users = guarded
    source.publish("orders", b"1")
    for name in ("reader", "writer", "copier"):
        line("context", "add", name, "--url", broker.url, "--token-file", users.token_file(name))
    words = "copy", "--from", source.address.url, "orders", "--to"
    code, shown = line.refused(*words, "writer")
    assert code == 69
    assert shown.endswith(f"; it requires the role publisher on miniqueue.copies; said by {broker.url}")
    ended = line(*words, "copier", "--no-create", "--name", "again")
    assert (ended.code, ended.err) == (0, "")
    code, shown = line.refused("copy", "--from", "reader", "--to", source.address.url, "orders")
    assert code == 69
    assert shown.endswith(f"; said by {broker.url}")
