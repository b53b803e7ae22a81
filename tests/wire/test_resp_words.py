r"""Many words of one command: read in C, and as the strict parser reads them."""

from random import Random

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.wire import resp_parser
from miniqueue.wire.resp_limits import USUAL, Limits
from miniqueue.wire.resp_parser import WORD_BYTES, StrictParser, SwiftParser
from miniqueue.wire.resp_reader import CommandReader
from tests.wire.test_resp_commands import BAD_SIZE, NO_CRLF, bulks, reader_in_pieces, run
from tests.wire.test_resp_fuzz import HOSTILE, payloads, split

LOW = Limits(max_words=30, max_words_of_many=2000, max_bulk_bytes=60, max_command_bytes=2000)
LONG = [b"ACK", *(b"%d" % number for number in range(1500))]

long_commands = st.lists(payloads, min_size=20, max_size=120).map(lambda words: bulks(b"ACK", *words))
others = st.sampled_from([b"", b"*1\r\n$4\r\nPING\r\n", b"*2\r\n$1\r\na", b"!"])


@st.composite
def damaged(draw):
    stream = bytearray(draw(long_commands))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(stream)))
        stream[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=2) | st.sampled_from(HOSTILE))
    return bytes(stream)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, LOW], ids=["usual", "low"])
def test_they_are_what_the_strict_parser_reads(limits):
    @settings(max_examples=500, deadline=None, derandomize=True, database=None)
    @given(long_commands | damaged(), others, st.lists(st.integers(0, 3000), max_size=6))
    def check(stream, behind, cuts):
        expected = run(StrictParser(limits), [stream + behind])
        for pieces in ([stream + behind], split(stream + behind, cuts)):
            for new in (SwiftParser, CommandReader, reader_in_pieces):
                assert run(new(limits), pieces) == expected

    check()


@pytest.mark.parametrize("size", [1, 7, 129, 200, 1000, 1 << 20])
def test_a_command_is_the_same_however_it_is_split(size):
    stream = bulks(*LONG) + bulks(b"PING")
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert run(SwiftParser(), pieces) == ([LONG, [b"PING"]], None)
    assert run(CommandReader(), pieces) == ([LONG, [b"PING"]], None)


@pytest.mark.parametrize("place", [1, 20, 1499])
def test_two_bytes_behind_a_word_are_no_line_end(place):
    before, behind = bulks(*LONG)[: -len(b"$4\r\n1499\r\n")], b"$4\r\n1499\r\n"
    word = b"$%d\r\n%d" % (len(str(place)), place)
    stream = (before + behind).replace(word + b"\r\n", word + b"XY", 1)
    assert run(SwiftParser(), [stream]) == ([], NO_CRLF)


def test_limits_are_those_of_the_strict_parser():
    fits, too_many = [b"x" * 20] * 99, [b"x" * 20] * 100
    assert run(SwiftParser(LOW), [bulks(b"ACK", *fits)]) == ([[b"ACK", *fits]], None)
    assert run(SwiftParser(LOW), [bulks(b"ACK", *too_many)]) == ([], BAD_SIZE)
    assert run(SwiftParser(LOW), [bulks(b"ACK", *fits[:50], b"x" * 61, *fits[:40])]) == ([], BAD_SIZE)


class Fed:
    """Makes readers of hiredis, and notes what they are given."""

    def __init__(self):
        self.seen = []

    def __call__(self):
        self.reader = hiredis.Reader(notEnoughData=resp_parser.NOTHING)
        return self

    def feed(self, data):
        self.seen.append(data)
        self.reader.feed(data)

    def gets(self):
        return self.reader.gets()


def test_most_of_them_are_read_in_c(monkeypatch):
    fed = Fed()
    monkeypatch.setattr(resp_parser, "new_reader", fed)
    monkeypatch.setattr(StrictParser, "_read_size", counted := Counted(StrictParser._read_size))
    assert run(SwiftParser(), [bulks(*LONG)]) == ([LONG], None)
    assert (len(fed.seen), counted.count) == (1, 1)  # the name


class Counted:
    """Calls a method, and counts how often."""

    def __init__(self, method):
        self.method, self.count = method, 0

    def __get__(self, parser, _kind):
        self.count += 1
        return self.method.__get__(parser)


@pytest.mark.parametrize("kind", [b"*", b"%", b"~", b">", b"|"])
@pytest.mark.parametrize("behind", [1, 700, 1400])
def test_hiredis_never_sees_a_long_aggregate_among_words(monkeypatch, kind, behind):
    fed = Fed()
    monkeypatch.setattr(resp_parser, "new_reader", fed)
    stream = bulks(*LONG)
    at = stream.index(b"$%d\r\n%d\r\n" % (len(str(behind)), behind))
    _, error = run(SwiftParser(), [stream[:at] + kind + b"2147483647\r\n" + stream[at:]])
    assert error == f"Protocol error: expected '$', got '{kind.decode()}'"
    assert not any(kind + b"2147483647" in data for data in fed.seen)


def test_payloads_that_look_like_headers_are_kept():
    words = [b"*1234", b"%9999", b"\r\n*2147483647\r\n", b"$-1\r\n"] * 20
    assert run(SwiftParser(), [bulks(b"ACK", *words)]) == ([[b"ACK", *words]], None)


def test_words_of_any_size_come_in_pieces():
    chance = Random(3)
    words = [chance.randbytes(chance.randrange(300)) for _ in range(5000)]
    stream = bulks(b"MPUBLISH", *words)
    pieces = [stream[start : start + 8192] for start in range(0, len(stream), 8192)]
    assert run(SwiftParser(), pieces) == ([[b"MPUBLISH", *words]], None)


@pytest.mark.parametrize("new", [StrictParser, SwiftParser, CommandReader])
@pytest.mark.parametrize("size", [7, 129, 1000])
def test_what_is_stored_of_an_unfinished_command_is_what_was_fed_of_it(new, size):
    words = [b"ACK", *[b"1234567890"] * 40, bytes(3000)]
    stream = bulks(*words)
    headers_bytes = len(stream) - sum(map(len, words))
    parser = new()
    stored_bytes = parser.unread_bytes if isinstance(parser, CommandReader) else parser.stored_bytes
    for start in range(0, len(stream), size):
        assert max(0, start - headers_bytes) <= stored_bytes() <= start + WORD_BYTES * (1 + len(words))
        assert run(parser, [stream[start : start + size]])[0] in ([], [words])
    assert stored_bytes() == 0
