"""Lines of a stream in batches, whatever the parts in which they arrive."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.commands.messages import lines
from miniqueue.commands.messages.lines import batches
from miniqueue.errors import InvalidLineError


class Parts:
    """A stream that returns what arrives, part by part."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = iter([*parts, b""])

    def read1(self, _size: int, /) -> bytes:
        return next(self._parts)


def shown(stream, max_count=10, max_bytes=100):
    return [[(line.number, line.content) for line in batch] for batch in batches(stream, max_count, max_bytes)]


def test_lines_that_arrive_together_are_a_batch():
    assert shown(Parts(b"one\ntwo\nthr", b"ee\n")) == [[(1, b"one"), (2, b"two")], [(3, b"three")]]


def test_the_last_line_can_lack_its_end():
    assert shown(Parts(b"one\n\ntwo")) == [[(1, b"one"), (2, b"")], [(3, b"two")]]


def test_a_batch_has_a_maximum_number_and_size():
    assert shown(Parts(b"1\n2\n3\n"), max_count=2) == [[(1, b"1"), (2, b"2")], [(3, b"3")]]
    assert shown(Parts(b"12\n3\n456\n"), max_bytes=3) == [[(1, b"12"), (2, b"3")], [(3, b"456")]]


def test_nothing_is_no_line():
    assert shown(io.BytesIO()) == []


def test_a_line_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(InvalidLineError, match="line 2: longer than 1 MiB"):
        shown(Parts(b"one\n", b"x" * (1 << 20), b"x"))


@given(st.lists(st.binary(max_size=8)), st.integers(1, 4), st.integers(1, 8))
def test_lines_are_those_of_the_stream(parts, max_count, max_bytes):
    parts = [part for part in parts if part]
    whole = b"".join(parts)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    found = [line for batch in shown(Parts(*parts), max_count, max_bytes) for line in batch]
    assert found == list(enumerate(expected, 1))
