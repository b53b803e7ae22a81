"""The content of a store survives any cutting up of its bytes; a stream that is cut off or changed is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.errors import ProtocolError
from miniqueue.wire.pair_stream import MAGIC, PairDecoder, encode_end, encode_pairs

PAIRS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=50)), min_size=1, max_size=5)


def stream_of(frames: list[list[tuple[bytes, bytes]]]) -> bytes:
    return MAGIC + b"".join(map(encode_pairs, frames)) + encode_end(sum(map(len, frames)))


def test_bytes_of_the_format():
    assert encode_pairs([(b"k", b"vv")]).hex() == "0b000000bd5117b901000000020000006b7676"
    assert encode_end(1).hex() == "00000000f7df88a90100000000000000"


@given(st.lists(PAIRS, max_size=4), st.integers(1, 40))
def test_pairs_come_back_however_the_stream_is_split(frames, size):
    stream = stream_of(frames)
    decoder = PairDecoder()
    found = [pair for at in range(0, len(stream), size) for pair in decoder.feed(stream[at : at + size])]
    assert found == [pair for frame in frames for pair in frame]
    assert decoder.is_complete


@given(st.lists(PAIRS, max_size=3), st.data())
def test_a_stream_that_is_cut_off_is_not_complete(frames, data):
    stream = stream_of(frames)
    decoder = PairDecoder()
    decoder.feed(stream[: data.draw(st.integers(0, len(stream) - 1))])
    assert not decoder.is_complete


@given(st.lists(PAIRS, max_size=3), st.data())
def test_a_stream_with_a_changed_byte_is_refused_or_not_complete(frames, data):
    stream = bytearray(stream_of(frames))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
    decoder = PairDecoder()
    try:
        decoder.feed(bytes(stream))
    except ProtocolError:
        return
    assert not decoder.is_complete


@pytest.mark.parametrize(
    "stream",
    [
        b"HTTP/1.1",
        MAGIC + encode_end(1),
        MAGIC + encode_end(0) + b"x",
        MAGIC + encode_pairs([(b"k", b"v")]) + encode_end(2),
    ],
)
def test_what_cannot_be_is_refused(stream):
    with pytest.raises(ProtocolError):
        PairDecoder().feed(stream)
