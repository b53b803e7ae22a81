"""Foreign text cannot steer a terminal, forge a line or flood a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.server.process.escaping import MAX_SHOWN_CHARS, escape, quote


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("orders", "orders"),
        ("café", "café"),
        (b"orders", "orders"),
        (b"a\xff\x00", "a\\xff\\x00"),
        ("a\x1b[2J\r\n", "a\\x1b[2J\\r\\n"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\udcff", "\\udcff"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
        (b"\x00" * 10**6, "\\x00" * 49 + "\\..."),
    ],
)
def test_text_is_shown_on_one_printable_line(foreign, shown):
    assert escape(foreign) == shown


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_whatever_comes_is_shown_printable_and_short(foreign):
    shown = escape(foreign)
    assert shown.isprintable()
    assert len(shown) <= MAX_SHOWN_CHARS


@given(st.text(max_size=300))
def test_a_quoted_text_is_ascii_printable_and_short(text):
    assert quote(text).isascii()
    assert quote(text).isprintable()
    assert len(quote(text)) <= MAX_SHOWN_CHARS
