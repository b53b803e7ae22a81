"""The lines between the chunks of a body, however the bytes are split."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.server.hypercorn.http1 import MAX_CHUNK_LINE_BYTES, ChunkLines

BODY = b"4;a=b\r\nbo\r\n\r\n1\r\n\n\r\n000\r\n\r\n"
AFTER = b"POST / HTTP/1.1\r\nX : y\r\n"


def fault_of(data: bytes, cuts: list[int]) -> str:
    lines = ChunkLines()
    places = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(places):
        lines.feed(data[start:stop])
    return lines.fault


@given(cuts=st.lists(st.integers(0, len(BODY + AFTER))))
def test_what_follows_the_body_is_not_read(cuts):
    assert fault_of(BODY + AFTER, cuts) == ""


@given(cuts=st.lists(st.integers(0, len(BODY))), data=st.data())
def test_a_changed_line_is_found_however_it_is_split(cuts, data):
    changed = BODY.replace(b"1\r\n", data.draw(st.sampled_from([b"g\r\n", b"\r\n", b"1\n", b"1 \r\n", b"1;\x00\r\n"])))
    assert "size in hexadecimal digits" in fault_of(changed, cuts)


@pytest.mark.parametrize("size_bytes", [MAX_CHUNK_LINE_BYTES, MAX_CHUNK_LINE_BYTES + 1])
def test_a_line_has_a_maximum_size(size_bytes):
    line = b"4;".ljust(size_bytes - 2, b"a") + b"\r\n"
    assert bool(fault_of(line, [])) == (size_bytes > MAX_CHUNK_LINE_BYTES)


def test_a_line_without_an_end_is_not_kept():
    lines = ChunkLines()
    for _ in range(10_000):
        lines.feed(b"a")
    assert "too long" in lines.fault
