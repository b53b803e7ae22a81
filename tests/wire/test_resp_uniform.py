r"""A command of many words of one size: found without a parser, and only where a parser would have found the same."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.wire.resp_limits import STRANGER, USUAL, Limits
from miniqueue.wire.resp_parser import StrictParser
from miniqueue.wire.resp_reader import CommandReader, split_uniform
from tests.wire.test_resp_commands import READERS, bulks, run
from tests.wire.test_resp_fuzz import HOSTILE, split

ACK = [b"ACK", *(b"%d" % number for number in range(1000, 1020))]
PING = bulks(b"PING")
LOW = Limits(max_words=30, max_words_of_many=60, max_bulk_bytes=9, max_command_bytes=300)


@pytest.mark.parametrize(
    "command",
    [
        ACK,
        [b"ack", b"orders", *[b"0123456789abcdef-17"] * 1000],
        [b"", *[b"x"] * 16],
        [b"ACK", *[b""] * 16],
        [b"NACK", b"abcdef", *[b"\r\n$4\r\n"] * 9, *[b"\r\n$6\r\n"] * 9],
        [b"MPUBLISH", b"orders", *[bytes(5000)] * 20],
        [b"1234", *[b"1234"] * 20],
    ],
    ids=len,
)
@pytest.mark.parametrize("behind", [b"", PING, b"\r", bulks(*ACK)])
def test_words_of_one_size(command, behind):
    data = bulks(*command)
    assert split_uniform(data + behind, USUAL) == (command, len(data))


def test_as_many_words_as_the_limit():
    assert split_uniform(bulks(b"ACK", *[b"1"] * 1023), USUAL) is not None
    assert split_uniform(bulks(b"ACK", *[b"1"] * 1024), USUAL) is None


def test_an_unfinished_command_is_none():
    data = bulks(*ACK)
    assert not any(split_uniform(data[:size], USUAL) for size in range(len(data)))


@pytest.mark.parametrize(
    "data",
    [
        bulks(*ACK[:16]),  # few
        bulks(*ACK, b"10"),
        bulks(b"ACK", *[b"1"] * 20, b"10"),
        bulks(b"DACK", b"orders", b"0.25", *[b"1"] * 20),  # three words in front
        bulks(b"A\r\nB", *[b"1"] * 20),
        bulks(b"ACK", *[b"\r\n"] * 20),
        bulks(*ACK).replace(b"*21", b"*021"),
        bulks(*ACK).replace(b"*21", b"*22"),
        bulks(*ACK).replace(b"$4", b"$04"),
        bulks(*ACK).replace(b"$3", b"$03"),
        bulks(*ACK).replace(b"$3", b"$4"),
        bulks(*ACK)[:-2] + b"XY",
        bulks(*ACK).replace(b"1007\r\n", b"1007XY"),
        bulks(*ACK).replace(b"1007\r\n$4", b"1007\r\n+4"),
        b"ACK" + b" 1" * 20 + b"\r\n",
    ],
)
def test_anything_else_is_none(data):
    assert split_uniform(data, USUAL) is None
    assert run(CommandReader(), [data]) == run(StrictParser(), [data])


@pytest.mark.parametrize(
    "limits",
    [
        STRANGER,
        replace(USUAL, max_words=20),
        replace(USUAL, max_bulk_bytes=3),
        replace(USUAL, max_command_bytes=82),
    ],
)
def test_what_is_too_large_is_left_to_who_says_so(limits):
    assert split_uniform(bulks(*ACK), limits) is None
    assert run(CommandReader(limits), [bulks(*ACK)]) == run(StrictParser(limits), [bulks(*ACK)])


words = st.integers(0, 9).flatmap(lambda size: st.binary(min_size=size, max_size=size))
heads = st.lists(st.sampled_from([b"ACK", b"t", b"", b"\r\n", b"x" * 9, b"x" * 10]), min_size=1, max_size=2)
alike = st.tuples(heads, words, st.integers(14, 40)).map(lambda one: bulks(*one[0], *[one[1]] * one[2]))


@st.composite
def damaged(draw):
    stream = bytearray(draw(alike))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(stream)))
        stream[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=2) | st.sampled_from(HOSTILE))
    return bytes(stream)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, LOW], ids=["usual", "low"])
def test_they_are_what_the_strict_parser_reads(limits):
    @settings(max_examples=500, deadline=None, derandomize=True, database=None)
    @given(st.lists(damaged(), min_size=1, max_size=2), st.lists(st.integers(0, 600), max_size=3))
    def check(streams, cuts):
        stream = b"".join(streams)
        expected = run(StrictParser(limits), [stream])
        for new in READERS:
            assert run(new(limits), [stream]) == expected
            assert run(new(limits), split(stream, cuts)) == expected

    check()
