"""Decompress a snappy block. Pure Python, for the few blocks that a start or a report of damage looks into.

    block    = length:varint element*
    element  = tag:1 …                the lowest two bits: 0 literal; 1, 2, 3 copy, with an offset of 11, 16, 32 bits

Source: snappy `format_description.txt`.
"""

from miniqueue.storage.varint import varint

_LONGEST_SHORT_LITERAL = 60


def decompress(block: bytes) -> bytes:
    """Return the content of a block whose checksum is right; raises IndexError when it makes no sense all the same."""
    length, offset = varint(block, 0)
    content = bytearray()
    while offset < len(block):
        tag = block[offset]
        offset += 1
        offset = _copy(block, offset, tag, content) if tag & 3 else _literal(block, offset, tag >> 2, content)
    if len(content) != length:
        raise IndexError("a snappy block of the wrong length")
    return bytes(content)


def _literal(block: bytes, offset: int, code: int, content: bytearray) -> int:
    size = code + 1
    if code >= _LONGEST_SHORT_LITERAL:
        width = code - _LONGEST_SHORT_LITERAL + 1
        size = int.from_bytes(block[offset : offset + width], "little") + 1
        offset += width
    content += block[offset : offset + size]
    return offset + size


def _copy(block: bytes, offset: int, tag: int, content: bytearray) -> int:
    if tag & 3 == 1:
        size, back = (tag >> 2 & 7) + 4, tag >> 5 << 8 | block[offset]
        offset += 1
    else:
        width = 2 if tag & 3 == 2 else 4
        size, back = (tag >> 2) + 1, int.from_bytes(block[offset : offset + width], "little")
        offset += width
    if not 0 < back <= len(content):
        raise IndexError("a snappy copy from in front of the block")
    piece = content[-back:] if back >= size else content[-back:] * (size // back + 1)
    content += piece[:size]
    return offset
