"""LevelDB's numbers of variable length: seven bits a byte, the lowest first, the top bit set in all but the last."""


def varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset` and where it ends; raises IndexError when it is cut short."""
    number = shift = 0
    while True:
        byte = content[offset]
        number |= (byte & 0x7F) << shift
        offset += 1
        shift += 7
        if byte < 0x80:
            return number, offset
