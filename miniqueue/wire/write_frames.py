r"""Writes of a store as a body of HTTP, each with a checksum.

    body   = (size:4 crc:4 write)*              integers are little-endian; crc: CRC-32 of the write

A store encodes its writes itself; here they are bytes.
"""

import struct
from collections.abc import Iterable
from zlib import crc32

from miniqueue.errors import ProtocolError

_frame = struct.Struct("<II")


def encode_writes(writes: Iterable[bytes]) -> bytes:
    """Encode writes, in order."""
    parts: list[bytes] = []
    for write in writes:
        parts += (_frame.pack(len(write), crc32(write)), write)
    return b"".join(parts)


def decode_writes(body: bytes) -> list[bytes]:
    """Return the writes of a whole body; raises ProtocolError if it is invalid."""
    writes: list[bytes] = []
    offset = 0
    while offset < len(body):
        if len(body) - offset < _frame.size:
            raise ProtocolError("the writes end inside a frame")
        size, checksum = _frame.unpack_from(body, offset)
        start, offset = offset + _frame.size, offset + _frame.size + size
        write = body[start:offset]
        if len(write) < size:
            raise ProtocolError("the writes end inside a frame")
        if crc32(write) != checksum:
            raise ProtocolError("the checksum of a write does not match")
        writes.append(write)
    return writes
