"""Many byte strings in two: what was joined is split where it was."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.message.numerals import split


def sizes_of(*strings):
    return pack(f"<{len(strings)}I", *map(len, strings))


@given(st.lists(st.binary(max_size=20), max_size=10), st.binary(max_size=5))
def test_what_was_joined_is_split(strings, before):
    assert split(sizes_of(*strings), b"".join(strings)) == strings
    assert split(sizes_of(*strings), before + b"".join(strings), len(before)) == strings


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        (b"", b"a"),
        (sizes_of(b"a"), b""),
        (sizes_of(b"a"), b"ab"),
        (sizes_of(b"a", b"bc"), b"ab"),
        (sizes_of(b"a")[:3], b"a"),
        (b"\xff\xff\xff\xff", b"a"),
    ],
)
def test_sizes_of_something_else_are_refused(sizes, joined):
    with pytest.raises(ValueError, match="bytes"):
        split(sizes, joined)
