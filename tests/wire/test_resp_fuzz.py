"""The fast reader against the strict parser: the same commands and the same error for any bytes."""

import random
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.wire.resp_limits import STRANGER, USUAL, Limits, limits_for
from miniqueue.wire.resp_parser import StrictParser
from miniqueue.wire.resp_reader import CommandReader
from tests.wire.test_resp_commands import LIMITS, READERS, bulks, reader_of_runs, run

HOSTILE = [
    b"\n*1000\r\n",
    b"*2147483647\r\n",
    b"\r\n$99999999\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"|1\r\n",
    b"~1\r\n",
    b">1\r\n",
    b"%1\r\n",
    b"+OK\r\n",
    b"-ERR\r\n",
    b":1\r\n",
    b"=5\r\ntxt:a\r\n",
    b"(1\r\n",
    b"#t\r\n",
    b"_\r\n",
    b",1.5\r\n",
    b'"',
    b"'",
    b"XY",
    b"*0\r\n",
    b"*-1\r\n",
    b"*1\r\n",
    b"*2\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$1\r\na\r\n",
    b"$1\r\naXY",
    b"$4\r\nPING\r\n",
    b"PING\r\n",
    b"GET /\r\n",
]
fragments = st.sampled_from(HOSTILE)
payloads = st.binary(max_size=30) | st.lists(fragments, max_size=4).map(b"".join)
commands = st.lists(payloads, min_size=1, max_size=5)
HEAD = b"*3\r\n$1\r\na\r\n$1\r\nt\r\n$"
run_payloads = payloads | st.sampled_from([HEAD, HEAD + b"1\r\nx", b"\r\n" + HEAD, b"x\r\n" + HEAD + b"1\r\nx"])
runs = st.lists(run_payloads, max_size=6).map(lambda each: [[b"a", b"t", payload] for payload in each])
receipts = st.integers(0, 1010).map(lambda start: [b"ACK", *(b"%d" % number for number in range(start, start + 20))])
streams = st.one_of(st.lists(commands, max_size=8), st.lists(receipts, max_size=2), runs).map(
    lambda each: b"".join(bulks(*command) for command in each)
)
inline = st.lists(st.sampled_from([b"PING", b" ", b'"', b"'", b"\\x41", b"\\", b"t", b"\r"]), max_size=6)


@st.composite
def mutated(draw):
    stream = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(stream)))
        stream[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=2) | fragments)
    return bytes(stream)


anything = st.one_of(
    streams,
    mutated(),
    st.binary(max_size=200),
    st.lists(fragments, max_size=12).map(b"".join),
    st.lists(streams | inline.map(lambda words: b"P" + b"".join(words) + b"\n"), max_size=4).map(b"".join),
)


def split(stream, cuts):
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


LOW = Limits(**LIMITS)
FEW = replace(LOW, max_words=3, max_words_of_many=6)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, LOW, FEW, STRANGER], ids=["usual", "low", "few", "stranger"])
def test_all_read_the_same(limits):
    @settings(max_examples=700, deadline=None, derandomize=True, database=None)
    @given(anything, st.lists(st.integers(0, 250), max_size=6))
    def check(stream, cuts):
        expected = run(StrictParser(limits), [stream])
        for pieces in ([stream], split(stream, cuts), split(stream, range(len(stream)))):
            for new in (StrictParser, *READERS):
                assert run(new(limits), pieces) == expected

    check()


@pytest.mark.slow
def test_two_streams_in_one_read_are_what_they_are_apart():
    """What merges is what a sender with much to say and a slow network give."""

    @settings(max_examples=500, deadline=None, derandomize=True, database=None)
    @given(st.lists(streams, max_size=5), anything)
    def check(before, last):
        apart = [command for stream in before for command in run(StrictParser(LOW), [stream])[0]]
        whole, error = run(StrictParser(LOW), [last])
        if any(run(StrictParser(LOW), [stream])[1] for stream in before):
            return  # nothing is read after an error
        for new in (StrictParser, *READERS):
            assert run(new(LOW), [b"".join(before) + last]) == (apart + whole, error)

    check()


@given(st.lists(commands, max_size=8) | runs, st.lists(st.integers(0, 500), max_size=4))
def test_what_is_encoded_is_read(sent, cuts):
    stream = b"".join(bulks(*command) for command in sent)
    assert run(CommandReader(), split(stream, cuts)) == (sent, None)
    assert run(reader_of_runs(USUAL), split(stream, cuts)) == (sent, None)
    assert run(reader_of_runs(USUAL), [bulks(*command) for command in sent]) == (sent, None)


@pytest.mark.slow
def test_two_terminators_and_a_type_changed_at_once():
    """Mistakes that could cancel each other out in a sum of lengths."""
    chance = random.Random(7)
    bodies = [b"$1\r\na", b"+a", b"=5\r\ntxt:a", b"=6\r\n\n\n\n:ab", b"(12", b"$2\r\n\r\n", b"$0\r\n"]
    for _ in range(4000):
        body = [chance.choice(bodies) + chance.choice([b"\r\n", b"\r\n", b"XY", b"\nX"]) for _ in range(4)]
        stream = b"*4\r\n" + b"".join(body) + chance.choice([b"", b"*1\r\n$1\r\nx\r\n", b"*2\r\n$1\r\nx\r\n"])
        assert run(CommandReader(), [stream]) == run(StrictParser(), [stream]), stream


def peak_bytes(reader, pieces):
    tracemalloc.start()
    for piece in pieces:
        reader.read(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    "start",
    [b"*2\r\n$1\r\nP\r\n$9999999\r\n", b"*2\r\n$1\r\nPXY$500000000\r\n", b"*1\r\n$1048577\r\n", b"P", b"*9999\r\n"],
)
def test_reader_holds_no_more_than_its_limit(start):
    piece = b"x" * 65536
    assert peak_bytes(CommandReader(), [start] + [piece] * 140) < 300_000


def test_payload_within_the_limit_is_held_once():
    pieces = [b"*2\r\n$1\r\nP\r\n$1000000\r\n"] + [b"x" * 50_000] * 19
    assert peak_bytes(CommandReader(), pieces) < 1_500_000


class FedBytes:
    """A `hiredis.Reader` that notes what it was given."""

    def __init__(self, reader, seen):
        self._reader, self._seen = reader, seen
        self.gets = reader.gets

    def feed(self, data):
        self._seen.append(data)
        self._reader.feed(data)


@pytest.mark.parametrize("kind", [b"*", b"%", b"~", b">", b"|"])
@pytest.mark.parametrize("before", [b"", b"*1\r\n", b"*2\r\n$1\r\na\r\n", b"*2\r\n$1\r\naXY", b"*1\r\n$0\r\n\r\n"])
def test_hiredis_never_sees_a_long_aggregate(kind, before):
    seen = []
    reader = CommandReader()
    reader._hiredis = FedBytes(reader._hiredis, seen)
    reader.read(before + kind + b"2147483647\r\n")
    assert seen == []


@pytest.mark.slow
def test_a_million_tiny_commands_in_one_read():
    stream = b"*1\r\n$1\r\na\r\n" * 1_000_000
    assert len(CommandReader().read(stream)) == 1_000_000


@pytest.mark.slow
def test_large_payload_in_small_pieces_takes_linear_time():
    payload = b"x" * 10_000_000
    stream = bulks(b"P", payload)
    pieces = [stream[i : i + 65536] for i in range(0, len(stream), 65536)]
    commands_read, error = run(CommandReader(limits_for(1 << 24)), pieces)
    assert (commands_read, error) == ([[b"P", payload]], None)


def test_silent_connection_does_not_keep_the_buffer_of_a_large_read():
    reader = CommandReader()
    first = reader._hiredis
    reader.read(bulks(b"P", b"x" * 100))
    assert reader._hiredis is first
    reader.read(bulks(b"P", b"x" * 100) * 1000)
    assert reader._hiredis is not first


@pytest.mark.parametrize("rest", [b"*1\r\n$4\r\nPI", b"*1\r\n", b"*", b"*1\r\n:1\r\n", b"~0\r\n"])
def test_hiredis_keeps_nothing_of_an_unfinished_or_bad_command(rest):
    reader = CommandReader()
    reader.read(bulks(b"PING") + rest)
    assert reader._hiredis.len() == 0
