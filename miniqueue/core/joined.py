r"""Many byte strings in two: all of them one behind the other, and their sizes.

joined   onethree
sizes    \x03\0\0\0 \0\0\0\0 \x05\0\0\0       of each 4 bytes, little-endian
"""

import sys
from array import array
from io import BytesIO
from typing import Final

#: Of a size.
SIZE_BYTES: Final = 4


def split(sizes: bytes, joined: bytes, start: int = 0) -> list[bytes]:
    """Return the strings that stand in `joined` from `start` on; raises ValueError unless they end where it does."""
    lengths = array("I", sizes)
    if sys.byteorder == "big":
        lengths.byteswap()
    if (stop := start + sum(lengths)) != len(joined):
        raise ValueError(f"{len(joined)} bytes, not {stop}")
    content = BytesIO(joined)
    content.seek(start)
    return list(map(content.read, lengths))  # in a third of the time that slices take
