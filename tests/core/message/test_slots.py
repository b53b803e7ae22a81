"""The slots of topics, against the examples of Redis and its Python client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from miniqueue.core.message.slots import SLOT_COUNT, slot_of


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 0x31C3),  # the check value of this CRC
        (b"{user1000}.following", slot_of(b"user1000")),
        (b"foo{}{bar}", 8363),
        (b"foo{{bar}}zap", slot_of(b"{bar")),
        (b"foo{bar}{zap}", slot_of(b"bar")),
        (b"{open", slot_of(b"{open")),
        (b"orders}{", slot_of(b"orders}{")),
        (b"", 0),
    ],
)
def test_a_key_is_in_the_slot_of_its_tag_or_of_itself(key, slot):
    assert slot_of(key) == slot


@given(st.binary(max_size=40) | st.text("{}ab", max_size=8).map(str.encode))
def test_slots_are_those_of_redis_py(key):
    assert slot_of(key) == key_slot(key)
    assert 0 <= slot_of(key) < SLOT_COUNT
