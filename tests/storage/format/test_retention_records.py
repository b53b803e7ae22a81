"""The value of where a log begins of which finished chunks are kept, in the form that stores have."""

import pytest

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.format.log_ends import decode_start, encode_start
from miniqueue.storage.format.values import seal

GOLDEN = {
    "010700000000000000fffffffffffffffffec2d6f7": (7, None),
    "010807060504030201090000000000000025d093d5": (0x0102030405060708, 9),
}


@pytest.mark.parametrize(("stored", "start"), GOLDEN.items())
def test_a_start_is_stored_in_this_form(stored, start):
    assert encode_start(*start).hex() == stored
    assert decode_start(bytes.fromhex(stored)) == start


@pytest.mark.parametrize("value", [b"", b"\x01" * 21, seal(bytes(15)), seal(bytes(17))])
def test_what_is_no_start_is_damage(value):
    with pytest.raises(CorruptionError):
        decode_start(value)


def test_a_newer_form_is_refused():
    with pytest.raises(FormatVersionError):
        decode_start(seal(bytes(16), version=b"\x02"))
