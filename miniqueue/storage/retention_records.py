"""Makes and parses the value of where a log begins of which finished chunks are kept; `records` has its form."""

import struct

from miniqueue.storage.sealing import seal, unpack

_start = struct.Struct("<QQ")
_NO_STOP = (1 << 64) - 1


def encode_start(start_seq: int, stop_seq: int | None) -> bytes:
    """Encode from where on finished chunks are kept, and up to where; None for no end."""
    return seal(_start.pack(start_seq, _NO_STOP if stop_seq is None else stop_seq))


def decode_start(value: bytes) -> tuple[int, int | None]:
    """Parse `encode_start`; raises CorruptionError or FormatVersionError."""
    start_seq, stop_seq = unpack(_start, value, "start of the log")
    return start_seq, None if stop_seq == _NO_STOP else stop_seq
