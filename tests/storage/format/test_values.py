"""Values: parsed as they were made, byte for byte those of their version, also of older ones; refused when damaged."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.recording import Kind
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.log.dedup_window import Remembered
from miniqueue.core.log.delayed import Delayed, DelaysState
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.message import Chunk, Counts, Record
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.format import dedup, delays, schedules, traces, values
from miniqueue.storage.format.traces import TraceState
from miniqueue.storage.format.values import seal

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
OFFERS = Schedule(
    b"t",
    b"now",
    every_ms=1500,
    options=PublishOptions(((b"kind", b"\xff"),), b"shop", 0.5, priority=Priority.HIGH),
    until_ms=1_700_000_000_000,
)
PAYLOADS = st.lists(st.binary(max_size=30), max_size=30)


def chunk_fields(chunk: Chunk) -> tuple[int, int, list[bytes], int, list[bytes] | None]:
    return chunk.first_seq, chunk.committed_at_ms, chunk.payloads, chunk.log_bytes, chunk.attributes


#: What each value is made of, None if it is not written any more; its bytes; how it is parsed. Change no line; add.
GOLDEN = {
    "number": (
        values.encode_number(0x0102030405060708),
        "010807060504030201a1329c31",
        values.decode_number,
        0x0102030405060708,
    ),
    "topic": (
        values.encode_topic(7, 1_700_000_000_000),
        "0107000000000000000068e5cf8b0100003f6ebf1d",
        values.decode_topic,
        (7, 1_700_000_000_000),
    ),
    "head 1": (None, "010807060504030201a1329c31", values.decode_head, (0x0102030405060708, 0)),
    "head": (
        values.encode_head(7, 1000),
        "020700000000000000e80300000000000046bdf781",
        values.decode_head,
        (7, 1000),
    ),
    "cursor 1": (
        None,
        "010100000000000000020000000000000003000000000000000400000000000000d3d9edc9",
        values.decode_cursor,
        CursorState(1, 2, 3, 4, 0, None, None, 0),
    ),
    "cursor 2": (
        None,
        "0201000000000000000200000000000000030000000000000004000000000000000500000000000000060000000000000007000000000000009c813360",
        values.decode_cursor,
        CursorState(1, 2, 3, 4, 5, 6, 7, 0),
    ),
    "cursor 3": (
        None,
        "03010000000000000002000000000000000300000000000000040000000000000005000000000000000600000000000000070000000000000008000000000000008cd4bf7b",
        values.decode_cursor,
        CursorState(1, 2, 3, 4, 5, 6, 7, 8, 0),
    ),
    "cursor 4": (
        None,
        "04010000000000000002000000000000000300000000000000040000000000000005000000000000000600000000000000070000000000000008000000000000000900000000000000169d1dee",
        values.decode_cursor,
        CursorState(1, 2, 3, 4, 5, 6, 7, 8, 9),
    ),
    "cursor": (
        values.encode_cursor(CursorState(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        "050100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000080000000000000009000000000000000a0000000000000079474485",
        values.decode_cursor,
        CursorState(1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    ),
    "bitmap": (values.encode_bitmap(0b1_0000_0101), "010501f677f3f4", values.decode_bitmap, 0b1_0000_0101),
    "erasure": (values.encode_erasure(b"orders"), "01066f726465727380b6b59e", values.decode_erasure, b"orders"),
    "settings": (
        values.encode_settings(TopicSettings(max_deliveries=5, retry_delays=(1.0, 2.5))),
        "017b226d61785f64656c69766572696573223a352c2272657472795f64656c617973223a5b312e302c322e355d7dded8aa82",
        values.decode_settings,
        TopicSettings(max_deliveries=5, retry_delays=(1.0, 2.5)),
    ),
    "chunk 1": (
        None,
        "0100030000000068e5cf8b0100000300000000000000020000006f6e6500ff23d99dd1",
        lambda value: chunk_fields(values.decode_chunk(5, value)),
        (5, 1_700_000_000_000, [b"one", b"", b"\x00\xff"], 0, None),
    ),
    "chunk": (
        values.encode_chunk(Chunk(5, 1_700_000_000_000, [b"one", b"", b"\x00\xff"], 1000)),
        "0200030000000068e5cf8b010000e8030000000000000300000000000000020000006f6e6500fffc385e87",
        lambda value: chunk_fields(values.decode_chunk(5, value)),
        (5, 1_700_000_000_000, [b"one", b"", b"\x00\xff"], 1000, None),
    ),
    "record 1": (
        None,
        "0109000000000000000068e5cf8b01000001000000020000000300000004000000050000006f6e650bdda386",
        values.decode_record,
        Record(9, 1_700_000_000_000, Counts(1, 2, 3, 4, 5), b"one"),
    ),
    "record 2": (
        values.encode_record(Record(9, 1_700_000_000_000, Counts(1, 2, 3, 4, 5), b"one", b"extra")),
        "0209000000000000000068e5cf8b01000001000000020000000300000004000000050000000500000065787472616f6e65f155e4a8",
        values.decode_record,
        Record(9, 1_700_000_000_000, Counts(1, 2, 3, 4, 5), b"one", b"extra"),
    ),
    "record": (
        values.encode_record(Record(9, 1_700_000_000_000, Counts(1, 2, 3, 4, 5), b"one", b"extra", b"why")),
        "0309000000000000000068e5cf8b010000010000000200000003000000040000000500000005000000030077687965787472616f6e65a3ebf26c",
        values.decode_record,
        Record(9, 1_700_000_000_000, Counts(1, 2, 3, 4, 5), b"one", b"extra", b"why"),
    ),
    "chunk with attributes": (
        values.encode_chunk(Chunk(5, 1_700_000_000_000, [b"one", b"", b"\x00\xff"], 1000, [b"", b"extra", b"x"])),
        "0201030000000068e5cf8b010000e8030000000000000300000000000000020000000000000005000000010000006f6e6500ff6578747261786062f75b",
        lambda value: chunk_fields(values.decode_chunk(5, value)),
        (5, 1_700_000_000_000, [b"one", b"", b"\x00\xff"], 1000, [b"", b"extra", b"x"]),
    ),
    "delays": (
        delays.encode_delays(DelaysState(1, 2, 3, 4)),
        "010100000000000000020000000000000003000000000000000400000000000000d3d9edc9",
        delays.decode_delays,
        DelaysState(1, 2, 3, 4),
    ),
    "delayed": (
        delays.encode_delayed(Delayed(1_700_000_000_000, 2, b"one", b"extra")),
        "010068e5cf8b010000020500000065787472616f6e6586815b2b",
        delays.decode_delayed,
        Delayed(1_700_000_000_000, 2, b"one", b"extra"),
    ),
    "dedup": (
        dedup.encode_dedup([Remembered(b"a1", b"0-17"), Remembered(b"x", b"0-18", 1000)]),
        "01010000000200040000006131302d3137e803000001000400000078302d31381fe3d24e",
        dedup.decode_dedup,
        [Remembered(b"a1", b"0-17"), Remembered(b"x", b"0-18", 1000)],
    ),
    "unique": (
        dedup.encode_unique(1_700_000_000_000),
        "010068e5cf8b01000059ac7d5f",
        dedup.decode_unique,
        1_700_000_000_000,
    ),
    "traces": (
        traces.encode_traces(TraceState(1, 2)),
        "010100000000000000020000000000000012ac04a2",
        traces.decode_traces,
        TraceState(1, 2),
    ),
    "trace": (
        None,  # test_trace_records has what encodes it
        "010068e5cf8b010000020000000300040b0108000000000000010800000000000004000200f667e5cf8b0100000068e5cf8b010000000"
        "00000010002000500000000000000000000000000000007000400000064656661756c7472657370ea7f3320",
        traces.decode_trace,
        (
            1_700_000_000_000,
            [
                (Kind.DELIVERED, 2049, 4, 1_699_999_999_990, b"default", b"resp", 5),
                (Kind.ACKNOWLEDGED, 2049, 2, 1_700_000_000_000, b"default", b"", 0),
            ],
        ),
    ),
    "schedule 1": (
        None,
        "01460000007b22746f706963223a2274222c2263726f6e223a22302039202a202a202a222c227a6f6e65223a224575726f70652f42657"
        "26c696e222c226d6973736564223a226f6e65227d6f6e65c886ada9",
        schedules.decode_schedule,
        Schedule(b"t", b"one", "0 9 * * *", 0, "Europe/Berlin", Missed.ONE),
    ),
    "schedule 1 by seconds": (
        None,
        "012c0000007b22746f706963223a2274222c2265766572795f6d73223a313530302c226d6973736564223a22616c6c227dd915f823",
        schedules.decode_schedule,
        Schedule(b"t", b"", every_ms=1500),
    ),
    "schedule": (
        schedules.encode_schedule(Schedule(b"t", b"one", "0 9 * * *", 0, "Europe/Berlin", Missed.ONE)),
        "0246000000000000007b22746f706963223a2274222c2263726f6e223a22302039202a202a202a222c227a6f6e65223a224575726f70"
        "652f4265726c696e222c226d6973736564223a226f6e65227d6f6e6522995ee6",
        schedules.decode_schedule,
        Schedule(b"t", b"one", "0 9 * * *", 0, "Europe/Berlin", Missed.ONE),
    ),
    "schedule with options and an end": (
        schedules.encode_schedule(OFFERS),
        "0261000000140000007b22746f706963223a2274222c2265766572795f6d73223a313530302c226d6973736564223a22616c6c222c22"
        "756e74696c5f6d73223a313730303030303030303030302c227072696f72697479223a2268696768222c2274746c223a302e357d0106"
        "000000046b696e64ff020400000073686f706e6f77adea8915",
        schedules.decode_schedule,
        OFFERS,
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_bytes_of_every_version(kind):
    encoded, expected, decode, content = GOLDEN[kind]
    assert encoded is None or encoded.hex() == expected
    assert decode(bytes.fromhex(expected)) == content


@pytest.mark.parametrize("kind", GOLDEN)
def test_every_flipped_bit_is_refused(kind):
    _, golden, decode, _ = GOLDEN[kind]
    value = bytes.fromhex(golden)
    for bit in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, FormatVersionError)):
            decode(bytes(damaged))


@pytest.mark.parametrize("kind", GOLDEN)
def test_every_cut_is_refused(kind):
    _, golden, decode, _ = GOLDEN[kind]
    value = bytes.fromhex(golden)
    for length in range(len(value)):
        with pytest.raises(CorruptionError):
            decode(value[:length])


@pytest.mark.parametrize("kind", sorted(GOLDEN.keys() - {"bitmap", "delayed", "unique"}))  # nearly any bits are one
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"\x00\xff\xff\xff\xff" + bytes(8),
        b"\x00\x01\x00\x00\x00" + bytes(8) + b"\x09\0\0\0",
        bytes(21) + b"rest",
    ],
    ids=["nothing", "one byte", "count too large", "length too large", "left over"],
)
def test_a_sound_checksum_over_nonsense_is_refused(kind, body):
    _, golden, decode, _ = GOLDEN[kind]
    sealed = bytes.fromhex(golden)[:1] + body
    sealed += crc32(sealed).to_bytes(4, "little")
    with pytest.raises(CorruptionError, match="makes no sense"):
        decode(sealed)


@pytest.mark.parametrize("kind", GOLDEN)
@pytest.mark.parametrize("version", [0, 6, 255])
def test_another_version_is_named_in_the_error(kind, version):
    _, golden, decode, _ = GOLDEN[kind]
    body = bytes([version]) + bytes.fromhex(golden)[1:-4]
    with pytest.raises(FormatVersionError, match=f"version {version} found") as caught:
        decode(body + crc32(body).to_bytes(4, "little"))
    newest = max(n for n in (1, 2, 3, 4, 5) if n == 1 or f"{kind.split()[0]} {n - 1}" in GOLDEN)
    assert (caught.value.version, caught.value.expected) == (version, newest)


@pytest.mark.parametrize("body", [b"", bytes(12), bytes(9) + b"\x01\0\0\0"])
def test_a_delayed_message_that_is_too_short_is_refused(body):
    sealed = b"\x01" + body
    sealed += crc32(sealed).to_bytes(4, "little")
    with pytest.raises(CorruptionError, match="makes no sense"):
        delays.decode_delayed(sealed)


def test_a_unique_key_without_a_time_is_refused():
    with pytest.raises(CorruptionError, match="makes no sense"):
        dedup.decode_unique(seal(b""))


def test_unknown_chunk_flags_are_a_version_of_their_own():
    body = b"\x02\x04" + values.encode_chunk(Chunk(0, 1, [b"x"]))[2:-4]
    with pytest.raises(FormatVersionError, match="chunk flags"):
        values.decode_chunk(0, body + crc32(body).to_bytes(4, "little"))


@given(U64)
def test_numbers_round_trip(number):
    assert values.decode_number(values.encode_number(number)) == number


@given(U64, U64)
def test_topics_round_trip(topic_id, created_at_ms):
    assert values.decode_topic(values.encode_topic(topic_id, created_at_ms)) == (topic_id, created_at_ms)


@given(st.builds(CursorState, *[U64] * 10))
def test_cursors_round_trip(state):
    assert values.decode_cursor(values.encode_cursor(state)) == state


@given(st.integers(0, 2**300))
def test_bitmaps_round_trip(bits):
    assert values.decode_bitmap(values.encode_bitmap(bits)) == bits


@given(U64, U64, PAYLOADS, U64)
def test_chunks_round_trip(first_seq, committed_at_ms, payloads, log_bytes):
    chunk = Chunk(first_seq, committed_at_ms, payloads, log_bytes)
    value = values.encode_chunk(chunk)
    assert chunk_fields(values.decode_chunk(first_seq, value)) == chunk_fields(chunk)
    assert len(value) == 26 + 4 * len(payloads) + sum(map(len, payloads))


@given(U64, U64, st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=9)), max_size=30), U64)
def test_chunks_with_attributes_round_trip(first_seq, committed_at_ms, contents, log_bytes):
    payloads, attributes = ([content[i] for content in contents] for i in (0, 1))
    chunk = Chunk(first_seq, committed_at_ms, payloads, log_bytes, attributes)
    assert chunk_fields(values.decode_chunk(first_seq, values.encode_chunk(chunk))) == chunk_fields(chunk)
    assert chunk.content_bytes == sum(chunk.sizes())


EXTRA = st.binary(max_size=20)


@given(st.builds(Record, U64, U64, st.builds(Counts, U32, U32, U32, U32, U32), st.binary(max_size=50), EXTRA, EXTRA))
def test_records_round_trip(record):
    assert values.decode_record(values.encode_record(record)) == record


def test_lengths_are_little_endian_on_a_big_endian_machine(monkeypatch):
    monkeypatch.setattr(values.sys, "byteorder", "big")
    chunk = Chunk(0, 1, [b"one", b"three"])
    value = values.encode_chunk(chunk)
    assert value[22:30] == bytes.fromhex("0000000300000005")  # swapped from this machine's own order
    assert values.decode_chunk(0, value).payloads == chunk.payloads
