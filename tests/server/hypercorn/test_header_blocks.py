"""Blocks of headers that come again: they must tell what hpack tells, whatever became of the table in between."""

import pytest
from hpack import (
    Decoder,
    Encoder,
    HeaderTuple,
    HPACKDecodingError,
    InvalidTableSizeError,
    NeverIndexedHeaderTuple,
)
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.server.hypercorn.frames import CountedConnection
from miniqueue.server.hypercorn.header_blocks import (
    MAX_BLOCK_BYTES,
    MAX_BLOCK_FIELDS,
    MAX_BLOCKS,
    MAX_RESIZES,
    RememberingDecoder,
    RememberingEncoder,
)

FIELDS = [HeaderTuple(b":method", b"POST"), HeaderTuple(b":path", b"/publish/t"), HeaderTuple(b"user-agent", b"client")]
#: `x: y`, written out: as it is, as a secret, for the table; and a table of another size.
PLAIN, SECRET, ADDED, RESIZED = b"\x00\x01x\x01y", b"\x10\x01x\x01y", b"\x40\x01x\x01y", b"\x2a"

names = st.sampled_from([b":path", b"authorization", b"x", b"x" * 40])
values = st.sampled_from([b"", b"1", b"/publish/t", b"v" * 60])
#: How a field is written: HPACK's first byte says whether it goes to the table.
literals = st.tuples(st.sampled_from([b"\x40", b"\x00", b"\x10"]), names, values).map(
    lambda literal: literal[0] + bytes([len(literal[1])]) + literal[1] + bytes([len(literal[2])]) + literal[2]
)
#: To 10, 20, 30 and 0 bytes, to 128, to 4,096.
resizes = st.sampled_from([b"\x2a", b"\x34", b"\x3e", b"\x20", b"\x3f\x61", b"\x3f\xe1\x1f"])
indexed = st.sampled_from([b"\x82", b"\x87", b"\xbe", b"\xbf", b"\xc0"])
blocks = st.builds(
    lambda sizes, parts: b"".join(sizes + parts),
    st.lists(resizes, max_size=2),
    st.lists(literals | indexed, max_size=3),
)


def outcome(decoder, block):
    try:
        fields = list(decoder.decode(block, raw=True))
    except Exception as error:
        return repr(error)
    return fields, [type(field) for field in fields]


@given(st.lists(blocks, min_size=1, max_size=4).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=16)))
def test_any_blocks_tell_what_hpack_tells(sent):
    ours, hpacks = RememberingDecoder(150), Decoder(150)
    for block in sent:
        decoded = outcome(ours, block)
        assert decoded == outcome(hpacks, block)
        assert ours.header_table.dynamic_entries == hpacks.header_table.dynamic_entries
        if isinstance(decoded, str):
            return


class Counting(RememberingDecoder):
    """Counts the blocks that are taken apart, with the fields of each."""

    def __init__(self) -> None:
        super().__init__(8192)
        self.taken_apart: list[bytes] = []

    def _decode_block(self, data, raw):
        self.taken_apart.append(data)
        return super()._decode_block(data, raw)


def taken_apart(*sent: bytes) -> list[bytes]:
    decoder = Counting()
    for block in sent:
        decoder.decode(block, raw=True)
    return decoder.taken_apart


def test_the_connection_of_a_client_remembers():
    connection = CountedConnection(100, 8192)
    assert isinstance(connection.decoder, RememberingDecoder)
    assert isinstance(connection.encoder, RememberingEncoder)


def test_a_block_that_comes_again_is_not_taken_apart():
    encoder = Encoder()
    first, second, third, fourth = (encoder.encode(FIELDS) for _ in range(4))
    assert taken_apart(first, second, third, fourth) == [first, second]


def test_each_gets_fields_of_its_own():
    decoder = RememberingDecoder(8192)
    decoder.decode(PLAIN, raw=True).clear()
    decoder.decode(PLAIN, raw=True).clear()
    assert decoder.decode(PLAIN, raw=True) == [(b"x", b"y")]


def test_nothing_is_known_any_more_when_the_table_has_changed():
    assert taken_apart(PLAIN, ADDED, PLAIN, PLAIN) == [PLAIN, ADDED, PLAIN]
    assert taken_apart(PLAIN, RESIZED, PLAIN, PLAIN) == [PLAIN, RESIZED, PLAIN]


def test_a_block_with_a_secret_is_not_kept():
    assert taken_apart(SECRET, SECRET) == [SECRET, SECRET]


def test_few_blocks_are_kept_and_none_that_is_long_or_has_many_fields():
    several = [b"\x00\x01x\x01%c" % number for number in range(MAX_BLOCKS + 1)]
    assert taken_apart(*several, several[0]) == [*several, several[0]]
    assert taken_apart(*several[:MAX_BLOCKS], several[0]) == several[:MAX_BLOCKS]
    long = PLAIN * (MAX_BLOCK_BYTES // len(PLAIN) + 1)
    assert taken_apart(long, long) == [long, long]
    many = b"\x82" * (MAX_BLOCK_FIELDS + 1)
    assert taken_apart(many, many) == [many, many]
    assert taken_apart(many[1:], many[1:]) == [many[1:]]


def test_a_block_that_is_known_is_refused_once_the_table_is_too_large():
    decoder = RememberingDecoder(8192)
    decoder.decode(PLAIN, raw=True)
    decoder.max_allowed_table_size = 100
    with pytest.raises(InvalidTableSizeError):
        decoder.decode(PLAIN, raw=True)


def test_a_block_that_sets_the_size_of_the_table_over_and_over_is_refused():
    decoder = RememberingDecoder(8192)
    for _ in range(2):
        assert decoder.decode(RESIZED * MAX_RESIZES + PLAIN, raw=True) == [(b"x", b"y")]
    with pytest.raises(HPACKDecodingError):
        decoder.decode(RESIZED * (MAX_RESIZES + 1) + PLAIN, raw=True)


kinds = st.sampled_from([HeaderTuple, NeverIndexedHeaderTuple, lambda name, value: (name, value)])
replies = st.lists(st.builds(lambda kind, *field: kind(*field), kinds, names, values), max_size=3)
table_sizes = st.sampled_from([0, 60, 128, 4096])


@given(
    st.lists(replies, min_size=1, max_size=3).flatmap(
        lambda some: st.lists(st.sampled_from(some) | table_sizes, max_size=16)
    )
)
def test_any_fields_make_the_bytes_that_hpack_makes(sent):
    ours, hpacks = RememberingEncoder(), Encoder()
    for fields in sent:
        if isinstance(fields, int):
            ours.header_table_size = hpacks.header_table_size = fields
        else:
            assert ours.encode(fields) == hpacks.encode(fields)
        assert ours.header_table.dynamic_entries == hpacks.header_table.dynamic_entries


class CountingEncoder(RememberingEncoder):
    """Counts the blocks that are put together, with the fields of each."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def add(self, *field):
        self.count += 1
        return super().add(*field)


def put_together(*sent: list[tuple[bytes, bytes]]) -> int:
    encoder = CountingEncoder()
    for fields in sent:
        encoder.encode(fields)
    return encoder.count


STATUS, DATE, LATER = (b":status", b"200"), (b"date", b"now"), (b"date", b"later")


def test_fields_that_come_again_are_not_put_together():
    assert put_together([STATUS], [STATUS]) == 1
    assert put_together([STATUS, DATE], [STATUS, DATE], [STATUS, DATE], [STATUS, DATE]) == 4
    assert put_together([STATUS], [DATE], [STATUS], [STATUS]) == 3


def test_fields_with_a_secret_are_not_kept():
    secret = NeverIndexedHeaderTuple(b"x", b"y")
    assert put_together([STATUS, secret], [STATUS, secret]) == 4


def test_few_sets_of_fields_are_kept_and_none_that_is_large():
    encoder = CountingEncoder()
    encoder.header_table_size = 0  # nothing goes to the table
    encoder.encode([])
    for number in range(MAX_BLOCKS + 1):
        encoder.encode([(b"x", b"%d" % number)])
    encoder.encode([(b"x", b"0")])
    assert encoder.count == MAX_BLOCKS + 2
    for _ in range(2):
        encoder.encode([(b"x", bytes(MAX_BLOCK_BYTES))])
        encoder.encode([STATUS] * (MAX_BLOCK_FIELDS + 1))
    assert encoder.count == MAX_BLOCKS + 2 + 2 * (MAX_BLOCK_FIELDS + 2)
