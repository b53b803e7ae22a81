"""Replies, byte for byte, and read back by a client's parser."""

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.wire.resp_replies import (
    OK,
    PONG,
    RESP2,
    RESP3,
    array,
    bulk,
    encode,
    error,
    integer,
    map_of,
    null,
    numbered_bulks,
    push,
    simple,
    size_lines,
)


def read(reply):
    reader = hiredis.Reader()
    reader.feed(reply)
    value = reader.gets()
    assert not reader.has_data()
    return value


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (OK, b"+OK\r\n"),
        (PONG, b"+PONG\r\n"),
        (simple("a b"), b"+a b\r\n"),
        (simple("a\r\nb"), b"+a  b\r\n"),
        (error("ERR", "no\r\n+OK\x1b[31m\x00"), b"-ERR no  +OK [31m \r\n"),
        (error("NOAUTH", "é\udcff"), b"-NOAUTH \xc3\xa9?\r\n"),
        (integer(-5), b":-5\r\n"),
        (bulk(b""), b"$0\r\n\r\n"),
        (bulk(b"a\r\nb"), b"$4\r\na\r\nb\r\n"),
        (array([]), b"*0\r\n"),
        (array([integer(1), bulk(b"a")]), b"*2\r\n:1\r\n$1\r\na\r\n"),
        (null(RESP2), b"$-1\r\n"),
        (null(RESP3), b"_\r\n"),
        (map_of([(bulk(b"a"), integer(1))], RESP2), b"*2\r\n$1\r\na\r\n:1\r\n"),
        (map_of([(bulk(b"a"), integer(1))], RESP3), b"%1\r\n$1\r\na\r\n:1\r\n"),
        (push([integer(1)], RESP2), b"*1\r\n:1\r\n"),
        (push([integer(1)], RESP3), b">1\r\n:1\r\n"),
        (encode([True, False, 1.5, None, "é"], RESP2), b"*5\r\n:1\r\n:0\r\n$3\r\n1.5\r\n$-1\r\n$2\r\n\xc3\xa9\r\n"),
        (encode((True, False, 1.5, None, b"a"), RESP3), b"*5\r\n#t\r\n#f\r\n,1.5\r\n_\r\n$1\r\na\r\n"),
    ],
)
def test_reply(reply, expected):
    assert reply == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.binary() | st.floats(allow_nan=False),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.binary(), children, max_size=4),
    max_leaves=20,
)


@given(values)
def test_value_is_read_back(value):
    assert read(encode(value, RESP3)) == value


@given(st.text(), st.text())
def test_error_is_one_line_whatever_its_text(code, text):
    reply = error(code, text)
    assert reply.endswith(b"\r\n")
    assert reply.count(b"\n") == reply.count(b"\r") == 1


@pytest.mark.parametrize("numbers", [range(0), range(17, 18), range(3), range(8, 1002), range(10**18, 10**18 + 2)])
def test_numbered_bulks_are_those_of_each(numbers):
    assert numbered_bulks(b"0.high-", numbers) == b"".join(bulk(b"0.high-%d" % number) for number in numbers)


@pytest.mark.parametrize("contents", [[b"a"], [b"abc", b"def"], [b"", b"abc", b"", b"x" * 1000]])
def test_size_lines_are_those_of_each(contents):
    lines = size_lines(contents)
    joined = b"".join(line + content for line, content in zip(lines, contents, strict=True)) + b"\r\n"
    assert joined == b"\r\n" + b"".join(map(bulk, contents))
