"""Runs of a command: found without a parser, and only where a parser would have found the same."""

import pytest

from miniqueue.wire.resp_reader import CommandReader, Run, RunTransaction, encode_run, gather_runs, split_run
from tests.wire.test_resp_commands import bulks

WORDS = frozenset({b"PUBLISH"})


def publishes(*payloads, topic=b"orders"):
    return b"".join(bulks(b"PUBLISH", topic, payload) for payload in payloads)


def split(data):
    return split_run(data, WORDS)


@pytest.mark.parametrize(
    "payloads",
    [
        [b""],
        [b"one"],
        [b"same", b"size"],
        [b"x" * n for n in (0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 4089, 4090, 4091, 9999, 10000, 99_999, 100_000)],
        [b"\r\n", b"*3\r\n", b"$7\r\nPUBLISH\r\n"],
    ],
    ids=len,
)
def test_payloads_of_a_run(payloads):
    data = publishes(*payloads)
    assert split(data) == (Run([b"PUBLISH", b"orders"], payloads), len(data))


def test_unfinished_command_is_left_and_the_one_before_it_if_its_end_cannot_be_seen():
    payloads, begun = [b"a", b"bc"], publishes(b"x\r\nyz")
    head_bytes = begun.index(b"5\r\n")
    for size in range(len(begun)):
        whole = payloads if size == 0 or size >= head_bytes else payloads[:1]
        found = split(publishes(*payloads) + begun[:size])
        assert found == (Run([b"PUBLISH", b"orders"], whole), len(publishes(*whole))), size


@pytest.mark.parametrize("payload", [b"abc", b"", b"\r\n"])
def test_unfinished_command_alone_is_no_run(payload):
    data = publishes(payload)
    assert not any(split(data[:size]) for size in range(len(data)))


def test_an_empty_payload_is_not_taken_to_have_ended_with_the_line_of_its_size():
    reader = CommandReader(run_words=WORDS)
    assert reader.read(publishes(b"", b"")[:-2]) == [Run([b"PUBLISH", b"orders"], [b""])]
    assert reader.read(b"\r\n" + bulks(b"PING")) == [Run([b"PUBLISH", b"orders"], [b""]), [b"PING"]]
    assert reader.error is None


def test_other_commands_after_the_run_are_left():
    whole = publishes(b"a", b"b")
    found = split(whole + publishes(b"c", topic=b"others") + bulks(b"PING"))
    assert found == (Run([b"PUBLISH", b"orders"], [b"a"]), len(publishes(b"a")))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PING\r\n",
        bulks(b"PUBLISH", b"orders"),
        bulks(b"PUBLISH", b"orders", b"a", b"b"),
        bulks(b"ACK", b"DACK", b"x"),
        publishes(b"").replace(b"$6", b"$5"),
        publishes(b"").replace(b"$6", b"$06"),
        publishes(b"").replace(b"$7", b"$07"),
        publishes(b"a").replace(b"$1", b"$01"),
        publishes(b"a", b"b", b"c").replace(b"$1\r\nb", b"$2\r\nb"),
        publishes(b"a" * 9).replace(b"$9", b"$10"),
        publishes(b"a")[:-2] + b"XY",
        publishes(b"a\r\n" + publishes(b"b"), b"c"),  # the first payload looks like two commands
    ],
)
def test_what_is_no_run(data):
    assert split(data) is None


def test_commands_are_gathered_into_runs():
    publish = [b"PUBLISH", b"a"]
    commands = [[*publish, b"1"], [*publish, b"2"], [b"PING"], [*publish, b"3"], [b"PUBLISH", b"b", b"4"]]
    assert gather_runs(commands, WORDS) == [
        Run(publish, [b"1", b"2"]),
        [b"PING"],
        Run(publish, [b"3"]),
        Run([b"PUBLISH", b"b"], [b"4"]),
    ]


@pytest.mark.parametrize("spelled", [bytes.upper, bytes.lower])
@pytest.mark.parametrize("payloads", [[b"one"], [b"same", b"size"], [b"", b"\r\n", bulks(b"EXEC")]], ids=len)
def test_a_transaction_of_a_run_is_read_as_a_whole(spelled, payloads):
    reader = CommandReader(run_words=WORDS)
    multi, exec_ = spelled(b"MULTI"), spelled(b"EXEC")
    data = bulks(multi) + publishes(*payloads) + bulks(exec_)
    run = Run([b"PUBLISH", b"orders"], payloads)
    whole = RunTransaction([multi], run, [exec_])
    assert reader.read(data) == [whole]
    assert reader.read(data[:-1]) == [[multi], run]
    assert reader.read(data[-1:] + data) == [[exec_], whole]
    assert reader.read(data + data) == [[multi], run, [exec_], [multi], run, [exec_]]


def test_lone_command_like_the_last_one_is_known_again():
    reader = CommandReader(run_words=WORDS)
    assert reader.read_again(publishes(b"first")) is None
    assert reader.read(publishes(b"first")) == [Run([b"PUBLISH", b"orders"], [b"first"])]
    for payload in (b"other", b"\r\n\r\n$", b"first"):
        assert reader.read_again(publishes(payload)) == Run([b"PUBLISH", b"orders"], [payload])
    assert reader.read_again(publishes(b"longer")) is None
    assert reader.read(publishes(b"second", topic=b"others")) == [Run([b"PUBLISH", b"others"], [b"second"])]
    assert reader.read(bulks(b"PING")) == [[b"PING"]]


@pytest.mark.parametrize("spelled", [bulks(b"ACK"), b"ACK\n", b"ACK\r\n"])
def test_word_that_is_said_again_is_known(spelled):
    reader = CommandReader(run_words=WORDS)
    assert reader.read_again(spelled) is None
    assert reader.read(spelled) == [[b"ACK"]]
    assert [reader.read_again(spelled) for _ in range(3)] == [[b"ACK"]] * 3
    assert reader.read_again(spelled.replace(b"A", b"B")) is None
    assert reader.read_again(spelled[:-1]) is None
    for other in (bulks(b"ACK", b"1"), spelled * 2, bulks(b"P" * 40), bulks(b"PUB", b"t")[:-2]):
        reader.read(other)
        assert reader.read_again(spelled) is None
    assert reader.read(b"\r\n" + spelled) == [[b"PUB", b"t"], [b"ACK"]]


def test_what_only_begins_like_the_last_command_is_read_as_what_it_is():
    lone = publishes(b"x" * 60)
    for other in (publishes(b"a"), publishes(b"a", b"b") + b"*", lone[:-1] + b"X", lone[:-2] + b"X\n"):
        reader = CommandReader(run_words=WORDS)
        reader.read(lone)
        assert reader.read_again(other) is None
        fresh = CommandReader(run_words=WORDS)
        assert reader.read(other) == fresh.read(other)
        assert reader.read(lone) == fresh.read(lone)


def test_nothing_is_known_again_while_something_else_is_not_read():
    lone = publishes(b"first")
    reader = CommandReader(run_words=WORDS, max_read_bytes=len(lone))
    first = bulks(b"ECHO", b"x" * (len(lone) - len(bulks(b"ECHO", b"")) - 1))
    assert len(first) == len(lone)
    assert len(reader.read(first + lone + bulks(b"PING"))) == 1
    assert reader.read(b"") == [Run([b"PUBLISH", b"orders"], [b"first"])]
    assert reader.read_again(lone) is None
    assert reader.read(lone) == [[b"PING"]]

    reader = CommandReader(run_words=WORDS)
    reader.read(lone)
    reader.keep(bulks(b"PING"))
    assert reader.read_again(lone) is None
    assert reader.read(lone)[0] == [b"PING"]


@pytest.mark.parametrize("payloads", [[b""], [b"a"], [b"a", b"b"], [b"a", b"", b"ccc"], [b"\r\n$1\r\n", b"x" * 10_000]])
def test_a_run_is_encoded_as_the_client_sent_it(payloads):
    assert encode_run(Run([b"PUBLISH", b"orders"], payloads)) == publishes(*payloads)
