"""LevelDB's numbers of variable length: seven bits a byte, the lowest first, the top bit set in all but the last.

No number is longer than ten bytes, which hold 64 bits. LevelDB reads no longer one, and the work of reading it would
grow with the square of its length.
"""

_MAX_BYTES = 10


def varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset` and where it ends; raises IndexError when it is cut short, or too long."""
    number = 0
    for shift in range(0, 7 * _MAX_BYTES, 7):
        byte = content[offset]
        number |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return number, offset
    raise IndexError("a number of more than 10 bytes")
