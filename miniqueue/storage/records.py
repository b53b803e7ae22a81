"""Makes and parses values; some do `delay_records` and files like it.

    value   = version:1 body crc:4               crc: CRC-32 (zlib) of all before it; integers are little-endian
    number  = u64                                NEXT_TOPIC, GAP, TICK
    head    = next_seq:8 log_bytes:8             version 1: next_seq:8
    topic   = topic_id:8 created_at_ms:8
    cursor  = acked_count:8 head_seq:8 serial:8 delayed_count:8 dropped_count:8 gone_bytes:8 log_bytes:8 moved_count:8
              missed_count:8 skipped_count:8; version 4: without skipped_count; version 3: without these two
              version 2: without moved_count, too
              version 1: acked_count:8 head_seq:8 serial:8 delayed_count:8
    bitmap  = bits, least significant byte first
    start   = start_seq:8 stop_seq:8              where finished chunks are kept; 2⁶⁴ - 1 for no end
    settings = JSON object of the topic's settings that are not at their default
    chunk   = flags:1 count:4 committed_at_ms:8 log_bytes:8 length:4 × count, then the payloads
              flags 1: length:4 × count, attributes_length:4 × count, then the payloads, then the attributes
              version 1: without log_bytes
    record  = seq:8 published_at_ms:8 nacks:4 backs:4 dacks:4 timeouts:4 disconnects:4 attributes_length:4
              then the attributes, then the payload; version 1: without attributes_length and attributes
    delays  = count:8 size_bytes:8 serial:8 head_due_at_ms:8
    delayed = published_at_ms:8 priority:1 attributes_length:4, then the attributes, then the payload
    dedup   = for each id: message_count:4 id_length:2 message_id_length:4, the id, then the ids of the messages
    traces  = size_bytes:8 free_serial:8         of all keys and values of the topic's traces, roughly
    trace   = committed_at_ms:8 count:4 text_count:2, then a column of each, kind:1 start_seq:8 message_count:2 at_ms:8
              group:2 who:2 number:8 × count, then length:2 × text_count, then the texts
    unique  = expires_at_ms:8
    schedule = members_length:4, then the members as a JSON object, then the payload

The attributes of a message are encoded by `core.attributes`; here they are bytes like a payload. A chunk of plain
messages costs 26 bytes and 4 more per message. Every value names its version, so a new form can be
read beside the old: give it the next number, keep the old parser, write only the new (docs/storage-format.md). The
version is one more than the highest that is named above, and 1 where none is.
"""

import struct
import sys
from array import array

import orjson

from miniqueue.core import topic_settings
from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.joined import split
from miniqueue.core.message import Chunk, Counts, Record
from miniqueue.core.topic_errors import InvalidSettingError
from miniqueue.core.topic_settings import TopicSettings
from miniqueue.errors import FormatVersionError
from miniqueue.storage.sealing import malformed, seal, unpack, unseal

_number = struct.Struct("<Q")
_pair = struct.Struct("<QQ")
_cursor = struct.Struct("<QQQQQQQQQQ")
_cursor_4 = struct.Struct("<QQQQQQQQQ")
_cursor_3 = struct.Struct("<QQQQQQQQ")
_cursor_2 = struct.Struct("<QQQQQQQ")
_cursor_1 = struct.Struct("<QQQQ")
_chunk = struct.Struct("<BIQQ")
_chunk_1 = struct.Struct("<BIQ")
_record = struct.Struct("<QQIIIIII")
_record_1 = struct.Struct("<QQIIIII")
_HAS_ATTRIBUTES = 1  # a flag of a chunk


def encode_number(number: int) -> bytes:
    """Encode a counter."""
    return seal(_number.pack(number))


def decode_number(value: bytes) -> int:
    """Parse `encode_number`; raises CorruptionError or FormatVersionError, as all parsers here."""
    number: int = unpack(_number, value, "counter")[0]
    return number


def encode_head(next_seq: int, log_bytes: int) -> bytes:
    """Encode where a partition's log ends, in messages and in bytes of payloads."""
    return seal(_pair.pack(next_seq, log_bytes), version=b"\x02")


def decode_head(value: bytes) -> tuple[int, int]:
    """Parse `encode_head`; an old one tells 0 bytes."""
    if value[:1] == b"\x01":
        return decode_number(value), 0
    next_seq, log_bytes = unpack(_pair, value, "head", 2)
    return next_seq, log_bytes


def encode_topic(topic_id: int, created_at_ms: int) -> bytes:
    """Encode an entry of the topic registry."""
    return seal(_pair.pack(topic_id, created_at_ms))


def decode_topic(value: bytes) -> tuple[int, int]:
    """Parse `encode_topic`."""
    topic_id, created_at_ms = unpack(_pair, value, "topic entry")
    return topic_id, created_at_ms


def encode_cursor(state: CursorState) -> bytes:
    """Encode the state of a group in a partition."""
    return seal(_cursor.pack(*state), version=b"\x05")


def decode_cursor(value: bytes) -> CursorState:
    """Parse `encode_cursor`; an old one does not tell bytes."""
    if value[:1] == b"\x01":
        acked_count, head_seq, serial, delayed_count = unpack(_cursor_1, value, "cursor")
        return CursorState(acked_count, head_seq, serial, delayed_count, gone_bytes=None, log_bytes=None)
    layout = {b"\x02": _cursor_2, b"\x03": _cursor_3, b"\x04": _cursor_4}.get(value[:1], _cursor)
    return CursorState(*unpack(layout, value, "cursor", 5))


def encode_settings(settings: TopicSettings) -> bytes:
    """Encode the settings of a topic."""
    return seal(orjson.dumps(settings.members()))


def decode_settings(value: bytes) -> TopicSettings:
    """Parse `encode_settings`."""
    body = unseal(value, "topic settings")
    try:
        return topic_settings.of_members(orjson.loads(body))
    except (orjson.JSONDecodeError, AttributeError, InvalidSettingError) as exc:
        raise malformed("topic settings") from exc


def encode_bitmap(bits: int) -> bytes:
    """Encode the settled bits of a chunk."""
    return seal(bits.to_bytes((bits.bit_length() + 7) // 8, "little"))


def decode_bitmap(value: bytes) -> int:
    """Parse `encode_bitmap`."""
    return int.from_bytes(unseal(value, "bitmap"), "little")


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode the messages of a commit."""
    payloads, flags = chunk.payloads, 0
    if chunk.attributes is not None:
        payloads, flags = payloads + chunk.attributes, _HAS_ATTRIBUTES
    header = _chunk.pack(flags, len(chunk.payloads), chunk.committed_at_ms, chunk.log_bytes)
    lengths = _native_to_little(array("I", map(len, payloads))).tobytes()
    return seal(header, lengths, *payloads, version=b"\x02")


def decode_chunk(first_seq: int, value: bytes) -> Chunk:
    """Parse `encode_chunk`; the first sequence number comes from the key."""
    flags, count, committed_at_ms, log_bytes, body, lengths_at = _open_chunk(value)
    contents = _contents(body, lengths_at, 2 * count if flags else count)
    return Chunk(first_seq, committed_at_ms, contents[:count], log_bytes, contents[count:] if flags else None)


def decode_extent(first_seq: int, value: bytes) -> ChunkExtent:
    """Parse what a chunk says of itself, at a cost that does not grow with its messages."""
    flags, count, committed_at_ms, log_bytes, body, lengths_at = _open_chunk(value)
    content_bytes = len(body) - lengths_at - 4 * (2 * count if flags else count)
    if content_bytes < 0:
        raise malformed("chunk")
    return ChunkExtent(first_seq, first_seq + count, committed_at_ms, content_bytes, log_bytes)


def _open_chunk(value: bytes) -> tuple[int, int, int, int, bytes, int]:
    """Return flags, count, commit time and bytes of the log; then the body, and where its lengths begin."""
    body = unseal(value, "chunk", 2)
    layout = _chunk_1 if value[0] == 1 else _chunk
    if len(body) < layout.size:
        raise malformed("chunk")
    flags, count, committed_at_ms, *log_bytes = layout.unpack_from(body)
    if flags & ~_HAS_ATTRIBUTES:
        raise FormatVersionError("chunk flags", flags, _HAS_ATTRIBUTES)
    return flags, count, committed_at_ms, log_bytes[0] if log_bytes else 0, body, layout.size


def _contents(body: bytes, lengths_at: int, count: int) -> list[bytes]:
    """Parse `count` lengths and what is so long; there must be nothing else."""
    contents_at = lengths_at + 4 * count
    if len(body) < contents_at:
        raise malformed("chunk")
    try:
        return split(body[lengths_at:contents_at], body, contents_at)
    except ValueError as exc:
        raise malformed("chunk") from exc


def encode_record(record: Record) -> bytes:
    """Encode a message that came back."""
    seq, published_at_ms, counts, payload, attributes = record
    header = _record.pack(seq, published_at_ms, *counts, len(attributes))
    return seal(header, attributes, payload, version=b"\x02")


def decode_record(value: bytes) -> Record:
    """Parse `encode_record`."""
    body = unseal(value, "record", 2)
    layout = _record_1 if value[0] == 1 else _record
    if len(body) < layout.size:
        raise malformed("record")
    seq, published_at_ms, *counts = layout.unpack_from(body)
    attributes_length = 0 if value[0] == 1 else counts.pop()
    payload_at = layout.size + attributes_length
    if len(body) < payload_at:
        raise malformed("record")
    return Record(seq, published_at_ms, Counts(*counts), body[payload_at:], body[layout.size : payload_at])


def _native_to_little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
