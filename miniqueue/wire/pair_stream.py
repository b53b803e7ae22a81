r"""The content of a store as a stream of bytes, whose end shows whether it is complete.

    stream  = "miniqueue pairs 1\n" frame* end              integers are little-endian
    frame   = size:4 crc:4 body                             crc: CRC-32 of the body
    body    = (key_length:4 value_length:4 key value)+
    end     = 0:4 crc:4 count:8                             count: number of all pairs; crc: CRC-32 of the count

The end of a broken connection may look like the end of the data, so a stream without `end` is incomplete.
"""

import struct
from collections.abc import Iterable
from zlib import crc32

from miniqueue.errors import ProtocolError

MAGIC = b"miniqueue pairs 1\n"

Pair = tuple[bytes, bytes]

_frame = struct.Struct("<II")
_lengths = struct.Struct("<II")
_count = struct.Struct("<Q")


def encode_pairs(pairs: Iterable[Pair]) -> bytes:
    """Encode at least one pair as a frame."""
    parts: list[bytes] = []
    for key, value in pairs:
        parts += (_lengths.pack(len(key), len(value)), key, value)
    body = b"".join(parts)
    return _frame.pack(len(body), crc32(body)) + body


def encode_end(count: int) -> bytes:
    """Encode the end of a stream of `count` pairs."""
    body = _count.pack(count)
    return _frame.pack(0, crc32(body)) + body


class PairDecoder:
    """Turns a stream, however split, back into pairs.

    Attributes:
      is_complete: whether the end was read, and with it every pair.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._count = 0
        self._rest = bytearray()
        self._has_begun = False

    def feed(self, chunk: bytes) -> list[Pair]:
        """Return the pairs that `chunk` completes; raises ProtocolError if the stream is invalid."""
        self._rest += chunk
        if not self._has_begun:
            self._begin()
        pairs: list[Pair] = []
        while (body := self._next_body()) is not None:
            pairs += _decode_body(body)
        self._count += len(pairs)
        if self.is_complete:
            self._finish()
        return pairs

    def _begin(self) -> None:
        if not MAGIC.startswith(self._rest[: len(MAGIC)]):
            raise ProtocolError("not the content of a store")
        if len(self._rest) >= len(MAGIC):
            del self._rest[: len(MAGIC)]
            self._has_begun = True

    def _next_body(self) -> bytes | None:
        """Remove the next complete frame, and return its body; None if there is none, or at the end."""
        if not self._has_begun or self.is_complete or len(self._rest) < _frame.size:
            return None
        size, checksum = _frame.unpack_from(self._rest)
        end = _frame.size + (size or _count.size)
        if len(self._rest) < end:
            return None
        body = bytes(self._rest[_frame.size : end])
        if crc32(body) != checksum:
            raise ProtocolError("a checksum in the content of the store does not match")
        if not size:
            self.is_complete = True
            return None
        del self._rest[:end]
        return body

    def _finish(self) -> None:
        (count,) = _count.unpack_from(self._rest, _frame.size)
        if count != self._count or len(self._rest) != _frame.size + _count.size:
            raise ProtocolError(f"{self._count} pairs have come, but {count} were sent")


def _decode_body(body: bytes) -> list[Pair]:
    pairs: list[Pair] = []
    offset = 0
    while offset < len(body):
        if len(body) - offset < _lengths.size:
            raise ProtocolError("a frame ends inside a pair")
        key_length, value_length = _lengths.unpack_from(body, offset)
        key_end = offset + _lengths.size + key_length
        offset = key_end + value_length
        if offset > len(body):
            raise ProtocolError("a frame ends inside a pair")
        pairs.append((body[key_end - key_length : key_end], body[key_end:offset]))
    return pairs
