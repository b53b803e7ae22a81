"""Forms of all values in the store, the version and checksum around each value, and most of the parsers.

    value   = version:1 body crc:4               crc: CRC-32 (zlib) of all before it; integers are little-endian
    number  = u64                                NEXT_TOPIC, GAP, TICK, SENT
    head    = next_seq:8 log_bytes:8             version 1: next_seq:8
    topic   = topic_id:8 created_at_ms:8
    cursor  = acked_count:8 head_seq:8 serial:8 delayed_count:8 dropped_count:8 gone_bytes:8 log_bytes:8 moved_count:8
              missed_count:8 skipped_count:8; version 4: without skipped_count; version 3: without these two
              version 2: also without moved_count
              version 1: acked_count:8 head_seq:8 serial:8 delayed_count:8
    bitmap  = bits, least significant byte first
    start   = start_seq:8 stop_seq:8              range of retained settled chunks; stop 2⁶⁴ - 1: no end
    growth  = for each partition or lane, by number: number:4 end_seq:8
    settings = JSON object of the topic's settings that are not at their default
    chunk   = flags:1 count:4 committed_at_ms:8 log_bytes:8 length:4 × count, then the payloads
              flags 1: length:4 × count, attributes_length:4 × count, then the payloads, then the attributes
              version 1: without log_bytes
    record  = seq:8 published_at_ms:8 nacks:4 backs:4 dacks:4 timeouts:4 disconnects:4 attributes_length:4
              failure_length:2, then the failure, the attributes, and the payload
              version 2, if there is no failure: without failure_length
              version 1: also without attributes_length and attributes
    delays  = count:8 size_bytes:8 serial:8 head_due_at_ms:8
    delayed = published_at_ms:8 priority:1 attributes_length:4, then the attributes, then the payload
    dedup   = for each id: message_count:4 id_length:2 message_id_length:4, the id, then the ids of the messages
    traces  = size_bytes:8 free_serial:8         approximate size of all keys and values of the topic's traces
    trace   = committed_at_ms:8 count:4 text_count:2, then a column of each, kind:1 start_seq:8 message_count:2 at_ms:8
              group:2 who:2 number:8 × count, then length:2 × text_count, then the texts
    unique  = expires_at_ms:8
    task    = the members of the task as a JSON object
    transfer = members_length:4 attributes_length:4, then the members as a JSON object, then the attributes, then the
              payload
    received = last_number:8, then missing_number:8 for each, ascending
    schedule = members_length:4 attributes_length:4, then the members as a JSON object, then the attributes, then the
              payload; version 1: without attributes_length and attributes

The value of PURGE and GROUP_PURGE is empty. `core.message.attributes` encodes the attributes of a message; here they
are bytes, like a payload. A chunk of plain messages costs 26 bytes, and 4 more for each message. `dedup`, `delays`,
`log_ends`, `schedules`, `tasks`, `traces`, and `transfers` encode and parse those values.

Every value names its version, so a new form can be read alongside an old form: give it the next number, keep the old
parser, write only the new form (docs/storage-format.md). The current version of a form is one more than the highest
version that is named above, or 1 if none is named. A record without a failure is still written as version 2, which
earlier versions read.

The checksum is zlib's CRC-32 since the standard library has it; no runtime dependency offers CRC-32C to Python.
"""

import struct
import sys
from array import array
from typing import Any
from zlib import crc32

import orjson

from miniqueue.core.cursor.state import CursorState
from miniqueue.core.message.message import Chunk, ChunkExtent, Counts, Record
from miniqueue.core.message.names import check_name
from miniqueue.core.message.numerals import split
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError
from miniqueue.errors.requests import InvalidSettingError

VERSION = 1

_crc = struct.Struct("<I")


def seal(*parts: bytes, version: bytes = b"\x01") -> bytes:
    """Return the value with this body: the version, the body, and a checksum of both."""
    value = b"".join((version, *parts))
    return value + _crc.pack(crc32(value))


def unseal(value: bytes, subject: str, version: int = VERSION) -> bytes:
    """Return the body of a value; raise unless its checksum is right and its version is at most `version`."""
    if len(value) < 5 or crc32(value[:-4]) != _crc.unpack_from(value, len(value) - 4)[0]:
        raise CorruptionError(f"{subject}: checksum does not match")
    if not VERSION <= value[0] <= version:
        raise FormatVersionError(subject, value[0], version)
    return value[1:-4]


def unpack(layout: struct.Struct, value: bytes, subject: str, version: int = VERSION) -> tuple[Any, ...]:
    """Parse a value of a fixed size."""
    body = unseal(value, subject, version)
    if len(body) != layout.size:
        raise malformed(subject)
    return layout.unpack(body)


def malformed(subject: str) -> CorruptionError:
    """Return the error for a value whose checksum is right, but whose content was never written by a broker."""
    return CorruptionError(f"{subject}: the checksum is right, but the content makes no sense")


_number = struct.Struct("<Q")
_pair = struct.Struct("<QQ")
_cursor = struct.Struct("<QQQQQQQQQQ")
_cursor_4 = struct.Struct("<QQQQQQQQQ")
_cursor_3 = struct.Struct("<QQQQQQQQ")
_cursor_2 = struct.Struct("<QQQQQQQ")
_cursor_1 = struct.Struct("<QQQQ")
_chunk = struct.Struct("<BIQQ")
_chunk_1 = struct.Struct("<BIQ")
_record = struct.Struct("<QQIIIIIIH")
_record_2 = struct.Struct("<QQIIIIII")
_record_1 = struct.Struct("<QQIIIII")
#: The flag of a chunk whose messages have attributes.
_HAS_ATTRIBUTES = 1


def encode_number(number: int) -> bytes:
    """Encode a counter."""
    return seal(_number.pack(number))


def decode_number(value: bytes) -> int:
    """Parse `encode_number`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    number: int = unpack(_number, value, "counter")[0]
    return number


def encode_head(next_seq: int, log_bytes: int) -> bytes:
    """Encode the end of a partition's log: its next sequence number, and the bytes of payloads up to there."""
    return seal(_pair.pack(next_seq, log_bytes), version=b"\x02")


def decode_head(value: bytes) -> tuple[int, int]:
    """Parse `encode_head`; a value of version 1 has no bytes, so 0 is returned."""
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
    """Parse `encode_cursor`; a value of version 1 has no bytes, so None is returned for them."""
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


def encode_erasure(name: bytes) -> bytes:
    """Encode the name of a spread topic that was deleted, and whose parts are still to be deleted."""
    return seal(bytes([len(name)]), name)


def decode_erasure(value: bytes) -> bytes:
    """Parse `encode_erasure`."""
    body = unseal(value, "name of a deleted topic")
    try:
        if body[0] != len(body) - 1:
            raise malformed("name of a deleted topic")
        return check_name(body[1:])
    except (IndexError, InvalidTopicError) as exc:
        raise malformed("name of a deleted topic") from exc


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
    """Parse the extent of a chunk, at a cost that does not depend on the number of its messages."""
    flags, count, committed_at_ms, log_bytes, body, lengths_at = _open_chunk(value)
    content_bytes = len(body) - lengths_at - 4 * (2 * count if flags else count)
    if content_bytes < 0:
        raise malformed("chunk")
    return ChunkExtent(first_seq, first_seq + count, committed_at_ms, content_bytes, log_bytes)


def _open_chunk(value: bytes) -> tuple[int, int, int, int, bytes, int]:
    """Return flags, count, commit time, bytes of the log, the body, and the offset of its lengths."""
    body = unseal(value, "chunk", 2)
    layout = _chunk_1 if value[0] == 1 else _chunk
    if len(body) < layout.size:
        raise malformed("chunk")
    flags, count, committed_at_ms, *log_bytes = layout.unpack_from(body)
    if flags & ~_HAS_ATTRIBUTES:
        raise FormatVersionError("chunk flags", flags, _HAS_ATTRIBUTES)
    return flags, count, committed_at_ms, log_bytes[0] if log_bytes else 0, body, layout.size


def _contents(body: bytes, lengths_at: int, count: int) -> list[bytes]:
    """Parse `count` lengths and the contents of those lengths; raise unless the body ends there."""
    contents_at = lengths_at + 4 * count
    if len(body) < contents_at:
        raise malformed("chunk")
    try:
        return split(body[lengths_at:contents_at], body, contents_at)
    except ValueError as exc:
        raise malformed("chunk") from exc


def encode_record(record: Record) -> bytes:
    """Encode a returned message."""
    seq, published_at_ms, counts, payload, attributes, failure = record
    if not failure:
        header = _record_2.pack(seq, published_at_ms, *counts, len(attributes))
        return seal(header, attributes, payload, version=b"\x02")
    header = _record.pack(seq, published_at_ms, *counts, len(attributes), len(failure))
    return seal(header, failure, attributes, payload, version=b"\x03")


def decode_record(value: bytes) -> Record:
    """Parse `encode_record`."""
    body = unseal(value, "record", 3)
    layout = {1: _record_1, 2: _record_2}.get(value[0], _record)
    if len(body) < layout.size:
        raise malformed("record")
    seq, published_at_ms, *numbers = layout.unpack_from(body)
    counts, lengths = Counts(*numbers[: len(Counts._fields)]), numbers[len(Counts._fields) :]
    attributes_length, failure_length = (*lengths, 0, 0)[:2]
    attributes_at = layout.size + failure_length
    payload_at = attributes_at + attributes_length
    if len(body) < payload_at:
        raise malformed("record")
    attributes, failure = body[attributes_at:payload_at], body[layout.size : attributes_at]
    return Record(seq, published_at_ms, counts, body[payload_at:], attributes, failure)


def _native_to_little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
