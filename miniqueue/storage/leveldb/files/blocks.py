"""The encodings inside LevelDB's blocks: numbers of variable length, and snappy compression.

    varint   = seven bits per byte, lowest first; the top bit is set in all bytes except the last
    block    = length:varint element*
    element  = tag:1 …                the lowest two bits: 0 literal; 1, 2, 3 copy, with an offset of 11, 16, 32 bits

Both are pure Python, and are used only for the few blocks that a startup or a report of damage inspects. plyvel
contains snappy, but does not export it; pyarrow, which does, is installed only with the extra `spark`. No runtime
dependency exports varints.

Source: snappy `format_description.txt`.
"""

#: Maximum length of a varint: ten bytes hold 64 bits. LevelDB reads no longer ones, and the cost of reading one would
#: grow with the square of its length.
_MAX_BYTES = 10
#: Codes from this one on state the width of the length of a literal, lower codes the length itself.
_FIRST_LONG_LITERAL = 60


def varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset` and its end; raise IndexError if it is truncated or too long."""
    number = 0
    for shift in range(0, 7 * _MAX_BYTES, 7):
        byte = content[offset]
        number |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return number, offset
    raise IndexError("a number of more than 10 bytes")


def decompress(block: bytes) -> bytes:
    """Return the content of a block whose checksum is right; raise IndexError if it is invalid nevertheless."""
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
    if code >= _FIRST_LONG_LITERAL:
        width = code - _FIRST_LONG_LITERAL + 1
        size = int.from_bytes(block[offset : offset + width], "little") + 1
        offset += width
    content += block[offset : offset + size]
    return offset + size


def _copy(block: bytes, offset: int, tag: int, content: bytearray) -> int:
    if tag & 3 == 1:
        size, distance = (tag >> 2 & 7) + 4, tag >> 5 << 8 | block[offset]
        offset += 1
    else:
        width = 2 if tag & 3 == 2 else 4
        size, distance = (tag >> 2) + 1, int.from_bytes(block[offset : offset + width], "little")
        offset += width
    if not 0 < distance <= len(content):
        raise IndexError("a snappy copy from before the block")
    piece = content[-distance:] if distance >= size else content[-distance:] * (size // distance + 1)
    content += piece[:size]
    return offset
