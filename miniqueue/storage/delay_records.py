"""Values of messages that were published with a delay. The grammar stands in `records`."""

import struct

from miniqueue.core.delayed import MAX_PRIORITY, Delayed, DelaysState
from miniqueue.storage.sealing import malformed, seal, unpack, unseal

_delays = struct.Struct("<QQQQ")
_delayed = struct.Struct("<QBI")


def encode_delays(state: DelaysState) -> bytes:
    """Encode the counts of a partition's delayed messages."""
    return seal(_delays.pack(*state))


def decode_delays(value: bytes) -> DelaysState:
    """Parse `encode_delays`; raises CorruptionError or FormatVersionError, as all parsers here."""
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
