"""Filters: which messages they select, how clients write them, and that they survive as JSON."""

import pytest

from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.options.filter import MAX_VALUE_BYTES, Filter, of_members, parse_filter
from miniqueue.errors import InvalidAttributesError, InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError

NOW_MS = 1_000_000
PLAIN = b""
KEYED = Attributes(key=b"k", headers=((b"Tenant", b"acme"), (b"n", b"1"))).encode()
DEAD = Attributes(origin=Origin(b"t", 0, 1, 2, 3, reason=b"broken")).encode()


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ({}, [PLAIN, KEYED, DEAD]),
        ({"key": b"k"}, [KEYED]),
        ({"key": b""}, [PLAIN, DEAD]),
        ({"header": b"tenant:acme"}, [KEYED]),
        ({"header": b"tenant:acm"}, []),
        ({"header": b"n:"}, []),
        ({"header": b"n:1", "key": b"k"}, [KEYED]),
        ({"header": b"n:1", "key": b"other"}, []),
        ({"reason": b"broken"}, [DEAD]),
        ({"reason": b""}, []),
        ({"reason": b"acme"}, []),
        ({"contains": b"ayl"}, [PLAIN, KEYED, DEAD]),
        ({"contains": b"xyz"}, []),
        ({"older": b"1"}, [PLAIN, KEYED, DEAD]),
        ({"older": b"1.5"}, []),
        ({"other": b"ignored"}, [PLAIN, KEYED, DEAD]),
    ],
)
def test_a_message_must_meet_every_condition(options, selected):
    selects = parse_filter(options).selects
    published_at_ms = NOW_MS - 1000
    assert [each for each in (PLAIN, KEYED, DEAD) if selects(b"payload", each, published_at_ms, NOW_MS)] == selected


@pytest.mark.parametrize(
    ("chosen", "selected"),
    [
        (Filter(origin=b"t"), [DEAD]),
        (Filter(origin=b"t", reason=b"broken"), [DEAD]),
        (Filter(origin=b"t", reason=b"t"), []),
        (Filter(origin=b"broken"), []),
        (Filter(origin=b"k"), []),
    ],
)
def test_a_dead_letter_is_selected_by_the_topic_that_it_came_from(chosen, selected):
    assert [each for each in (PLAIN, KEYED, DEAD) if chosen.selects(b"", each, 0, NOW_MS)] == selected
    assert of_members(chosen.members()) == chosen


def test_attributes_that_cannot_be_decoded_meet_no_condition_on_a_header():
    assert not Filter(header=(b"n", b"1")).selects(b"", b"\x63\x01\x00\x00\x001", 0, NOW_MS)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"contains": b""}, InvalidOptionError),
        ({"key": b"k" * (MAX_VALUE_BYTES + 1)}, InvalidOptionError),
        ({"header": b"tenant"}, InvalidOptionError),
        ({"header": b":acme"}, InvalidAttributesError),
        ({"older": b"-1"}, InvalidDelayError),
        ({"older": b"9" * 400}, InvalidDelayError),
    ],
)
def test_what_is_no_filter_is_refused(options, error):
    with pytest.raises(error):
        parse_filter(options)


@pytest.mark.parametrize(
    "wanted",
    [Filter(), Filter(b"\xff", (b"n", b"\x00"), b"text", 1.5, b"reason"), Filter(key=b""), Filter(reason=b"")],
)
def test_a_filter_is_the_same_after_json(wanted):
    assert of_members(wanted.members()) == wanted
