"""What a topic may be called."""

import pytest

from miniqueue.core.message.names import check_new_topic, check_topic
from miniqueue.errors import InvalidTopicError


@pytest.mark.parametrize(
    "name",
    [
        b"a",
        b"foo-bar",
        b"X-ack",
        b"t-foo-delay",
        b"a.b:c*?",
        b"%2F",
        "Größe→λ".encode(),
        b"x" * 255,
        b"..",
        b'"',
        b"\\",
    ],
)
def test_name_is_taken_as_it_is(name):
    assert check_topic(name) == name


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"x" * 256,
        "é".encode() * 128,
        b"a/b",
        b"/",
        b"a b",
        b"a\tb",
        b"a\n",
        b"\x00",
        b"\x7f",
        b"\xff",
        b"\xc3",
        "a\u0085b".encode(),
        "a\u00a0b".encode(),
        "a\u2028b".encode(),
        "a\u009fb".encode(),
    ],
)
def test_name_is_refused_with_the_rule(name):
    with pytest.raises(InvalidTopicError, match="1 to 255 bytes of UTF-8"):
        check_topic(name)


@pytest.mark.parametrize("name", [b".", b".."])
def test_a_segment_that_http_resolves_names_nothing_new(name):
    assert check_topic(name) == name
    with pytest.raises(InvalidTopicError, match="no HTTP path can have"):
        check_new_topic(name)


@pytest.mark.parametrize("name", [b"...", b".a", b"a.", b"..dlq"])
def test_other_names_with_dots_name_what_is_new(name):
    assert check_new_topic(name) == name
