"""The value of where logs ended when partitions were added, in the form that stores have."""

import pytest

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.format.log_ends import decode_growth, encode_growth, growth, growths, partition_count
from miniqueue.storage.format.values import seal

STORED = "01000000000700000000000000010001000900000000000000680428c6"


def test_a_growth_is_stored_in_this_form():
    ends = {0x10001: 9, 0: 7}
    assert encode_growth(ends).hex() == STORED
    assert decode_growth(bytes.fromhex(STORED)) == ends


@pytest.mark.parametrize("value", [b"", seal(b""), seal(bytes(11)), seal(bytes(13)), seal(bytes(24))])
def test_what_is_no_growth_is_damage(value):
    with pytest.raises(CorruptionError):
        decode_growth(value)


def test_a_newer_form_is_refused():
    with pytest.raises(FormatVersionError):
        decode_growth(seal(bytes(12), version=b"\x02"))


def test_growths_of_a_topic_are_in_its_range_in_order():
    start, stop = growths(5)
    found = [growth(5, count) for count in (1, 2, 1023)]
    assert [start, *found, stop] == sorted([start, *found, stop])
    assert not start <= growth(6, 1) < stop
    assert [partition_count(key) for key in found] == [1, 2, 1023]
