"""Writes of a store in a body of HTTP: whole, or an error."""

import pytest

from miniqueue.errors import ProtocolError
from miniqueue.wire.write_frames import decode_writes, encode_writes

WRITES = [b"one", b"", bytes(1000)]


def test_writes_come_out_as_they_went_in():
    assert decode_writes(encode_writes(WRITES)) == WRITES
    assert decode_writes(b"") == []


def test_a_body_that_is_cut_is_an_error_unless_it_ends_between_two_writes():
    body = encode_writes(WRITES)
    ends = {len(encode_writes(WRITES[:count])) for count in range(4)}
    for size in range(len(body)):
        if size in ends:
            assert decode_writes(body[:size]) == WRITES[: len(decode_writes(body[:size]))]
        else:
            with pytest.raises(ProtocolError):
                decode_writes(body[:size])


def test_a_changed_byte_is_an_error():
    body = encode_writes([b"one"])
    for index in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_writes(body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :])
