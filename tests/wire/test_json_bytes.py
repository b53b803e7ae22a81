"""Bytes in JSON, as payloads and as other values."""

import pytest

from miniqueue.errors import InvalidLineError
from miniqueue.wire.json_bytes import bytes_value, parse_bytes, payload_member, take_payload

CONTENTS = [b"", b"Dear Ada", "é".encode(), b"\xff", b"\0\n\"'"]


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_encoded_is_decoded(content):
    assert take_payload({**payload_member(content)}) == content
    assert parse_bytes(bytes_value(content)) == content


def test_text_is_readable_and_other_bytes_are_base64():
    assert (payload_member(b"Dear Ada"), payload_member(b"\xff")) == ({"text": "Dear Ada"}, {"msg": "/w=="})
    assert (bytes_value(b"Dear Ada"), bytes_value(b"\xff")) == ("Dear Ada", {"base64": "/w=="})


def test_a_payload_is_removed_from_its_members_and_text_can_be_base64():
    members = {"topic": "t", "msg": "RGVhciBBZGE="}
    assert take_payload(members) == b"Dear Ada"
    assert members == {"topic": "t"}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, "exactly one of 'text' and 'msg' is required; 'msg' is base64"),
        ({"text": "", "msg": ""}, "exactly one of 'text' and 'msg' is required; 'msg' is base64"),
        ({"text": 1}, "invalid 'text'; must be a string"),
        ({"text": None}, "invalid 'text'; must be a string"),
        ({"text": "\ud800"}, "invalid 'text'; must be a string"),
        ({"msg": 1}, "invalid 'msg'; must be base64"),
        ({"msg": "!"}, "invalid 'msg'; must be base64"),
        ({"msg": "é"}, "invalid 'msg'; must be base64"),
        ({"msg": "YQ"}, "invalid 'msg'; must be base64"),
    ],
)
def test_a_payload_that_is_missing_or_invalid_is_an_error(members, problem):
    with pytest.raises(InvalidLineError) as caught:
        take_payload(members)
    assert str(caught.value) == problem


@pytest.mark.parametrize("value", [{}, {"base32": ""}, {"base64": "!"}, {"base64": "", "more": ""}, {"base64": 1}, 1])
def test_a_value_that_is_none_is_an_error(value):
    with pytest.raises((ValueError, TypeError, AttributeError)):
        parse_bytes(value)
