"""Attributes: no bytes for a plain message, parsed as they were made, refused when wrong or too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import MAX_ATTRIBUTES_BYTES, NO_ATTRIBUTES, Attributes, Origin
from miniqueue.core.message.message import Counts
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidAttributesError

U64, U32 = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
NAMES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20).map(str.encode)
BYTES = st.binary(max_size=30)
ORIGINS = st.builds(Origin, BYTES, U32, U64, U64, U64, st.builds(Counts, U32, U32, U32, U32, U32), BYTES)
ATTRIBUTES = st.builds(
    Attributes, st.lists(st.tuples(NAMES, BYTES), max_size=5).map(tuple), BYTES, U64, BYTES, st.none() | ORIGINS, BYTES
).filter(lambda made: not (made.unique_key and made.only_for))
ALL = Attributes(
    ((b"trace", b"7f"), (b"trace", b"")),
    b"ada",
    1_700_000_000_000,
    b"17",
    Origin(b"letters", 0, 9, 1, 2, Counts(1, 2, 3, 4, 5), b"max-deliveries"),
)
#: Change no byte: stores have them.
GOLDEN = (
    "010800000005747261636537660106000000057472616365020300000061646103080000000068e5cf8b0100000402000000"
    "31370546000000000000000900000000000000010000000000000002000000000000000100000002000000030000000400000005000000076c6574746572736d61782d64656c69766572696573"
)


@given(ATTRIBUTES)
def test_they_are_parsed_as_they_were_made(made):
    assert attributes.decode(made.encode()) == made


def test_the_bytes_of_this_version():
    assert ALL.encode().hex() == GOLDEN
    assert attributes.decode(bytes.fromhex(GOLDEN)) == ALL


def test_a_unique_key_stands_in_front_so_that_it_is_found_at_once():
    encoded = ALL._replace(unique_key=b"eu").encode()
    assert encoded.hex() == "06020000006575" + GOLDEN
    assert attributes.decode(encoded) == ALL._replace(unique_key=b"eu")


@given(ATTRIBUTES)
def test_a_unique_key_is_found_without_the_others(made):
    assert attributes.unique_key(made.encode()) == made.unique_key


def test_a_key_is_found_without_the_others():
    assert attributes.key_of(ALL._replace(unique_key=b"eu").encode()) == b"ada"
    assert attributes.key_of(ALL._replace(key=b"").encode()) == b""


def test_who_waits_for_a_reply_stands_at_the_end():
    encoded = ALL._replace(reply_to=b"9-1").encode()
    assert encoded.hex() == GOLDEN + "0703000000392d31"
    assert attributes.decode(encoded) == ALL._replace(reply_to=b"9-1")


def test_a_plain_message_has_no_bytes_of_them():
    assert NO_ATTRIBUTES.encode() == b""
    assert attributes.decode(b"") == NO_ATTRIBUTES


@pytest.mark.parametrize("name", [b"", b"a b", b"\x7f", b"n\n", "ä".encode(), b"x" * 256])
def test_the_name_of_a_header_is_printable_and_not_too_long(name):
    with pytest.raises(InvalidAttributesError, match="1 to 255 printable ASCII"):
        Attributes(headers=((name, b""),)).encode()


@pytest.mark.parametrize("at_ms", [-1, 1 << 64])
def test_a_time_fits_into_64_bits(at_ms):
    with pytest.raises(InvalidAttributesError, match="out of range"):
        Attributes(expires_at_ms=at_ms).encode()


def test_they_are_at_most_64_kib_together_without_the_origin():
    fits = Attributes(key=bytes(MAX_ATTRIBUTES_BYTES - 5))
    assert len(fits.encode()) == MAX_ATTRIBUTES_BYTES
    assert len(fits._replace(origin=ALL.origin).encode()) > MAX_ATTRIBUTES_BYTES
    with pytest.raises(InvalidAttributesError, match="over the limit of 65536"):
        Attributes(key=fits.key + b"x").encode()


def test_a_field_of_a_newer_version_is_named():
    with pytest.raises(FormatVersionError, match="attributes: format version 11 found, this miniqueue reads up to 10"):
        attributes.decode(ALL.encode() + b"\x0b\0\0\0\0")


def test_of_two_failures_the_last_one_counts():
    dead = ALL._replace(failure=b"first").encode()
    assert dead.hex() == GOLDEN + "0a050000006669727374"
    assert attributes.decode(dead).failure == b"first"
    assert attributes.decode(attributes.with_failure(dead, b"second")).failure == b"second"
    assert attributes.with_failure(dead, b"") == dead


def test_for_whom_a_message_is_stands_in_front_so_that_it_is_found_at_once():
    encoded = ALL._replace(only_for=b"eu").encode()
    assert encoded.hex() == "09020000006575" + GOLDEN
    assert attributes.decode(encoded) == ALL._replace(only_for=b"eu")
    assert (attributes.is_for(encoded, b"eu"), attributes.is_for(encoded, b"us")) == (True, False)
    assert attributes.key_of(encoded) == b"ada"
    assert attributes.is_for(b"", b"us")
    with pytest.raises(InvalidAttributesError, match="no unique key"):
        Attributes(only_for=b"eu", unique_key=b"k").encode()


def test_the_group_that_gave_a_dead_letter_up_stands_behind_its_origin_unless_it_is_the_default_one():
    made = ALL._replace(origin=ALL.origin._replace(group=b"eu"))
    assert made.encode().hex() == GOLDEN + "08020000006575"
    assert attributes.decode(made.encode()) == made
    with pytest.raises(CorruptionError):
        attributes.decode(bytes.fromhex("08020000006575"))


@pytest.mark.parametrize("length", range(1, len(bytes.fromhex(GOLDEN))))
def test_what_is_cut_off_makes_no_sense_or_fewer_fields(length):
    try:
        found = attributes.decode(bytes.fromhex(GOLDEN)[:length])
    except CorruptionError:
        return
    assert found.origin is None
    assert found.encode() == bytes.fromhex(GOLDEN)[:length]


@pytest.mark.parametrize("field", [b"\x01\0\0\0\0", b"\x01\x02\0\0\0\x02a", b"\x01\x02\0\0\0\x01 ", b"\x05\x01\0\0\0x"])
def test_nonsense_is_refused(field):
    with pytest.raises(CorruptionError, match="make no sense"):
        attributes.decode(field)
