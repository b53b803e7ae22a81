"""Keys and values of delayed messages: each message (DELAYED), and the statistics of a partition (DELAYS).

The messages are ordered by due time; messages with the same due time are ordered by serial number, which is the order
in which they were published. The grammar is in `keys`, the forms of the values are in `values`.
"""

import struct

from miniqueue.core.log.delayed import MAX_PRIORITY, Delayed, DelaysState
from miniqueue.storage.format.keys import MAX_UINT64, PARTITION_LAYOUT, SERIAL_LAYOUT, KeyRange, Space
from miniqueue.storage.format.values import malformed, seal, unpack, unseal

_delays = struct.Struct("<QQQQ")
_delayed = struct.Struct("<QBI")


def delays(topic_id: int, partition: int) -> bytes:
    """Key of the statistics of a partition's delayed messages."""
    return PARTITION_LAYOUT.pack(Space.DELAYS, topic_id, partition)


def delayed(topic_id: int, partition: int, due_at_ms: int, serial: int) -> bytes:
    """Key of a delayed message."""
    return SERIAL_LAYOUT.pack(Space.DELAYED, topic_id, partition, due_at_ms, serial)


def due_at_ms_and_serial(key: bytes) -> tuple[int, int]:
    """Parse `delayed`."""
    due_at_ms, serial = SERIAL_LAYOUT.unpack(key)[3:]
    return due_at_ms, serial


def due_from(topic_id: int, partition: int, start: tuple[int, int]) -> KeyRange:
    """Range of the messages from a due time and serial on."""
    return delayed(topic_id, partition, *start), delayed(topic_id, partition, MAX_UINT64, MAX_UINT64) + b"\x00"


def encode_delays(state: DelaysState) -> bytes:
    """Encode the statistics of a partition's delayed messages."""
    return seal(_delays.pack(*state))


def decode_delays(value: bytes) -> DelaysState:
    """Parse `encode_delays`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    return DelaysState(*unpack(_delays, value, "delays"))


def encode_delayed(message: Delayed) -> bytes:
    """Encode a delayed message."""
    published_at_ms, priority, payload, attributes = message
    return seal(_delayed.pack(published_at_ms, priority, len(attributes)), attributes, payload)


def decode_delayed(value: bytes) -> Delayed:
    """Parse `encode_delayed`."""
    body = unseal(value, "delayed message")
    if len(body) < _delayed.size:
        raise malformed("delayed message")
    published_at_ms, priority, attributes_length = _delayed.unpack_from(body)
    payload_at = _delayed.size + attributes_length
    if len(body) < payload_at or priority > MAX_PRIORITY:
        raise malformed("delayed message")
    return Delayed(published_at_ms, priority, body[payload_at:], body[_delayed.size : payload_at])
